"""Declared columns, and how each becomes features: nothing here is computed from records.

A *number* is a feature within a public range, scaled to [-1, 1]. A *block* is several features from 0 to 1 that add up
to at most 1 in every record: levels, bins, or the functions of a spline. The moments and their proof know these two.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from fedspd.data.features.splines import DEGREE, spline
from fedspd.data.names import check_names
from fedspd.errors import InputError
from fedspd.reading import nearest

MOST_PIECES = 10_000


@dataclass(frozen=True)
class Numeric:
    """A column of numbers within declared bounds, what stands for a missing one, and how it becomes features."""

    name: str
    lower: float
    upper: float
    missing: float | None  # None: a bin of its own
    log: bool = False  # log(1 + value) is the feature
    bins: int | None = None  # a feature each, of equal widths
    log_bins: int | None = None  # of equal widths in log(1 + value)
    spline: int | None = None  # cubic, of so many functions
    zero: bool = False  # zero has a bin of its own
    linear: bool = False  # one number, also where the encoding is left to the plan

    def __post_init__(self) -> None:
        logged = self.log or self.log_bins is not None
        least = 0.0 if logged else -np.inf
        if not (least <= self.lower < self.upper and 0 < self._ends[1] - self._ends[0] < np.inf):
            raise InputError(
                f"the bounds of column {self.name!r} must be two finite numbers, the lower one first"
                f"{' and at least 0 for a logarithm' if logged else ''}, got {self.lower:g} and {self.upper:g}; "
                "declare the range its values may take."
            )
        self._check_encoding()
        if self.missing is not None and not self.lower <= self.missing <= self.upper:
            raise InputError(
                f"the missing value of column {self.name!r} must be within its bounds {self.lower:g} and "
                f"{self.upper:g}, got {self.missing:g}; move it or widen the bounds."
            )

    def _check_encoding(self) -> None:
        asked = {"log": self.log, "bins": self.bins, "log-bins": self.log_bins, "spline": self.spline}
        ways = [
            name
            for name, value in (asked | {"linear": self.linear}).items()
            if value is not None and value is not False
        ]
        if len(ways) > 1 and ways != ["log", "linear"]:
            raise InputError(
                f"column {self.name!r} must become features in one way, got {' and '.join(ways)}; keep one."
            )
        least = DEGREE + 1 if self.spline is not None else 2
        asked_for = any(value is not None for value in (self.bins, self.log_bins, self.spline))
        if asked_for and not least <= self.pieces <= MOST_PIECES:
            raise InputError(
                f"{ways[0]} of column {self.name!r} must be from {least} to {MOST_PIECES}, got {self.pieces}."
            )
        if self.zero and not self.lower <= 0.0 <= self.upper:
            raise InputError(
                f"zero = true of column {self.name!r} needs zero within its bounds, got {self.lower:g} and "
                f"{self.upper:g}; widen them or leave it out."
            )
        if not self._edges.size and (self.zero or self.missing is None):
            what = "zero = true" if self.zero else "missing = 'bin'"
            raise InputError(f"{what} of column {self.name!r} needs bins or log-bins, got neither; add one of them.")

    @property
    def pieces(self) -> int:
        """Bins or functions; 0 where the column is one number."""
        return self.bins or self.log_bins or self.spline or 0

    @property
    def is_number(self) -> bool:
        """Whether it is one feature rather than a block."""
        return not self.pieces

    @property
    def is_open(self) -> bool:
        """Whether nobody declared how finely it is cut; a logarithm says on which scale, and no more."""
        return self.is_number and not self.linear

    @property
    def _ends(self) -> tuple[float, float]:
        lower, upper = self._scale(np.array([self.lower, self.upper])).tolist()
        return lower, upper

    def _scale(self, values: np.ndarray) -> np.ndarray:
        return np.log1p(values) if self.log or self.log_bins is not None else values

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest value of a feature."""
        return self._ends if self.is_number else (0.0, 1.0)

    @cached_property
    def _edges(self) -> np.ndarray:
        """Ends of the bins on the scale in which they are of equal widths; none without bins."""
        count = self.bins or self.log_bins or 0
        return np.linspace(*self._ends, count + 1) if count else np.empty(0)

    @cached_property
    def edges(self) -> np.ndarray:
        """Ends of the bins in the column's own units."""
        return np.expm1(self._edges) if self.log_bins is not None else self._edges

    @property
    def thresholds(self) -> np.ndarray:
        """The least value of each bin but the first, in the column's own units, to the last digit."""
        found, edges = self.edges[1:-1], self._edges[1:-1]
        while (below := self._scale(found) < edges).any():  # a logarithm and back may be some digits off
            found = np.where(below, np.nextafter(found, np.inf), found)
        while (inside := self._scale(np.nextafter(found, -np.inf)) >= edges).any():
            found = np.where(inside, np.nextafter(found, -np.inf), found)
        return found

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features that this column becomes."""
        if self.is_number:
            return (self.name,)
        if self.spline is not None:
            return tuple(f"{self.name} spline {number}" for number in range(1, self.spline + 1))
        own = [f"{self.name} missing"] * (self.missing is None) + [f"{self.name} zero"] * self.zero
        ends = _told_apart(self.edges)
        return (*own, *(f"{self.name} {low} to {high}" for low, high in pairwise(ends)))

    def write(self, cells: np.ndarray, features: np.ndarray) -> None:
        """Fill this column's features, which are zero, from its numbers, NaN where one is missing."""
        absent = np.isnan(cells)
        values = np.clip(np.where(absent, self.lower if self.missing is None else self.missing, cells), *self._bounds)
        if self.is_number:
            features[:, 0] = self._scale(values)
        elif self.spline is not None:
            features[:] = spline(values, self.lower, self.upper, self.spline)
        else:
            features[np.arange(len(values)), self._bin(values, absent)] = 1.0

    @property
    def _bounds(self) -> tuple[float, float]:
        return self.lower, self.upper

    def _bin(self, values: np.ndarray, absent: np.ndarray) -> np.ndarray:
        own = int(self.missing is None) + int(self.zero)
        inner = np.searchsorted(self._edges[1:-1], self._scale(values), side="right") + own
        if self.zero:
            inner = np.where(values == 0.0, own - 1, inner)
        return np.where(absent, 0, inner) if self.missing is None else inner


