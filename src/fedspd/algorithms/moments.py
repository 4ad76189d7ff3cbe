r"""Noisy moments for scaling: one release per client before the first round, charged like any other.

Each client sums its one-hot levels $a$ and, for numeric columns in $[-1, 1]$, $u$ and $u^2$, over its
whole shard; the server adds up the noised sums and divides by the public number of records. Where
persons are protected, a person's rows count by their mean.

Released: the sums with noise. Claimed: proved, sensitivity `privacy.sensitivity.moment_sums`.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

import numpy as np

from fedspd.privacy.sensitivity import moment_sums
from fedspd.typing import Query, Release

ROWS = 1 << 20  # summed up at a time, and as many more as a client has
LARGEST_LEVEL_NOISE = 0.05  # on the share of records with a level; most levels are rarer than that
LEVEL_DEVIATION = 0.5  # the largest a level can have: what is assumed when levels are not released


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and deviations of columns that keep to declared bounds."""

    numeric: np.ndarray  # which columns are numeric, in [-1, 1]; the others are levels, 0 or 1
    categorical: int  # number of one-hot blocks among the others
    floor: float  # least deviation: rarer levels are not blown up further
    relation: str = "replace-one"
    levels: bool = True  # release the levels too, not only the numeric columns

    def query(self, features: np.ndarray, offsets: np.ndarray, shares: np.ndarray | None = None) -> Query:
        """Sums over each client's rows of one flat table; of a person's rows their mean counts, by their shares."""
        # a million rows or so at a time, so that a large table is not copied twice
        ends = [0, *np.searchsorted(offsets, np.arange(ROWS, offsets[-1], ROWS)), len(offsets) - 1]
        parts = [
            self._sums(
                features[offsets[begin] : offsets[end]],
                offsets[begin:end] - offsets[begin],
                None if shares is None else shares[offsets[begin] : offsets[end]],
            )
            for begin, end in pairwise(dict.fromkeys(ends))
        ]
        return Query(np.concatenate(parts), np.zeros(len(offsets) - 1))

    def _sums(self, features: np.ndarray, starts: np.ndarray, shares: np.ndarray | None) -> np.ndarray:
        numbers = features[:, self.numeric]
        terms = np.concatenate([features if self.levels else numbers, numbers**2], axis=1)
        terms = terms if shares is None else terms * shares[:, None]
        return np.add.reduceat(terms, starts, axis=0)

    @property
    def sensitivity(self) -> float:
        """L2 bound of one client's sums."""
        return moment_sums(self.relation, self.categorical if self.levels else 0, int(self.numeric.sum()))

    def scaling(self, release: Release, records: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of every column, from the noised sums alone."""
        total = np.asarray(release.value).sum(axis=0) / records
        released = np.ones_like(self.numeric) if self.levels else self.numeric
        means, second = np.zeros(len(self.numeric)), np.full(len(self.numeric), LEVEL_DEVIATION**2)
        means[released], squares = np.split(total, [int(released.sum())])
        second[released] = means[released]  # a level squared is itself
        second[self.numeric] = squares
        return means, np.sqrt(np.maximum(second - means**2, self.floor**2))


def choose_levels(moments: Moments, noise_multiplier: float, records: int, clients: int) -> Moments:
    """Leave levels out where noise would drown them: a rule on public numbers.

    Leaving them out makes the sensitivity, and so the noise on the numeric columns, smaller.
    """
    noise = noise_multiplier * moments.sensitivity * sqrt(clients) / records
    return replace(moments, levels=noise <= LARGEST_LEVEL_NOISE)
