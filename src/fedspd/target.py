"""What is predicted, and what is public about it: classes, a number within bounds, or a count up to a most.

Records hold targets the way losses see them: a class by its index, a number moved from its bounds to [-1, 1], a count
as it is. Values beyond what is declared are moved onto it, so that no record's target is worse than its bounds.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np

from fedspd.errors import InputError

MOST = 1e12  # that is counted


@dataclass(frozen=True)
class Classes:
    """One of several classes."""

    column: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A number within declared bounds."""

    column: str
    lower: float
    upper: float

    classes = ()

    def __post_init__(self) -> None:
        if not (-inf < self.lower < self.upper < inf and self.upper - self.lower < inf):
            raise InputError(
                f"the bounds of the target {self.column!r} must be two finite numbers, the lower one first, got "
                f"{self.lower:g} and {self.upper:g}; declare the range its values may take."
            )

    def labels(self, values: Any) -> Any:
        """On [-1, 1]."""
        inside = np.clip(np.asarray(values, float), self.lower, self.upper)
        return 2 * ((inside - self.lower) / (self.upper - self.lower)) - 1

    def values(self, labels: Any) -> Any:
        """In the target's own units, within its bounds."""
        return self.lower + (np.clip(labels, -1, 1) + 1) / 2 * (self.upper - self.lower)


@dataclass(frozen=True)
class Count:
    """A whole number from zero to a declared most; `typical` is a public guess at its mean."""

    column: str
    most: float
    typical: float = 0.0  # 0: the geometric mean of one and the most

    classes = ()

    def __post_init__(self) -> None:
        if not 1 <= self.most <= MOST:
            wanted = f"at most {MOST:g}" if self.most > MOST else "at least 1"
            raise InputError(
                f"the most that the target {self.column!r} can count must be {wanted}, got {self.most:g}; declare "
                "the largest count there can be."
            )
        if not 0 <= self.typical <= self.most:
            raise InputError(
                f"the typical count of {self.column!r} must be above 0 and at most {self.most:g}, got "
                f"{self.typical:g}; guess at its mean, without looking at records."
            )

    @property
    def center(self) -> float:
        """The rate at a score of zero."""
        return self.typical or sqrt(self.most)

    def labels(self, values: Any) -> Any:
        """Counts, none above the most."""
        return np.clip(np.asarray(values, float), 0.0, self.most)

    def values(self, labels: Any) -> Any:
        """The same."""
        return np.clip(labels, 0.0, self.most)


Target = Classes | Number | Count
