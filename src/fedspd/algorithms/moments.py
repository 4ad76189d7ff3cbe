r"""Noisy moments for scaling: one release per client before the first round, charged like any other.

Each client sums its one-hot levels $a$ and, for numeric columns in $[-1, 1]$, $u$ and $u^2$, over its
whole shard; the server adds up the noised sums and divides by the public number of records.

Released: the sums with noise. Claimed: proved, sensitivity `privacy.sensitivity.moment_sums`.
"""

from dataclasses import dataclass

import numpy as np

from fedspd.privacy.sensitivity import moment_sums
from fedspd.typing import Query, Release


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and deviations of columns that keep to declared bounds."""

    numeric: np.ndarray  # which columns are numeric, in [-1, 1]; the others are levels, 0 or 1
    categorical: int  # number of one-hot blocks among the others
    floor: float  # least deviation: rarer levels are not blown up further
    relation: str = "replace-one"

    def query(self, features: np.ndarray, offsets: np.ndarray) -> Query:
        """Sums over each client's rows of one flat table."""
        terms = np.concatenate([features, features[:, self.numeric] ** 2], axis=1)
        return Query(np.add.reduceat(terms, offsets[:-1], axis=0), np.zeros(len(offsets) - 1))

    @property
    def sensitivity(self) -> float:
        """L2 bound of one client's sums."""
        return moment_sums(self.relation, self.categorical, int(self.numeric.sum()))

    def scaling(self, release: Release, records: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of every column, from the noised sums alone."""
        total = np.asarray(release.value).sum(axis=0) / records
        means, squares = np.split(total, [len(self.numeric)])
        second = means.copy()  # a level squared is itself
        second[self.numeric] = squares
        return means, np.sqrt(np.maximum(second - means**2, self.floor**2))
