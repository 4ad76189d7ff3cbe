"""The attack that every "proved" sensitivity must survive: replay a transcript on a neighboring shard.

All released values are frozen, one record, or one person with all of its rows, is swapped, all randomness is the same.
Then nothing but the query may differ, and the query by no more than its sensitivity, in any round. Where a round has
several releases, one of them at most may differ. Where noise goes into an objective, a query is the noise under which
a frozen point would be the exact minimizer; and what each shard computes under its own is as close to that point as the
second noise counts on, which hides the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.algorithms.base import RemembersNoise, Told, at_weights, draws_shape
from fedspd.data import Shards
from fedspd.data.holding.units import Units
from fedspd.engine.batches import gather_batches
from fedspd.engine.release import Drawn
from fedspd.engine.release import release as make_release
from fedspd.engine.round import play_free
from fedspd.problem import Huber, LeastSquares, Loss, Poisson
from fedspd.typing import Argmin, Batches, Private, Query

COLUMNS, BATCH, ROUNDS = 3, 6, 5  # of a small attack
MOST_ROWS = 4  # of a person in it
TOLERANCE = 1e-9
STRETCH = 3.0  # any number will do: it is applied to what was released


@dataclass(frozen=True)
class Shard:
    """One client's records, or those of its persons."""

    features: np.ndarray
    labels: np.ndarray
    starts: np.ndarray | None = None  # where each person's rows begin, and where the last one's end; None: no persons

    def with_person(self, index: int, rows: np.ndarray, labels: np.ndarray) -> "Shard":
        """The same shard but for one person, who may have another number of rows."""
        assert self.starts is not None, "a shard of persons"
        begin, end = self.starts[index : index + 2].tolist()
        features = np.concatenate([self.features[:begin], rows, self.features[end:]])
        shift = np.where(np.arange(len(self.starts)) > index, len(rows) - (end - begin), 0)
        return Shard(features, np.concatenate([self.labels[:begin], labels, self.labels[end:]]), self.starts + shift)

    def with_record(self, index: int, row: np.ndarray, label: Any) -> "Shard":
        """The same shard but for one record."""
        features, labels = self.features.copy(), self.labels.copy()
        features[index], labels[index] = row, label
        return replace(self, features=features, labels=labels)

    def batches(self, drawn: np.ndarray, divisor: float | None = None) -> Batches:
        """`drawn` is (local steps, longest batch): numbers of records or of persons, or -1 for nobody.

        A batch's sum is divided by its length unless a nominal divisor is given.
        """
        size = float(drawn.shape[1]) if divisor is None else divisor
        if self.starts is not None:
            units = Units("person", self.starts, np.array([0, len(self.starts) - 1]))
            shards = Shards(self.features, self.labels, np.array([0, len(self.labels)]), None, units=units)
            return gather_batches(shards, np.array([0]), drawn[None], np.array([size]))
        features = np.where(drawn[..., None] < 0, 0.0, self.features[drawn])
        return Batches(features[None], self.labels[drawn][None], np.array([size]))


@dataclass(frozen=True)
class Found:
    """What a replay found."""

    ratios: tuple[tuple[float, ...], ...]  # of a query's movement to its sensitivity, by round and release of it
    state_differs: bool  # something kept or sent depends on the record beside the release
    most_moved: int  # releases of one round that depend on the record
    miss: float  # how far computed minimizers are off, over what the Gaussian on them counts on

    @property
    def worst_ratio(self) -> float:
        """The largest, infinite where something moved that must not; zero where there were free rounds only."""
        return max((ratio for round in self.ratios for ratio in round), default=0.0)

    @property
    def survived(self) -> bool:
        """Whether what was found is allowed."""
        hidden = self.miss <= 1 + TOLERANCE
        return self.worst_ratio <= 1 + TOLERANCE and not self.state_differs and self.most_moved <= 1 and hidden


def attack(algorithm: Any, row_norm: float, tries: int = 40, seed: int = 0, unit: str = "record") -> Found:
    """The worst of some replays on random neighbors of a small shard; the server sends what it likes.

    Args:
        algorithm: the method, made concrete.
        row_norm: every feature row is at most this long.
        tries: pairs of neighbors.
        seed: of the pairs.
        unit: what they differ in, "record" or "person".
    """
    rng = np.random.default_rng(seed)
    found = [_one_attack(algorithm, row_norm, rng, unit) for _ in range(tries)]
    return worst(found)


