"""The attack that every "proved" sensitivity must survive: replay a transcript on a neighboring shard.

All released values are frozen, one record is swapped, all randomness is the same. Then nothing but
the query may differ, and the query by no more than its sensitivity, in any round. Where a round has several releases,
one of them at most may differ. Where noise goes into an objective, a query is the noise under which the frozen
minimizer would be released.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.algorithms.base import RemembersNoise, at_weights, draws_shape
from fedspd.engine.release import Drawn
from fedspd.engine.release import release as make_release
from fedspd.engine.round import play_free
from fedspd.problem import Huber, LeastSquares, Loss, Poisson
from fedspd.typing import Argmin, Batches, Private, Query

COLUMNS, BATCH, ROUNDS = 3, 6, 5  # of a small attack
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Shard:
    """One client's records."""

    features: np.ndarray
    labels: np.ndarray

    def with_record(self, index: int, row: np.ndarray, label: Any) -> "Shard":
        """The same shard but for one record."""
        features, labels = self.features.copy(), self.labels.copy()
        features[index], labels[index] = row, label
        return replace(self, features=features, labels=labels)

    def batches(self, drawn: np.ndarray, divisor: float | None = None) -> Batches:
        """`drawn` is (local steps, longest batch): record numbers, or -1 for nobody.

        A batch's sum is divided by its length unless a nominal divisor is given.
        """
        features = np.where(drawn[..., None] < 0, 0.0, self.features[drawn])
        size = float(drawn.shape[1]) if divisor is None else divisor
        return Batches(features[None], self.labels[drawn][None], np.array([size]))


@dataclass(frozen=True)
class Found:
    """What a replay found."""

    worst_ratio: float  # of the query's movement to its sensitivity, over all releases; infinite if it must not move
    state_differs: bool  # something kept or sent depends on the record beside the release
    most_moved: int  # releases of one round that depend on the record
    miss: float  # how far the noise that a released minimizer gives away is from the noise that was drawn

    @property
    def survived(self) -> bool:
        """Whether what was found is allowed."""
        exact = self.miss <= TOLERANCE  # a minimizer that is not exact tells more than its noise
        return self.worst_ratio <= 1 + TOLERANCE and not self.state_differs and self.most_moved <= 1 and exact


def attack(algorithm: Any, row_norm: float, tries: int = 40, seed: int = 0) -> Found:
    """The worst of some replays on random neighbors of a small shard; the server sends what it likes.

    Args:
        algorithm: the method, made concrete.
        row_norm: every feature row is at most this long.
        tries: pairs of neighbors.
        seed: of the pairs.
    """
    rng = np.random.default_rng(seed)
    found = [_one_attack(algorithm, row_norm, rng) for _ in range(tries)]
    return Found(
        max(one.worst_ratio for one in found),
        any(one.state_differs for one in found),
        max(one.most_moved for one in found),
        max(one.miss for one in found),
    )


def _one_attack(algorithm: Any, row_norm: float, rng: np.random.Generator) -> Found:
    steps, outputs = algorithm.local_steps, algorithm.objective.loss.outputs
    records = BATCH * steps
    shard = Shard(_rows(rng, records, row_norm), _labels(rng, algorithm.objective.loss, records))
    swapped = int(rng.integers(records))
    other = [_rows(rng, 1, row_norm)[0], -shard.features[swapped], shard.features[swapped]][rng.integers(3)]
    other = 0 * other if algorithm.relation == "zero-out" else other
    neighbor = shard.with_record(swapped, other, _labels(rng, algorithm.objective.loss, 1)[0])
    drawn = [rng.permutation(records).reshape(steps, BATCH) for _ in range(ROUNDS)]
    servers = rng.standard_normal((ROUNDS, COLUMNS, outputs)) * rng.uniform(0, 3)
    return replay(algorithm, shard, neighbor, drawn, servers, unit_draws(rng, algorithm, ROUNDS, COLUMNS))


def _labels(rng: np.random.Generator, loss: Loss, count: int) -> np.ndarray:
    """Classes; the ends and some between of a number on [-1, 1]; counts from none to the most."""
    if isinstance(loss, Poisson):
        return rng.choice([0.0, 1.0, loss.most], count)
    if isinstance(loss, Huber) or (isinstance(loss, LeastSquares) and not loss.of_classes):
        return rng.choice([-1.0, 0.3, 1.0], count)
    return rng.integers(0, max(loss.outputs, 2), count)


