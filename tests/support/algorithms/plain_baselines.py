"""The methods FedSPD-DP is compared with, once more, as plainly as can be: one record, one number at a time.

Written from the algorithm boxes of their papers, in the papers' order and signs, and sharing no code with
the package, so that an error must be made twice, in two different ways, to go unseen. Two classes, l1.
Noise is scaled here from (ε, δ) of a round, not taken from the package.
"""

from math import inf, log, sqrt
from statistics import median

from tests.support.algorithms.plain import Matrix, batch_gradient, record_gradient, soft_threshold

Batch = tuple[list[list[float]], list[int]]


class Participation:
    """What one client uses in one round: its batches, one per local step, and standard normals."""

    def __init__(self, batches: list[Batch], normals: Matrix) -> None:
        self.batches, self.normals = batches, normals


Round = dict[int, Participation]


def zeros(columns: int) -> Matrix:
    return [[0.0, 0.0] for _ in range(columns)]


def cells(columns: int) -> list[tuple[int, int]]:
    return [(j, c) for j in range(columns) for c in range(2)]


def multiplier(epsilon: float, delta: float) -> float:
    return sqrt(2 * log(1.25 / delta)) / epsilon


def norm_of(x: Matrix) -> float:
    return sqrt(sum(value * value for row in x for value in row))


def mean_of(points: list[Matrix]) -> Matrix:
    mean = zeros(len(points[0]))
    for j, c in cells(len(mean)):
        mean[j][c] = sum(point[j][c] for point in points) / len(points)
    return mean


def dp_sgd(
    rounds: list[Round], columns: int, rate: float, clip: float | None, epsilon: float, delta: float, strength: float
) -> list[Matrix]:
    """Abadi et al. 2016, one step per client and round, step size rate/√t; replace-one, so twice the clipping bound.

    Without a clipping bound: the median of the norms of the un-clipped gradients of the batch.
    """
    w, models = zeros(columns), []
    for t, participants in enumerate(rounds, start=1):
        sent = []
        for one in participants.values():
            ((records, labels),) = one.batches
            norms = [norm_of(record_gradient(w, a, y, inf)) for a, y in zip(records, labels, strict=True)]
            bound = median(norms) if clip is None else clip
            deviation = multiplier(epsilon, delta) * 2 * bound / len(records)
            gradient = batch_gradient(w, records, labels, bound)
            for j, c in cells(columns):
                gradient[j][c] += deviation * one.normals[j][c]
            sent.append(gradient)
        eta, mean = rate / sqrt(t), mean_of(sent)
        w = [[soft_threshold(w[j][c] - eta * mean[j][c], eta * strength) for c in range(2)] for j in range(columns)]
        models.append(w)
    return models


def dp_fedavg(
    rounds: list[Round],
    columns: int,
    rate: float,
    mu: float,
    bound: float,
    epsilon: float,
    delta: float,
    strength: float,
    one_batch_per_record: bool,
) -> list[Matrix]:
    """FedAvg: Q proximal SGD steps on f_i + μ/2 |x - w|² (FedProx if μ > 0), noise on the last one, mean over S_t.

    1/η = √t/rate + μ. A record moves the last point by 2ηG/b if it is in one batch and later steps do not
    widen the gap, by 2ηQG if nothing is known.
    """
    w, models = zeros(columns), []
    for t, participants in enumerate(rounds, start=1):
        eta = 1 / (sqrt(t) / rate + mu)
        sent = []
        for one in participants.values():
            x = w
            for records, labels in one.batches:
                gradient, new = batch_gradient(x, records, labels, bound), zeros(columns)
                for j, c in cells(columns):
                    slope = gradient[j][c] + mu * (x[j][c] - w[j][c])
                    new[j][c] = soft_threshold(x[j][c] - eta * slope, eta * strength)
                x = new
            moved = 1 / len(one.batches[0][0]) if one_batch_per_record else len(one.batches)
            deviation = multiplier(epsilon, delta) * 2 * eta * bound * moved
            sent.append([[x[j][c] + deviation * one.normals[j][c] for c in range(2)] for j in range(columns)])
        w = mean_of(sent)
        models.append(w)
    return models


def dp_admm(
    rounds: list[Round], columns: int, rho: float, c1: float, c_w: float, epsilon: float, delta: float, strength: float
) -> list[Matrix]:
    """Huang et al. 2020 on the whole shards of all clients: primal, noise, server, and then the dual.

    The step size is the published one for objectives that are not smooth, with the mean number of records.
    """
    clients = list(rounds[0])
    noised, dual = {i: zeros(columns) for i in clients}, {i: zeros(columns) for i in clients}
    w, models = zeros(columns), []
    mean_records = sum(len(rounds[0][i].batches[0][0]) for i in clients) / len(clients)
    dimension = 2 * columns
    for k, participants in enumerate(rounds, start=1):
        inside = c1**2 + 8 * dimension * c1**2 * log(1.25 / delta) / (mean_records**2 * epsilon**2)
        eta = c_w / sqrt(2 * k) / sqrt(inside)
        for i, one in participants.items():
            ((records, labels),) = one.batches
            deviation = 2 * c1 * sqrt(2 * log(1.25 / delta)) / (len(records) * epsilon * (rho + 1 / eta))
            gradient, new = batch_gradient(noised[i], records, labels, c1), zeros(columns)
            for j, c in cells(columns):
                old = noised[i][j][c]
                sign = 0.0 if old == 0 else old / abs(old)
                pull = rho * w[j][c] + dual[i][j][c] + old / eta - gradient[j][c] - strength * sign
                new[j][c] = pull / (rho + 1 / eta) + deviation * one.normals[j][c]
            noised[i] = new
        w = mean_of(
            [
                [[noised[i][j][c] - dual[i][j][c] / rho for c in range(2)] for j in range(columns)]
                for i in clients
            ]
        )  # fmt: skip
        for i in clients:
            for j, c in cells(columns):
                dual[i][j][c] -= rho * (noised[i][j][c] - w[j][c])
        models.append(w)
    return models


def fedpd(rounds: list[Round], columns: int, eta: float, gamma: float, strength: float) -> list[Matrix]:
    """Zhang et al. 2021, in their sign of λ: all clients, local proximal SGD on the augmented Lagrangian, no skipping.

    L_i(x) = f_i(x) + ⟨λ_i, x - x_0⟩ + |x - x_0|²/(2η), with step size 1/(γ + 1/η).
    """
    clients = list(rounds[0])
    x, dual = {i: zeros(columns) for i in clients}, {i: zeros(columns) for i in clients}
    x0, models = zeros(columns), []
    step = 1 / (gamma + 1 / eta)
    for participants in rounds:
        sent = []
        for i, one in participants.items():
            for records, labels in one.batches:
                gradient, new = batch_gradient(x[i], records, labels, inf), zeros(columns)
                for j, c in cells(columns):
                    slope = gradient[j][c] + dual[i][j][c] + (x[i][j][c] - x0[j][c]) / eta
                    new[j][c] = soft_threshold(x[i][j][c] - step * slope, step * strength)
                x[i] = new
            for j, c in cells(columns):
                dual[i][j][c] += (x[i][j][c] - x0[j][c]) / eta
            sent.append([[x[i][j][c] + eta * dual[i][j][c] for c in range(2)] for j in range(columns)])
        x0 = mean_of(sent)
        models.append(x0)
    return models
