"""What is attacked: one client's part of a run, or that of a cohort, and the shards that are hardest to tell apart."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np

from fedspd.algorithms.base import TakesTurns
from fedspd.audit.replay import Shard
from fedspd.data.holding.units import Units
from fedspd.engine import draws
from fedspd.engine.batches import draw_records
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT
from fedspd.privacy.accounting.events import step_chances
from fedspd.problem import Box, Huber, LeastSquares, Loss, Poisson, Softmax

FAR = 10.0  # where the server's weights keep a regularizer's kink away
UNLIKELY = 80.0  # a score that puts a class out of the question
COSINE = 0.9995  # of half the angle between two rows that are almost one
WRONG = 15.0  # a score against a label that makes its gradient as long as it can be
UNDECLARED = 4.0  # norm of rows that nobody bounds


def units_of(persons: int, rows: int) -> Units:
    """Persons of so many rows each, at one client."""
    return Units("person", rows * np.arange(persons + 1), np.array([0, persons]))


@dataclass(frozen=True)
class Target:
    """A client, or a cohort, as the attacker knows it: everything but its records, its draws and its noise."""

    algorithm: Any
    sampling: str  # of records in a round
    batch_size: int | None
    records: int
    divisor: float  # what a batch's sum is divided by
    multiplier: float  # noise over sensitivity
    participations: int
    columns: int
    row_norm: float | None  # every row is at most this long; None: nobody says
    moments_multiplier: float | None = None  # of a release of moments before the first round
    rows: int = 1  # of every person, where persons are protected; each weighs so much less
    units: Callable[[int, int], Units] = units_of  # where each of so many persons' rows stand
    sample: Callable[..., np.ndarray] = draw_records  # the engine's draw of a round's records
    stream: Callable[..., np.random.Generator] = draws.stream  # where noise comes from, by seed, name and round

    @property
    def matrix(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.columns, self.algorithm.objective.loss.outputs

    @property
    def held(self) -> int:
        """Records in the game's shards: of a whole shard in one step one for each turn; only the divisor counts."""
        if self.sampling != WHOLE_SHARD or self.algorithm.local_steps > 1:
            return self.records
        return self.algorithm.blocks if isinstance(self.algorithm, TakesTurns) else 1

    def chances(self) -> np.ndarray:
        """Of a record to be in none of a round's batches, and in each of them."""
        steps = self.algorithm.local_steps
        if self.batch_size is None:
            return np.array([0.0, *step_chances(self.held, steps)])
        each = self.batch_size / self.records
        return np.array([1 - steps * each, *[each] * steps])


@dataclass(frozen=True)
class Pair:
    """Two shards that differ in their first record, and what the server sends in every round."""

    first: Shard
    second: Shard
    weights: np.ndarray

    def batches(self, second: bool, step: int | None, target: Target) -> tuple[np.ndarray, np.ndarray]:
        """Rows and labels of a round in which the record is in one step's batch, or in none."""
        shard = self.second if second else self.first
        length = max(1, target.batch_size or -(-target.held // target.algorithm.local_steps))
        drawn = np.full((target.algorithm.local_steps, length), min(1, target.held - 1))
        features, labels = shard.features[drawn], shard.labels[drawn]
        if target.held == 1:
            features = 0 * features
        if step is not None:
            features[step, 0], labels[step, 0] = shard.features[0], shard.labels[0]
        return features, labels


def worst_pair(target: Target) -> Pair:
    """The neighbors on which the sensitivities are attained, as far as the loss lets them be.

    The record's gradients under its two labels are opposite and as long as they may be. Of batches drawn without
    replacement all others pull the second way, so that a record that is not drawn leaves no trace of its kind.
    Elsewhere the others are null, as a record is that is zeroed out; also where a client hides state, which they
    would blur. Of counts the most is far from what is expected wherever weights start, and none is not: there the
    rows are opposite and not the labels.
    """
    algorithm, held = target.algorithm, target.held
    loss = algorithm.objective.loss
    one, other = extreme_labels(loss)
    norm = target.row_norm or UNDECLARED
    row, away = (norm * (COSINE * np.eye(target.columns)[0] + sign * _tilt(target)) for sign in (-1, 1))
    if isinstance(loss, Poisson):
        one, away = other, -row
    crowd = target.sampling == WITHOUT_REPLACEMENT and algorithm.guarantee == "proved"
    blank = Shard(np.tile(away if crowd else 0 * away, (held, 1)), np.full(held, other))
    replaced = 0 * away if algorithm.relation == "zero-out" else away
    return Pair(blank.with_record(0, row, one), blank.with_record(0, replaced, other), _server_weights(target))


def _tilt(target: Target) -> np.ndarray:
    """What tells two rows apart, where only weights that are wrong about both make their gradients long enough.

    At the same row the gradients of softmax under two labels are never further apart than sqrt 2 times the row is long.
    Longer ones than a short clipping norm they stay at the server's weights, but not at a minimizer, which goes where
    the noise of earlier rounds takes it.
    """
    objective, norm = target.algorithm.objective, target.row_norm or UNDECLARED
    short = objective.clip_norm <= norm / sqrt(2) and not target.algorithm.exact
    tilted = isinstance(objective.loss, Softmax) and not short and target.columns > 1
    return sqrt(1 - COSINE**2) * np.eye(target.columns)[1 % target.columns] * tilted


def extreme_labels(loss: Loss) -> tuple[Any, Any]:
    """Those of the steepest gradients, in opposite directions."""
    if isinstance(loss, Poisson):
        return 0.0, loss.most
    if isinstance(loss, Huber) or (isinstance(loss, LeastSquares) and not loss.of_classes):
        return -1.0, 1.0
    return 0, 1


def _server_weights(target: Target) -> np.ndarray:
    """Far from kinks; the first two classes have the same score, the others no chance; of counts near their center."""
    weights = np.zeros(target.matrix)
    outputs, norm, loss = target.matrix[1], target.row_norm or UNDECLARED, target.algorithm.objective.loss
    if isinstance(loss, Poisson):
        weights[0] = log(loss.most / loss.center) / (8 * norm)
    if not isinstance(target.algorithm.objective.regularizer, Box) and outputs > 1:
        weights[0] = FAR / norm
        weights[0, 2:] -= UNLIKELY / norm
        wrong = WRONG / (norm * sqrt(1 - COSINE**2)) * (_tilt(target)[1:2] > 0)
        weights[1:2, :2] = wrong[:, None] * np.array([1.0, -1.0])
    return weights
