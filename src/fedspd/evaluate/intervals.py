r"""Intervals of ratios of noised counts, for the sampling of records and for the privacy noise together.

Counts $c$ of $n$ records, drawn from cell probabilities $p$, carry Gaussian noise of known variance $\sigma^2$. As $n$
is public, they are moved along the ones to sum up to $n$, which only removes noise. Their covariance is then
$$\Sigma = n(\operatorname{diag} p - pp^\top) + \sigma^2(I - \tfrac1m 11^\top).$$
A measure is $\theta = U/V$ of smooth functions with gradients $u$, $v$. By Fieller (1954), $U - \theta V$ has mean 0
and variance $u^\top\Sigma u - 2\theta u^\top\Sigma v + \theta^2 v^\top\Sigma v$, so the $\theta$ that are not rejected
at 95 % lie between the roots of a quadratic, or are all of them where $V$ itself may be zero.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
QUANTILE = 1.959963984540054  # of the normal law: 95 % lie within


class Interval(NamedTuple):
    """A measure and the ends of its 95 % interval; arrays where there are many."""

    value: Array
    low: Array
    high: Array


@dataclass(frozen=True, eq=False)
class NoisedTable:
    """Counts of one table, any number of axes in front: their sum is made the public number of records."""

    counts: Array  # (..., cells)
    variance: float  # of the noise on each
    records: int

    @classmethod
    def of(cls, released: Array, variance: float, records: int) -> "NoisedTable":
        """Of counts as they were released."""
        excess = released.sum(axis=-1, keepdims=True) - records
        return cls(released - excess / released.shape[-1], variance, records)

    def sum(self, weights: Array) -> Array:
        """Of the counts, weighted."""
        return (self.counts * weights).sum(axis=-1)

    def sampled(self, one: Array, other: Array) -> Array:
        """What two weighted sums share by which records there are."""
        return self.sum(one * other) - self.sum(one) * self.sum(other) / self.records

    def noise(self, one: Array, other: Array) -> Array:
        """What they share by the noise, which is known exactly."""
        one, other = np.broadcast_arrays(one, other)
        cells = self.counts.shape[-1]
        return self.variance * ((one * other).sum(axis=-1) - one.sum(axis=-1) * other.sum(axis=-1) / cells)

    def spread(self, weights: Array) -> Array:
        """Variance of a weighted sum; noise may make the sampled part negative, which it is not."""
        return np.maximum(self.sampled(weights, weights), 0.0) + self.noise(weights, weights)

    def mean(self, weights: Array, low: float = -np.inf, high: float = np.inf) -> Interval:
        """Of a number that each cell stands for."""
        value = self.sum(weights) / self.records
        half = QUANTILE * np.sqrt(self.spread(weights)) / self.records
        ends = np.stack([value, value - half, value + half])  # noise may take all of them out of what can be
        return Interval(*np.clip(ends, low, high))

    def share(self, part: Array, whole: Array) -> Interval:
        r"""Of the records in some cells, those in others among them.

        Under a share $\theta$ of $V$ records the sampled part of the variance is $\theta(1-\theta)V$, with which
        Wilson's interval (1927) keeps its level for few records too; the noise comes on top.
        """
        held = np.maximum(self.sum(whole), 0.0)
        return fieller(
            self.sum(part),
            self.sum(whole),
            self.noise(part, part),
            self.noise(part, whole) - held / 2,
            self.noise(whole, whole),
            held,
        )

    def ratio(self, top: Array, bottom: Array, up: Array, down: Array) -> Interval:
        """Of two functions of the counts with these gradients, within 0 and 1."""
        return fieller(top, bottom, self.spread(up), self._cross(up, down), self.spread(down))

    def _cross(self, one: Array, other: Array) -> Array:
        """As far as the two spreads allow for it: where those were cut off at zero, less is shared."""
        most = np.sqrt(self.spread(one) * self.spread(other))
        return np.clip(self.sampled(one, other) + self.noise(one, other), -most, most)


def fieller(top: Array, bottom: Array, uu: Array, uv: Array, vv: Array, less: Array | float = 0.0) -> Interval:
    r"""The shares that a test at 5 % does not reject; all from 0 to 1 where the bottom may be zero.

    Args:
        less: what is taken from the part of the variance that grows with $\theta^2$.
    """
    square = QUANTILE**2
    a, b, c = bottom**2 - square * (vv - less), top * bottom - square * uv, top**2 - square * uu
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        value, low, high = top / bottom, (b - root) / a, (b + root) / a
    known = (bottom**2 > square * vv) & (bottom > 0)
    return Interval(
        np.where(known, np.clip(value, 0.0, 1.0), np.nan),
        np.where(known, np.clip(low, 0.0, 1.0), 0.0),
        np.where(known, np.clip(high, 0.0, 1.0), 1.0),
    )
