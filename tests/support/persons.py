"""Broken twins of how a person's rows are counted, and the check that catches them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.audit.replay import MOST_ROWS, Shard, replay, unit_draws
from fedspd.typing import Batches

PERSONS, STEPS = 6, 2


@dataclass(frozen=True)
class SharesForgotten(Shard):
    """Every row weighs 1."""

    def batches(self, drawn: np.ndarray, divisor: float | None = None) -> Batches:
        return Shard.batches(self, drawn, divisor)._replace(shares=None)


@dataclass(frozen=True)
class CutInTwo(Shard):
    """A person's rows go to one batch and to the next by turns, with the right shares."""

    def batches(self, drawn: np.ndarray, divisor: float | None = None) -> Batches:
        return self._cut(Shard.batches(self, drawn, divisor))

    def _cut(self, whole: Batches) -> Batches:
        shares, features = np.array(whole.shares), np.array(whole.features)
        labels = np.array(whole.labels)
        moved = np.arange(features.shape[2]) % 2 == 1
        for array in (features, labels, shares):
            array[:, :, moved] = np.roll(array[:, :, moved], 1, axis=1)
        return Batches(features, labels, whole.divisors, shares)


@dataclass(frozen=True)
class SharesAfterTheSplit(CutInTwo):
    """Cut in two, and shares are 1 / rows of the person in that batch: they add up to 2."""

    def _cut(self, whole: Batches) -> Batches:
        cut = CutInTwo._cut(self, whole)
        return cut._replace(shares=np.minimum(1.0, 2 * np.asarray(cut.shares)))


def person_shows(algorithm: Any, kind: type[Shard] = Shard) -> bool:
    """Whether a replay finds more of a person than its method claims: rows of one direction against turned ones."""
    rng = np.random.default_rng(0)
    persons = PERSONS * algorithm.local_steps
    rows = np.eye(3)[rng.integers(0, 3, persons * MOST_ROWS)]
    starts = np.arange(0, persons * MOST_ROWS + 1, MOST_ROWS)
    shard = kind(0.01 * rows, np.zeros(len(rows), int), starts)
    line = np.repeat(np.eye(3)[:1], MOST_ROWS, axis=0)
    one, two = (shard.with_person(0, sign * line, np.zeros(MOST_ROWS, int)) for sign in (1.0, -1.0))
    one, two = (replace(kind(each.features, each.labels), starts=each.starts) for each in (one, two))
    drawn = [np.arange(persons).reshape(algorithm.local_steps, PERSONS)]
    servers = np.zeros((1, 3, algorithm.objective.loss.outputs))
    return not replay(algorithm, one, two, drawn, servers, unit_draws(rng, algorithm, 1, 3)).survived
