"""The attack that every "proved" sensitivity must survive: replay a transcript on a neighboring shard.

All released values are frozen, one record is swapped, all randomness is the same. Then nothing but
the query may differ, and the query by no more than its sensitivity, in any round.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.typing import Batches, Private, Release


@dataclass(frozen=True)
class Shard:
    """One client's records."""

    features: np.ndarray
    labels: np.ndarray

    def with_record(self, index: int, row: np.ndarray, label: int) -> "Shard":
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

    worst_ratio: float  # of the query's movement to its sensitivity, over all rounds
    state_differs: bool  # something kept or sent depends on the record beside the release


def replay(
    algorithm: Any, shard: Shard, neighbor: Shard, draws: list[np.ndarray], servers: np.ndarray, normals: np.ndarray,
    scale: float = 0.1, divisor: float | None = None,
) -> Found:  # fmt: skip
    """Run one client on both shards with the releases of the first."""
    outputs = algorithm.objective.loss.outputs
    _, start, _ = algorithm.start(np.zeros((1, shard.features.shape[1], outputs)))
    first, second, worst, differs = start, start, 0.0, False
    for round, (drawn, server) in enumerate(zip(draws, servers, strict=True), start=1):
        told = algorithm.broadcast(server, round)
        batches = shard.batches(drawn, divisor)
        query, kept = algorithm.query(told, first, batches)
        other, other_kept = algorithm.query(told, second, neighbor.batches(drawn, divisor))
        bound = float(np.max(algorithm.sensitivity(round, np.asarray(batches.divisors))))
        worst = max(worst, float(np.linalg.norm(np.asarray(query.value) - np.asarray(other.value))) / bound)
        release = Release(np.asarray(query.value) + scale * normals[round - 1])
        first, reply = algorithm.settle(told, first, release, kept)
        second, other_reply = algorithm.settle(told, second, release, other_kept)
        differs = differs or not same(first, second) or not np.array_equal(reply, other_reply)
    return Found(worst, differs)


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