def _told_apart(edges: np.ndarray) -> list[str]:
    """Edges of bins in as few digits as tell them apart."""
    for digits in range(6, 17):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len({*texts}) == len(texts):
            return texts
    return [repr(edge) for edge in edges.tolist()]


@dataclass(frozen=True)
class Categorical:
    """A column of declared levels, and the level that stands for any other entry, if there is one."""

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    drop_first: bool = False  # the first level is the baseline and has no feature
    ordinal: bool = False  # one number: the levels in their order, at equal distances
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()  # names of groups with the levels that share their feature
    ordered: bool = False  # levels stand in their order, so that neighbors may share a feature where that pays

    def __post_init__(self) -> None:
        least = 2 if self.drop_first or self.ordinal else 1
        check_names(f"levels of column {self.name!r}", self.levels, at_least=least)
        if self.missing is not None and self.missing not in self.levels:
            raise InputError(
                f"the missing level of column {self.name!r} must be one of its levels, got {self.missing!r}; "
                f"{nearest(self.missing, self.levels)}"
            )
        if self.ordered and (self.ordinal or self.groups):
            raise InputError(
                f"column {self.name!r} is ordered, which leaves its encoding open, got ordinal or groups beside it, "
                "which declare one; leave out one of them."
            )
        if self.ordinal and (self.drop_first or self.groups):
            raise InputError(
                f"column {self.name!r} is ordinal, which makes one number of it, got drop_first or groups beside it; "
                "leave them out."
            )
        self._check_groups()

    def _check_groups(self) -> None:
        members = [level for _, group in self.groups for level in group]
        for level in members:
            if level not in self.levels:
                known = nearest(level, self.levels)
                raise InputError(f"a group of column {self.name!r} must hold its levels, got {level!r}; {known}")
        if members:
            check_names(f"levels in groups of column {self.name!r}", tuple(members), at_least=1)
        check_names(f"groups and other levels of column {self.name!r}", self._kinds, at_least=1 + self.drop_first)

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        """Groups and levels of no group, each at the place of its first level."""
        return tuple(dict.fromkeys(self._kind_of.get(level, level) for level in self.levels))

    @property
    def _kind_of(self) -> dict[str, str]:
        return {level: name for name, group in self.groups for level in group}

    @property
    def is_number(self) -> bool:
        """Whether it is one feature rather than a block."""
        return self.ordinal

    @property
    def is_open(self) -> bool:
        """Whether levels may share features where that pays."""
        return self.ordered

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest value of a feature."""
        return (0.0, len(self.levels) - 1.0) if self.ordinal else (0.0, 1.0)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features: one number, or one for each level or group but the baseline."""
        return (self.name,) if self.ordinal else tuple(f"{self.name}={kind}" for kind in self._kinds[self.drop_first :])

    def write(self, cells: np.ndarray, features: np.ndarray) -> None:
        """Fill this column's features, which are zero, from indices into its levels, negative where it is none."""
        codes = cells.astype(np.intp)
        if self.missing is not None:
            codes = np.where(codes < 0, self.levels.index(self.missing), codes)
        if self.ordinal:
            features[:, 0] = np.where(codes < 0, (len(self.levels) - 1) / 2, codes)
            return
        if self.groups:
            places = np.array([self._kinds.index(self._kind_of.get(level, level)) for level in self.levels])
            codes = np.where(codes < 0, -1, places[codes])
        shifted = codes - int(self.drop_first)
        (rows,) = np.nonzero(shifted >= 0)
        features[rows, shifted[rows]] = 1.0


Column = Numeric | Categorical


@dataclass(frozen=True)
class Product:
    """Every feature of one column times every feature of another, both on their public ranges."""

    first: Column
    second: Column

    @property
    def is_number(self) -> bool:
        """Whether its features are numbers; a product of two blocks is a block."""
        return self.first.is_number or self.second.is_number

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest value of a feature."""
        return (-1.0, 1.0) if self.is_number else (0.0, 1.0)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(f"{one} × {other}" for one in self.first.features for other in self.second.features)

    def write(self, one: np.ndarray, other: np.ndarray, features: np.ndarray) -> None:
        """Fill the features from those of both columns as they were encoded."""
        left, right = on_public_range(one, self.first), on_public_range(other, self.second)
        features[:] = (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)


def on_public_range(features: np.ndarray, column: Column) -> np.ndarray:
    """Numbers from their range to [-1, 1]; blocks as they are."""
    lower, upper = column.range
    return 2 * ((features - lower) / (upper - lower)) - 1 if column.is_number else features