def _rows(rng: np.random.Generator, count: int, norm: float) -> np.ndarray:
    rows = rng.standard_normal((count, COLUMNS))
    return rows * (norm * rng.uniform(0.2, 1.0, (count, 1)) / np.linalg.norm(rows, axis=1, keepdims=True))


def replay(
    algorithm: Any, shard: Shard, neighbor: Shard, draws: list[np.ndarray], servers: np.ndarray, normals: np.ndarray,
    scale: float = 0.1, divisor: float | None = None,
) -> Found:  # fmt: skip
    """Run one client on both shards with the releases of the first."""
    outputs = algorithm.objective.loss.outputs
    server, start, _ = algorithm.start(np.zeros((1, shard.features.shape[1], outputs)))
    first, second, worst, differs, most, miss = start, start, 0.0, False, 0, 0.0
    for round, (drawn, weights) in enumerate(zip(draws, servers, strict=True), start=1):
        told, moved = algorithm.broadcast(at_weights(server, weights), round), 0
        batches, others = (one.batches(drawn, divisor) for one in (shard, neighbor))
        bound = float(np.max(algorithm.sensitivity(round, np.asarray(batches.divisors))))
        free = [play_free(algorithm, told, one) for one in (first, second)] if bound == 0 else [None]
        if free[0] is not None and free[-1] is not None:
            first, second = free[0].client, free[-1].client
            differs = differs or not same(first, second) or not np.array_equal(free[0].replies, free[-1].replies)
            continue
        for step, fresh in releases(algorithm, normals[round - 1]):
            (first, noise), (second, _) = stirred(algorithm, first, fresh), stirred(algorithm, second, fresh)
            query, kept = algorithm.query(told, first, only(batches, step))
            other, other_kept = algorithm.query(told, second, only(others, step))
            noise = scale * noise if bound > 0 else 0 * noise  # what depends on no record gets none
            release = make_release(query, Drawn("gaussian", 1.0, noise))
            apart = np.asarray(told_by(query, release.value)) - np.asarray(told_by(other, release.value))
            moved, worst = moved + bool(np.any(apart)), max(worst, ratio(apart, bound))
            if isinstance(query, Argmin):
                miss = max(miss, float(np.linalg.norm(told_by(query, release.value) + noise)))
            first, reply = algorithm.settle(told, first, release, kept)
            second, other_reply = algorithm.settle(told, second, release, other_kept)
            differs = differs or not same(first, second) or not np.array_equal(reply, other_reply)
        most = max(most, moved)
    return Found(worst, differs, most, miss)


def unit_draws(rng: np.random.Generator, algorithm: Any, rounds: int, columns: int) -> np.ndarray:
    """Normals for one client, of as many rounds; the proofs hold whatever the noise is."""
    return rng.standard_normal((rounds, 1, *draws_shape(algorithm, (columns, algorithm.objective.loss.outputs))))


def releases(algorithm: Any, draws: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Which batches each release of a round uses, and its draws."""
    if algorithm.releases == 1:
        yield slice(None), draws
    else:
        yield from ((slice(step, step + 1), draws[:, step]) for step in range(algorithm.releases))


def only(batches: Batches, steps: slice) -> Batches:
    """The batches of some steps."""
    return Batches(batches.features[:, steps, ...], batches.labels[:, steps, ...], batches.divisors)


def stirred(algorithm: Any, client: Any, draws: np.ndarray) -> tuple[Any, Any]:
    """State and noise of a release, where clients remember draws."""
    return algorithm.stir(client, draws) if isinstance(algorithm, RemembersNoise) else (client, draws)


def told_by(query: Query | Argmin, released: Any) -> Any:
    """What a release tells of the records: the query, or minus the noise under which a minimizer is released."""
    return query.slope(released) if isinstance(query, Argmin) else query.value


def ratio(apart: np.ndarray, bound: float) -> float:
    """Of a movement to what is allowed, which may be nothing."""
    if bound == 0:
        return float("inf") if np.any(apart) else 0.0
    return float(np.linalg.norm(apart)) / bound


def same(first: Any, second: Any) -> bool:
    """Whether two states are equal to the bit."""
    if isinstance(first, tuple):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    return np.array_equal(first, second)


def hides_state(client: Any) -> bool:
    """Whether anything in a client state is declared as un-noised."""
    if isinstance(client, Private):
        return True
    return isinstance(client, tuple) and any(hides_state(field) for field in client)
