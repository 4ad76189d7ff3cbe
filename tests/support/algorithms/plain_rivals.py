"""The rivals beyond Table 1 once more, as plainly as can be, in the order, signs and variables of their papers.

They share no code with the package. Two classes, l1; noise comes in units and is scaled here from (ε, δ) of a round.
"""

from math import factorial, sqrt

import numpy as np

from tests.support.algorithms.plain_table_one import (
    Point,
    Records,
    Round,
    argmin,
    mean,
    multiplier,
    on_top,
    starting,
    thresholded,
)


def private_admm(
    rounds: list[Round], clients: int, shape: tuple[int, int], rho: float, relaxation: float, bound: float,
    strength: float, epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Cyffers, Bellet and Basu 2023, federated: the server adds up what the u of sampled users gained.

    The published z is prox(z + gain), of which the point before prox is kept here; without l1 it is z itself.
    """
    u = starting(range(clients), shape)
    before_prox, z, models = np.zeros(shape), np.zeros(shape), []
    for participants in rounds:
        gains = []
        for i, one in participants.items():
            center = 2 * z - u[i]
            x = argmin(lambda x, c=center, s=one.shard: s.slope(x, bound) + rho * (x - c), z)
            moves = (1 + 1e-4) * 2 * relaxation * 2 * bound / (one.shard.nominal * rho)  # as computed
            gain = 2 * relaxation * (x - z) + multiplier(epsilon, delta) * moves * one.noise
            u[i] = u[i] + gain
            gains.append(gain)
        before_prox = before_prox + sum(gains, np.zeros(shape)) / clients
        z = thresholded(before_prox, strength / rho)
        models.append(z)
    return models


def scaffold(
    rounds: list[Round], clients: int, shape: tuple[int, int], rate: float, bound: float, strength: float,
    epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Noble, Bellet and Dieuleveut 2022, with a server step of 1: Δy and Δc are sent; l1 by proximal local steps.

    The new control is the mean of the noised gradients, which without l1 is c_i - c + (x - y)/(K rate).
    """
    x, c, controls = np.zeros(shape), np.zeros(shape), starting(range(clients), shape)
    models = []
    for participants in rounds:
        dy, dc = [], []
        for i, one in participants.items():
            y, seen = x, []
            for batch, noise in zip(one.batches, one.noises, strict=True):
                noised = batch.slope(y, bound) + multiplier(epsilon, delta) * 2 * bound / batch.nominal * noise
                y = thresholded(y - rate * (noised - controls[i] + c), rate * strength)
                seen.append(noised)
            new = sum(seen, np.zeros(shape)) / len(seen)
            if strength == 0:
                np.testing.assert_allclose(new, controls[i] - c + (x - y) / (len(seen) * rate), atol=1e-12)
            dy.append(y - x)
            dc.append(new - controls[i])
            controls[i] = new
        x = x + sum(dy, np.zeros(shape)) / len(dy)
        c = c + sum(dc, np.zeros(shape)) / clients
        models.append(x)
    return models


def noisy_prox_gd(
    rounds: list[Round], shape: tuple[int, int], rate: float, momentum: float, bound: float, strength: float,
    epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Noisy gradients of whole shards, with Nesterov's step ahead and a fixed momentum."""
    models = [np.zeros(shape), np.zeros(shape)]
    for participants in rounds:
        ahead = models[-1] + momentum * (models[-1] - models[-2])
        sent = {}
        for i, one in participants.items():
            deviation = multiplier(epsilon, delta) * 2 * bound / one.shard.nominal
            sent[i] = one.shard.slope(ahead, bound) + deviation * one.noise
        models.append(thresholded(ahead - rate * mean(sent), rate * strength))
    return models[2:]


def banded_square_root(bands: int, size: int) -> np.ndarray:
    """The lower triangle of 1s has a root whose diagonals are those of 1/sqrt(1-x); cut off, columns of norm 1."""
    diagonals = [factorial(2 * j) / factorial(j) ** 2 / 4**j for j in range(bands)]
    matrix = np.zeros((size, size))
    for row in range(size):
        for back, value in enumerate(diagonals[: row + 1]):
            matrix[row, row - back] = value
    return matrix / sqrt(sum(value**2 for value in diagonals))


def leader(total: Point, rounds: int, gamma: float, strength: float) -> Point:
    """argmin <S, w> + t λ |w|_1 + γ/2 |w|², each weight by itself: the best of either sign and zero."""

    def value(w: float, slope: float) -> float:
        return slope * w + rounds * strength * abs(w) + gamma / 2 * w * w

    best = np.zeros_like(total)
    for place, slope in np.ndenumerate(total):
        positive = max(0.0, -(slope + rounds * strength) / gamma)
        negative = min(0.0, -(slope - rounds * strength) / gamma)
        best[place] = min((0.0, positive, negative), key=lambda w, slope=slope: value(w, slope))
    return best


def ftrl(
    rounds: list[Round], clients: int, shape: tuple[int, int], gamma: float, bands: int, bound: float, strength: float,
    epsilon: float, delta: float,
) -> list[Point]:  # fmt: skip
    """Follow the regularized leader: noises of all participations of a client at once, from C n = z."""
    drawn = {i: [one.noise for told in rounds for j, one in told.items() if j == i] for i in range(clients)}
    noises = {}
    for i, fresh in drawn.items():
        flat = np.array(fresh).reshape(len(fresh), -1)
        noises[i] = np.linalg.solve(banded_square_root(bands, len(fresh)), flat).reshape(len(fresh), *shape)
    turns = dict.fromkeys(range(clients), 0)
    total, w, models = np.zeros(shape), np.zeros(shape), []
    for t, participants in enumerate(rounds, start=1):
        sent = {}
        for i, one in participants.items():
            turn = slice(turns[i] % bands, None, bands)
            block = Records(one.shard.records[turn], one.shard.labels[turn], one.shard.nominal / bands)
            deviation = multiplier(epsilon, delta) * 2 * bound / block.nominal
            sent[i] = block.slope(w, bound) + deviation * noises[i][turns[i]]
            turns[i] += 1
        total = total + mean(sent)
        w = leader(total, t, gamma, strength)
        models.append(w)
    return models


def one_shot(
    rounds: list[Round], shape: tuple[int, int], mu: float, rho: float, bound: float, epsilon: float
) -> list[Point]:
    """Chaudhuri, Monteleoni and Sarwate 2011 at every client, J + b·f/n + Δ/2 |f|², and the mean; squared l2."""
    (participants,) = rounds
    found = {}
    for i, one in participants.items():
        tilt = one.noise * 2 * bound / epsilon / one.shard.nominal
        found[i] = argmin(lambda f, s=one.shard, b=tilt: s.slope(f, bound) + (rho + mu) * f + b, np.zeros(shape))
        found[i] = found[i] + on_top(one, epsilon, bound, rho + mu)
    return [mean(found)]


def consensus_admm(
    rounds: list[Round], clients: int, shape: tuple[int, int], rho: float, bound: float, strength: float
) -> list[Point]:
    """The textbook's order, without noise: every x_i, then z, then the duals with the new z."""
    dual, z, models = starting(range(clients), shape), np.zeros(shape), []
    for participants in rounds:
        x = {}
        for i, one in participants.items():
            x[i] = argmin(lambda x, i=i, z=z, s=one.shard: s.slope(x, bound) + dual[i] + rho * (x - z), z)
        z = thresholded(mean({i: x[i] + dual[i] / rho for i in x}), strength / rho)
        for i in x:
            dual[i] = dual[i] + rho * (x[i] - z)
        models.append(z)
    return models
