"""The ADMM methods of Table 1 once more, as plainly as can be: one node, one neighbor, one record at a time.

Written from the algorithm boxes of their papers, in the papers' order, signs and variables, and sharing no code with
the package, so that an error must be made twice, in two different ways, to go unseen. Two classes; exact sub-problems
have squared l2, ρ/2 |f|², other methods l1. Noise comes in units and is scaled here from the budget of a round.
"""

from collections.abc import Callable, Sequence
from math import exp, inf, log, sqrt

import numpy as np
from scipy.optimize import root

from tests.support.algorithms.plain import batch_gradient, record_gradient, soft_threshold

Point = np.ndarray
Graph = dict[int, list[int]]


class Records:
    """A batch, and the slope of its loss with every record's gradient held to a norm: a sum over the nominal size."""

    def __init__(self, records: list[list[float]], labels: list[int], nominal: float) -> None:
        self.records, self.labels, self.nominal = records, labels, nominal

    def slope(self, f: Point, bound: float) -> Point:
        return np.array(batch_gradient(f.tolist(), self.records, self.labels, bound)) * len(self.labels) / self.nominal

    def slope_of_flipped(self, f: Point, bound: float, label_epsilon: float) -> Point:
        """Of (e^ε l(y) - l(-y)) / (e^ε - 1), which has the mean l of the label before it was flipped."""
        total = np.zeros_like(f)
        for record, label in zip(self.records, self.labels, strict=True):
            one, other = (np.array(record_gradient(f.tolist(), record, y, inf)) for y in (label, 1 - label))
            slope = (exp(label_epsilon) * one - other) / (exp(label_epsilon) - 1)
            total += slope * min(1.0, bound / np.linalg.norm(slope))
        return total / self.nominal


class Participation:
    """What one client uses in one round: its batches, one per local step, and its noises of scale 1."""

    def __init__(self, batches: list[Records], noises: list[Point]) -> None:
        self.batches, self.noises = batches, noises

    @property
    def shard(self) -> Records:
        (shard,) = self.batches
        return shard

    @property
    def noise(self) -> Point:
        return self.noises[0]

    @property
    def on_top(self) -> Point:
        """Of noise in an objective, the second, on its minimizer."""
        return self.noises[1]


Round = dict[int, Participation]


def argmin(slope: Callable[[Point], Point], start: Point) -> Point:
    """Where the slope of a strongly convex function vanishes, by Powell's hybrid method."""
    found = root(lambda x: slope(x.reshape(start.shape)).ravel(), start.ravel(), tol=1e-15).x.reshape(start.shape)
    assert np.linalg.norm(slope(found)) < 1e-11
    return found


def node_minimum(
    slope: Callable[[Point], Point], rho: float, linear: Point, eta: float, centers: list[Point], start: Point
) -> Point:
    """argmin of loss + ρ/2 |f|² + linear·f + η Σ |f - center|²."""
    return argmin(lambda f: slope(f) + rho * f + linear + sum(2 * eta * (f - center) for center in centers), start)


def multiplier(epsilon: float, delta: float) -> float:
    return sqrt(2 * log(1.25 / delta)) / epsilon


def starting(clients: Sequence[int], shape: tuple[int, int]) -> dict[int, Point]:
    return {client: np.zeros(shape) for client in clients}


def mean(points: dict[int, Point]) -> Point:
    return sum(points.values(), np.zeros(1)) / len(points)


def fewest_neighbors(graph: Graph) -> int:
    """Of a node: how curved all sub-problems are at least."""
    return min(len(others) for others in graph.values())


def on_top(one: Participation, epsilon: float, bound: float, curvature: float) -> Point:
    """The Gaussian on a computed minimizer: 25 √d times the noise 2G/(B ε) in the objective, times 1e-4 / curvature."""
    scale = 2 * bound / (one.shard.nominal * epsilon)
    return 25 * np.sqrt(one.on_top.size) * scale * 1e-4 / curvature * one.on_top


def dvp(
    rounds: list[Round], graph: Graph, shape: tuple[int, int], eta: float, rho: float, bound: float, alpha: float
) -> list[Point]:
    """Zhang and Zhu 2017, dual variable perturbation: μ = λ + ε/(2B), ε of density ∝ exp(-ζ|ε|), ζ = α/2G."""
    f, lam, models = starting(list(graph), shape), starting(list(graph), shape), []
    for participants in rounds:
        new = {}
        for p, one in participants.items():
            epsilon = one.noise / (alpha / (2 * bound))
            mu = lam[p] + epsilon / (2 * one.shard.nominal)
            centers = [(f[p] + f[i]) / 2 for i in graph[p]]
            new[p] = node_minimum(lambda x, s=one.shard: s.slope(x, bound), rho, 2 * mu, eta, centers, f[p])
            new[p] = new[p] + on_top(one, alpha, bound, rho + 2 * eta * fewest_neighbors(graph))
        f = new
        for p in graph:
            for i in graph[p]:
                lam[p] = lam[p] + eta / 2 * (f[p] - f[i])
        models.append(mean(f))
    return models


