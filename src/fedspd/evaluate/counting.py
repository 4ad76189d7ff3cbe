r"""What is counted of records that were held out: cells of tables, in each of which a record has one place.

Two classes: label by score bin. More classes: label by predicted class, and whether that was right by its probability.
A number or a count: bins of residuals. With a subgroup column each table stands once for each of its levels.

Records of a person, where a table says whom they are about, weigh one together.

Released: the counts with Gaussian noise. Claimed: proved. A record, or person, has weight one in
each of $T$ tables, so replacing it moves at most one down and one up in each: $\sqrt{2T}$, attained; zeroing it out
moves one in each: $\sqrt T$ (`docs/proofs/evaluation.md`).
"""

from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedspd.data import Categorical, Schema, Table
from fedspd.errors import InputError
from fedspd.problem import Softmax
from fedspd.reading import nearest
from fedspd.scoring.model import Model
from fedspd.target import Classes, Count
from fedspd.typing import Query

BINS = 10
"""Unless somebody says otherwise."""
MOST_BINS = 1000
"""Finer ones hold hardly any records, and measures take time by their square."""
NO_LEVEL = "no level"
"""The subgroup of records whose cell is none of the declared levels."""
STEEPNESS = 4.0  # of the curve that brings margins to [0, 1]: most are within -1 and 1
CELLS_MOVED = {"replace-one": 2, "zero-out": 1}
"""In how many cells of a table the count of a record changes."""


@dataclass(frozen=True)
class Counting:
    """Tables of counts, from public facts alone."""

    classes: tuple[str, ...]  # of the target; none of a number or a count
    bins: int
    groups: tuple[str, ...] = ()  # levels of the subgroup column; none: no column

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= MOST_BINS or self.bins % 2:
            raise InputError(
                f"bins must be an even number from 2 to {MOST_BINS}, got {self.bins}; half of them are on each side."
            )

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of each table: groups first, one where there is no column."""
        groups, classes = max(1, len(self.groups)), len(self.classes)
        if classes == 2:
            return ((groups, 2, self.bins),)
        if classes:
            return ((groups, classes, classes), (groups, 2, self.bins))
        return ((groups, self.bins),)

    def sensitivity(self, relation: str) -> float:
        """L2 bound of one client's counts."""
        return sqrt(CELLS_MOVED[relation] * len(self.shapes))

    @property
    def edges(self) -> NDArray[np.float64]:
        """Of the bins: scores from 0 to 1, or residuals from -1 to 1 in the target's range, finer in the middle."""
        if self.classes:
            return np.linspace(0.0, 1.0, self.bins + 1)
        half = 0.5 ** np.arange(self.bins // 2)
        return np.concatenate([-half, [0.0], half[::-1]])

    @property
    def middles(self) -> NDArray[np.float64]:
        """Of the bins."""
        return np.array([(low + high) / 2 for low, high in pairwise(self.edges.tolist())])

    def binned(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each value; one on an edge is in the lower bin, as a tie goes to the first class."""
        return np.searchsorted(self.edges[1:-1], np.nan_to_num(values), side="left")

    def query(
        self, places: NDArray[np.int64], weights: NDArray[np.float64], owners: NDArray[np.int64], clients: int
    ) -> Query:
        """Counts of each client, a row for each.

        Args:
            places: of records in the tables.
            weights: of records: those of a person add up to one at most, in steps that are summed exactly.
            owners: the client of each.
            clients: how many there are.
        """
        counts, begin = np.zeros((clients, sum(map(_size, self.shapes)))), 0
        for place, size in zip(places.T, map(_size, self.shapes), strict=True):
            np.add.at(counts, (owners, begin + place), weights)
            begin += size
        return Query(counts, np.zeros(clients))

    def split(self, counts: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """The tables that a row of counts stands for."""
        ends = np.cumsum([_size(shape) for shape in self.shapes])[:-1]
        parts = np.split(counts, ends, axis=-1)
        return [part.reshape(*part.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]


def counting_for(model: Model, bins: int, subgroup: str | None) -> Counting:
    """What is counted for a model, by its target and a declared column."""
    return counting_under(model.recipe.schema, bins, subgroup)


def counting_under(schema: Schema, bins: int, subgroup: str | None) -> Counting:
    """The same by what is declared alone, before there is a model."""
    groups = ()
    if subgroup is not None:
        named = {column.name: column for column in schema.inputs if isinstance(column, Categorical)}
        if subgroup not in named:
            raise InputError(
                f"a subgroup column must be a declared column of levels, got {subgroup!r}; {nearest(subgroup, named)}"
            )
        groups = (*named[subgroup].levels, NO_LEVEL)
    return Counting(schema.target.classes, bins, groups)


def places_of(model: Model, table: Table, counting: Counting, subgroup: str | None) -> NDArray[np.int64]:
    """Where each record, encoded and not scaled yet, stands in each table: a column for each."""
    return places_by(model, model.scores(table.features), table, counting, subgroup)


def places_by(
    model: Model, scores: NDArray[np.float64], table: Table, counting: Counting, subgroup: str | None
) -> NDArray[np.int64]:
    """The same of records whose scores are known."""
    group = np.zeros(len(table), np.int64)
    if subgroup is not None:
        codes = np.asarray(table.cells[subgroup]).astype(np.int64)
        group = np.where(codes < 0, len(counting.groups) - 1, codes)
    if not isinstance(model.target, Classes):
        inner = [(counting.binned(residuals(model, scores, table.labels)),)]
    elif len(counting.classes) == 2:
        inner = [(table.labels.astype(int), counting.binned(class_one(model, scores)))]
    else:
        labels, predicted = table.labels.astype(int), np.asarray(model.loss.predict(scores)).astype(int)
        probabilities = model.probabilities(scores)
        assert probabilities is not None, "more than two classes are learned by softmax"
        inner = [(labels, predicted), ((labels == predicted).astype(int), counting.binned(probabilities.max(axis=1)))]
    return np.stack(
        [np.ravel_multi_index((group, *index), shape) for index, shape in zip(inner, counting.shapes, strict=True)],
        axis=1,
    )


def class_one(model: Model, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of two classes: the probability of the second, or a number that grows with its score, 1/2 where it is a tie."""
    margin = scores[:, 1] - scores[:, 0] if isinstance(model.loss, Softmax) else STEEPNESS * scores[:, 0]
    return 1.0 / (1.0 + np.exp(-np.clip(np.nan_to_num(margin), -80.0, 80.0)))


def target_range(model: Model) -> float:
    """The largest residual there can be, as losses see targets."""
    return model.target.most if isinstance(model.target, Count) else 2.0


def residuals(model: Model, scores: NDArray[np.float64], labels: np.ndarray) -> NDArray[np.float64]:
    """Label minus prediction, in parts of the target's range."""
    predicted = np.asarray(model.loss.predict(scores), float)
    low, high = (0.0, model.target.most) if isinstance(model.target, Count) else (-1.0, 1.0)
    return (labels - np.clip(np.nan_to_num(predicted), low, high)) / (high - low)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))
