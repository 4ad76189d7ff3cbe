"""FedSPD-DP once more, as plainly as can be: one client, one record, one number at a time.

Written from the paper's algorithm box and sharing no code with the package, so that an error must
be made twice, in two different ways, to go unseen. Two classes, l1.
"""

from math import exp, sqrt

Matrix = list[list[float]]


def record_gradient(x: Matrix, record: list[float], label: int, bound: float) -> Matrix:
    score = [sum(a * row[c] for a, row in zip(record, x, strict=True)) for c in range(2)]
    top = max(score)
    weights = [exp(s - top) for s in score]
    residual = [w / sum(weights) - (1.0 if c == label else 0.0) for c, w in enumerate(weights)]
    gradient = [[a * r for r in residual] for a in record]
    norm = sqrt(sum(g * g for row in gradient for g in row))
    return [[g * min(1.0, bound / norm) if norm > 0 else g for g in row] for row in gradient]


def batch_gradient(x: Matrix, records: list[list[float]], labels: list[int], bound: float) -> Matrix:
    total = [[0.0, 0.0] for _ in x]
    for record, label in zip(records, labels, strict=True):
        for row, other in zip(total, record_gradient(x, record, label, bound), strict=True):
            for c in range(2):
                row[c] += other[c] / len(records)
    return total


def soft_threshold(value: float, threshold: float) -> float:
    if value > threshold:
        return value - threshold
    return value + threshold if value < -threshold else 0.0


def fedspd(rounds: list[dict], clients: int, columns: int, rho: float, strength: float, bound: float) -> list[Matrix]:
    """Server models after each round.

    Each round is {"gamma", "sigma", "clients": {i: {"batches": [(records, labels)], "normals"}}}.
    """

    def zero() -> Matrix:
        return [[0.0, 0.0] for _ in range(columns)]

    last = {i: zero() for i in range(clients)}
    dual = {i: zero() for i in range(clients)}
    upload = {i: zero() for i in range(clients)}
    models = []
    cells = [(j, c) for j in range(columns) for c in range(2)]
    for step in rounds:
        gamma, sigma = step["gamma"], step["sigma"]
        x0 = zero()
        for j, c in cells:
            x0[j][c] = sum(upload[i][j][c] for i in range(clients)) / clients
        for i, drawn in step["clients"].items():
            x, average = last[i], zero()
            for records, labels in drawn["batches"]:
                gradient, new = batch_gradient(x, records, labels, bound), zero()
                for j, c in cells:
                    point = (gamma * x[j][c] + rho * x0[j][c] + dual[i][j][c] - gradient[j][c]) / (gamma + rho)
                    new[j][c] = soft_threshold(point, strength / (gamma + rho))
                    average[j][c] += new[j][c] / len(drawn["batches"])
                x = new
            last[i] = x
            for j, c in cells:
                dual[i][j][c] -= rho * (average[j][c] - x0[j][c])
                upload[i][j][c] = average[j][c] - dual[i][j][c] / rho + sigma * drawn["normals"][j][c]
        models.append(
            [[sum(upload[i][j][c] for i in range(clients)) / clients for c in range(2)] for j in range(columns)]
        )
    return models