def worst(found: list[Found]) -> Found:
    """All that several replays of a method found, each of as many rounds."""
    return Found(
        tuple(tuple(map(max, zip(*round, strict=True))) for round in zip(*(one.ratios for one in found), strict=True)),
        any(one.state_differs for one in found),
        max(one.most_moved for one in found),
        max(one.miss for one in found),
    )


def _one_attack(algorithm: Any, row_norm: float, rng: np.random.Generator, unit: str) -> Found:
    steps, outputs = algorithm.local_steps, algorithm.objective.loss.outputs
    records = BATCH * steps
    shard, neighbor = (_pair if unit == "record" else _pair_of_persons)(algorithm, row_norm, rng, records)
    drawn = [rng.permutation(records).reshape(steps, BATCH) for _ in range(ROUNDS)]
    servers = rng.standard_normal((ROUNDS, COLUMNS, outputs)) * rng.uniform(0, 3)
    return replay(algorithm, shard, neighbor, drawn, servers, unit_draws(rng, algorithm, ROUNDS, COLUMNS))


def _pair(algorithm: Any, row_norm: float, rng: np.random.Generator, records: int) -> tuple[Shard, Shard]:
    loss = algorithm.objective.loss
    shard = Shard(random_rows(rng, records, row_norm), random_labels(rng, loss, records))
    swapped = int(rng.integers(records))
    other = [random_rows(rng, 1, row_norm)[0], -shard.features[swapped], shard.features[swapped]][rng.integers(3)]
    other = 0 * other if algorithm.relation == "zero-out" else other
    return shard, shard.with_record(swapped, other, random_labels(rng, loss, 1)[0])


def _pair_of_persons(algorithm: Any, row_norm: float, rng: np.random.Generator, persons: int) -> tuple[Shard, Shard]:
    """One person has other rows, and another number of them: all different, or all alike, which move most."""
    loss, counts = algorithm.objective.loss, rng.integers(1, MOST_ROWS + 1, persons)
    starts = np.concatenate([[0], np.cumsum(counts)])
    shard = Shard(random_rows(rng, starts[-1], row_norm), random_labels(rng, loss, starts[-1]), starts)
    swapped, count = int(rng.integers(persons)), int(rng.integers(1, MOST_ROWS + 1))
    one, label = random_rows(rng, 1, row_norm), random_labels(rng, loss, 1)
    if rng.integers(2):
        shard = shard.with_person(swapped, np.repeat(one, MOST_ROWS, axis=0), np.repeat(label, MOST_ROWS))
        others, labels = np.repeat(-one, count, axis=0), np.repeat(label, count)
    else:
        others, labels = random_rows(rng, count, row_norm), random_labels(rng, loss, count)
    others = 0 * others if algorithm.relation == "zero-out" else others
    return shard, shard.with_person(swapped, others, labels)


def random_labels(rng: np.random.Generator, loss: Loss, count: int) -> np.ndarray:
    """Classes; the ends and some between of a number on [-1, 1]; counts from none to the most."""
    if isinstance(loss, Poisson):
        return rng.choice([0.0, 1.0, loss.most], count)
    if isinstance(loss, Huber) or (isinstance(loss, LeastSquares) and not loss.of_classes):
        return rng.choice([-1.0, 0.3, 1.0], count)
    return rng.integers(0, max(loss.outputs, 2), count)


def random_rows(rng: np.random.Generator, count: int, norm: float) -> np.ndarray:
    """Of any direction, and of lengths up to the longest."""
    rows = rng.standard_normal((count, COLUMNS))
    return rows * (norm * rng.uniform(0.2, 1.0, (count, 1)) / np.linalg.norm(rows, axis=1, keepdims=True))