def pvp(
    rounds: list[Round], graph: Graph, shape: tuple[int, int], eta: float, rho: float, bound: float, alpha: float,
    hidden: bool,
) -> list[Point]:  # fmt: skip
    """Zhang and Zhu 2017, primal variable perturbation: neighbors see V = f + ε, ε of density ∝ exp(-ξ|ε|).

    Hidden, as published: a node's own f in its centers, and ξ = ρBα/2G. Else V there too, and ξ with all of the
    curvature that the node of fewest neighbors has.
    """
    f, lam, models = starting(list(graph), shape), starting(list(graph), shape), []
    seen = dict(f)
    fewest = fewest_neighbors(graph)
    for participants in rounds:
        new, noised = {}, {}
        for p, one in participants.items():
            centers = [((f if hidden else seen)[p] + seen[i]) / 2 for i in graph[p]]
            new[p] = node_minimum(lambda x, s=one.shard: s.slope(x, bound), rho, 2 * lam[p], eta, centers, f[p])
            curvature = rho if hidden else rho + 2 * eta * fewest
            off = 1.0 if hidden else 1.0 + 1e-4  # what a computed minimizer may be off by
            noised[p] = new[p] + off * one.noise / (curvature * one.shard.nominal * alpha / (2 * bound))
        f, seen = new, noised
        for p in graph:
            for i in graph[p]:
                lam[p] = lam[p] + eta / 2 * (seen[p] - seen[i])
        models.append(mean(seen))
    return models


def madmm(
    rounds: list[Round], graph: Graph, shape: tuple[int, int], theta: float, growth: float, rho: float, bound: float,
    epsilon: float,
) -> list[Point]:  # fmt: skip
    """Zhang, Khalili and Liu 2018: the penalty η_i(t) = θ q^(t-1) grows, and the noise is inside it.

    η_i(t) Σ_j |(f_i + f_j)/2 + ε_i - f|² with ε_i of density ∝ exp(-α_i(t)|ε|): in the objective it is a linear
    term -2 η V ε, of which a round may cost ε = 2G/(B · 2ηV/α).
    """
    f, lam, models = starting(list(graph), shape), starting(list(graph), shape), []
    for t, participants in enumerate(rounds, start=1):
        eta, new = theta * growth ** (t - 1), {}
        for i, one in participants.items():
            neighbors = len(graph[i])
            alpha = 2 * eta * neighbors * one.shard.nominal * epsilon / (2 * bound)
            noise = -one.noise / alpha  # as likely as the noise itself: what the engine adds is the linear term
            centers = [(f[i] + f[j]) / 2 + noise for j in graph[i]]
            new[i] = node_minimum(lambda x, s=one.shard: s.slope(x, bound), rho, 2 * lam[i], eta, centers, f[i])
            new[i] = new[i] + on_top(one, epsilon, bound, rho + 2 * theta * fewest_neighbors(graph))
        f = new
        for i in graph:
            for j in graph[i]:
                lam[i] = lam[i] + theta / 2 * (f[i] - f[j])
        models.append(mean(f))
    return models


def radmm(
    rounds: list[Round], graph: Graph, shape: tuple[int, int], eta: float, gamma: float, rho: float, bound: float,
    epsilon: float,
) -> list[Point]:  # fmt: skip
    """Zhang, Khalili and Liu 2018, recycled: even rounds take a step along ∇O_i(f_i(2k-1)) + ε_i once more."""
    f, lam, models = starting(list(graph), shape), starting(list(graph), shape), []
    recycled: dict[int, Point] = {}
    for t, participants in enumerate(rounds, start=1):
        new = {}
        for i, one in participants.items():
            shard = one.shard
            if t % 2:
                noise = one.noise * 2 * bound / (shard.nominal * epsilon)
                centers = [(f[i] + f[j]) / 2 for j in graph[i]]
                linear = 2 * lam[i] + noise
                new[i] = node_minimum(lambda x, s=shard: s.slope(x, bound), rho, linear, eta, centers, f[i])
                more = on_top(one, epsilon, bound, rho + 2 * eta * fewest_neighbors(graph))
                recycled[i] = shard.slope(new[i], bound) + rho * new[i] + noise  # of the minimizer
                recycled[i] = recycled[i] - 2 * eta * len(graph[i]) * more  # read off at what was released
                new[i] = new[i] + more
            else:
                slope = recycled[i] + 2 * lam[i]
                for j in graph[i]:
                    slope = slope + eta * (f[i] - f[j])
                new[i] = f[i] - slope / (2 * eta * len(graph[i]) + gamma)
        f = new
        for i in graph:
            for j in graph[i]:
                lam[i] = lam[i] + eta / 2 * (f[i] - f[j])
        models.append(mean(f))
    return models


def lr_admm(
    rounds: list[Round], graph: Graph, shape: tuple[int, int], eta: float, rho: float, bound: float, tilting: float,
    label_epsilon: float, deviation: Callable[[float], float],
) -> list[Point]:  # fmt: skip
    """Wang et al. 2020, reconstructed: flipped labels, noise h/m drawn once, and noise on what neighbors see.

    Args:
        deviation: of the latter, for so many records.
    """
    seen, lam, models = starting(list(graph), shape), starting(list(graph), shape), []
    drawn_once = {i: tilting * bound * one.noises[1] for i, one in rounds[0].items()}
    for participants in rounds:
        new = {}
        for i, one in participants.items():
            shard = one.shard
            centers = [(seen[i] + seen[j]) / 2 for j in graph[i]]
            linear = 2 * lam[i] + drawn_once[i] / shard.nominal
            least = node_minimum(
                lambda x, s=shard: s.slope_of_flipped(x, bound, label_epsilon), rho, linear, eta, centers, seen[i]
            )
            new[i] = least + deviation(shard.nominal) * one.noise
        seen = new
        for i in graph:
            for j in graph[i]:
                lam[i] = lam[i] + eta / 2 * (seen[i] - seen[j])
        models.append(mean(seen))
    return models


def aadmm(
    rounds: list[Round], clients: int, shape: tuple[int, int], rho: float, bound: float, strength: float, shares: int,
    epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Guo and Gong 2018, reconstructed: consensus ADMM with l1 at the server, which waits for some of the clients."""
    lam, sent = starting(range(clients), shape), starting(range(clients), shape)
    z, models = np.zeros(shape), []
    for arrivals in rounds:
        for i, one in arrivals.items():
            w = argmin(lambda x, i=i, z=z, s=one.shard: s.slope(x, bound) + lam[i] + rho * (x - z), z)
            lam[i] = lam[i] + rho * (w - z)
            of_the_sum = multiplier(epsilon, delta) * 4 * bound / (one.shard.nominal * rho)
            sent[i] = w + lam[i] / rho + of_the_sum / sqrt(shares) * one.noise
        # of Σ_i λ |z| + ρ/2 |z - sent_i|²
        z = thresholded(mean(sent), clients * strength / (clients * rho))
        models.append(z)
    return models


def multi_step(
    rounds: list[Round], clients: int, shape: tuple[int, int], rho: float, eta: Callable[[int], float], bound: float,
    strength: float, epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Huang and Gong 2020, reconstructed; with one step PS-ADMM (Ding et al. 2019), reconstructed too.

    All clients, and as in DP-ADMM the dual comes last.
    """
    own, dual = starting(range(clients), shape), starting(range(clients), shape)
    w, models = np.zeros(shape), []
    for k, participants in enumerate(rounds, start=1):
        for i, one in participants.items():
            x, points = own[i], []
            for batch, noise in zip(one.batches, one.noises, strict=True):
                noised = batch.slope(x, bound) + multiplier(epsilon, delta) * 2 * bound / batch.nominal * noise
                slope = noised + strength * np.sign(x)
                # argmin over y of <slope, y> - <dual, y - w> + ρ/2 |y - w|² + |y - x|²/2η
                x = (rho * w + dual[i] + x / eta(k) - slope) / (rho + 1 / eta(k))
                points.append(x)
            own[i] = sum(points, np.zeros(shape)) / len(points)
        w = mean({i: own[i] - dual[i] / rho for i in own})
        for i in own:
            dual[i] = dual[i] - rho * (own[i] - w)
        models.append(w)
    return models


def thresholded(x: Point, threshold: float) -> Point:
    return np.array([[soft_threshold(value, threshold) for value in row] for row in x.tolist()])