def replay(
    algorithm: Any, shard: Shard, neighbor: Shard, draws: list[np.ndarray], servers: np.ndarray, normals: np.ndarray,
    scale: float = 0.1, divisor: float | None = None,
) -> Found:  # fmt: skip
    """Run one client on both shards with the releases of the first."""
    outputs = algorithm.objective.loss.outputs
    server, start, _ = algorithm.start(np.zeros((1, shard.features.shape[1], outputs)))
    first, second, differs, most, miss = start, start, False, 0, 0.0
    ratios: list[tuple[float, ...]] = []
    for round, (drawn, weights) in enumerate(zip(draws, servers, strict=True), start=1):
        told, moved = algorithm.broadcast(at_weights(server, weights), round), 0
        told = told._replace(stretch=STRETCH) if isinstance(told, Told) else told
        batches, others = _as_long(*(one.batches(drawn, divisor) for one in (shard, neighbor)))
        bound = float(np.max(algorithm.sensitivity(round, np.asarray(batches.divisors))))
        free = [play_free(algorithm, told, one) for one in (first, second)] if bound == 0 else [None]
        if free[0] is not None and free[-1] is not None:
            first, second = free[0].client, free[-1].client
            differs = differs or not same(first, second) or not np.array_equal(free[0].replies, free[-1].replies)
            ratios.append(())
            continue
        here: list[float] = []
        for step, fresh in releases(algorithm, normals[round - 1]):
            (first, noise), (second, _) = stirred(algorithm, first, fresh), stirred(algorithm, second, fresh)
            query, kept = algorithm.query(told, first, batches.steps(step))
            other, other_kept = algorithm.query(told, second, others.steps(step))
            noise = scale * noise if bound > 0 else 0 * noise  # what depends on no record gets none
            law = "objective" if isinstance(query, Argmin) else "gaussian"
            release = make_release(query, Drawn(law, 1.0, noise))
            apart = np.asarray(told_by(query, release.value)) - np.asarray(told_by(other, release.value))
            moved += bool(np.any(apart))
            here.append(ratio(apart, bound))
            if isinstance(query, Argmin) and isinstance(other, Argmin):
                differs = differs or not np.array_equal(query.apart, other.apart)
                miss = max(miss, *(off(one, release.value, bound) for one in (query, other)))
            first, reply = algorithm.settle(told, first, release, kept)
            second, other_reply = algorithm.settle(told, second, release, other_kept)
            differs = differs or not same(first, second) or not np.array_equal(reply, other_reply)
        most = max(most, moved)
        ratios.append(tuple(here))
    return Found(tuple(ratios), differs, most, miss)


def _as_long(first: Batches, second: Batches) -> tuple[Batches, Batches]:
    """Both filled up to the longer one's length: sums of other lengths are rounded otherwise."""
    most = max(first.labels.shape[2], second.labels.shape[2])

    def filled(batches: Batches) -> Batches:
        more = [(0, 0), (0, 0), (0, most - batches.labels.shape[2])]
        shares = None if batches.shares is None else np.pad(batches.shares, more)
        features, labels = (
            np.pad(np.asarray(batches.features), [*more, (0, 0)]),
            np.pad(np.asarray(batches.labels), more),
        )
        return Batches(features, labels, batches.divisors, shares)

    return filled(first), filled(second)


def unit_draws(rng: np.random.Generator, algorithm: Any, rounds: int, columns: int) -> np.ndarray:
    """Normals for one client, of as many rounds; the proofs hold whatever the noise is."""
    return rng.standard_normal((rounds, 1, *draws_shape(algorithm, (columns, algorithm.objective.loss.outputs))))


def releases(algorithm: Any, draws: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Which batches each release of a round uses, and its draws."""
    if algorithm.releases == 1:
        yield slice(None), draws
    else:
        yield from ((slice(step, step + 1), draws[:, step]) for step in range(algorithm.releases))


def stirred(algorithm: Any, client: Any, draws: np.ndarray) -> tuple[Any, Any]:
    """State and noise of a release, where clients remember draws."""
    return algorithm.stir(client, draws) if isinstance(algorithm, RemembersNoise) else (client, draws)


def told_by(query: Query | Argmin, released: Any) -> Any:
    """What a release tells of the records: the query, or minus the noise under which a minimizer is released."""
    return query.slope(released) if isinstance(query, Argmin) else query.value


def off(query: Argmin, point: Any, bound: float) -> float:
    """How far a minimizer is computed from a point that is the exact one, over half of what two may be apart."""
    computed = query.under(-query.slope(point))
    return float(np.linalg.norm(np.asarray(computed) - np.asarray(point)) / np.max(0.5 * bound * query.apart))


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
