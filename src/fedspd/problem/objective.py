r"""What one client minimizes: $F_i = f_i + R_i$, $f_i(x) = \frac1{m_i}\sum_j \ell(x; \mathrm{record}_j)$ (eq. 1-2)."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.problem import fast
from fedspd.problem.losses import Loss
from fedspd.problem.regularizers import Regularizer
from fedspd.typing import Array, array_namespace

LEAST_MEDIAN = 1e-12
LONGER = 1.00001
"""Than the bound, of what counts as clipped: by rule records lie on it at the start, and rounding is no clipping."""


class Gradient(NamedTuple):
    """A mini-batch gradient, what its records' gradients were clipped to, and how many of them were."""

    mean: Array
    norms: Array  # before clipping
    bound: Any
    clipped: Array  # share of the records, per stacked client


@dataclass(frozen=True)
class Objective:
    """A loss whose record gradients are held to norm `clip_norm` (G), and a client's regularizer."""

    loss: Loss
    regularizer: Regularizer
    clip_norm: float

    def gradient(
        self, weights: Array, features: Array, labels: Array, divisors: Array, shares: Any = None, squares: Any = None
    ) -> Gradient:
        r"""Sum of the clipped record gradients over the batch size, $\frac1b\sum_j w_j g_j\min(1, G/\|g_j\|)$.

        Args:
            weights: (..., columns, outputs), one matrix per stacked client.
            features: (..., records, columns).
            labels: (..., records).
            divisors: (...), the nominal batch size b, whatever number of records the batch holds.
            shares: (..., records), the weights $w_j$, which add up to at most 1 for each person; None: all are 1.
            squares: (..., records), the squared norms of the features, where they are known already.

        Guarantees:
            Replacing one of the records, or all of a person's, moves the mean by at most 2G/b.
        """
        found = fast.gradient(self.loss, self.clip_norm, weights, features, labels, divisors, shares)
        if found is not None:
            return Gradient(found.mean, found.norms, self.clip_norm, found.clipped)
        if squares is None:
            squares = array_namespace(features).vecdot(features, features)
        return self._clipped(weights, features, labels, divisors, squares, lambda norms: self.clip_norm, shares)

    def median_gradient(self, weights: Array, features: Array, labels: Array, divisors: Array) -> Gradient:
        """The same, clipped to the (lower) median norm of each batch: a statistic of the records.

        Where half of a batch has no gradient at all the bound is not zero but tiny.
        """
        xp = array_namespace(weights)
        squares = xp.vecdot(features, features)
        records = xp.sum(xp.astype(squares > 0, weights.dtype), axis=-1, keepdims=True)
        places = xp.arange(features.shape[-2], dtype=weights.dtype)
        middle = features.shape[-2] - records + xp.floor((records - 1) / 2)  # rows of zeros, no records, come first

        def median(norms: Any) -> Any:
            at_middle = xp.where(places == middle, xp.sort(norms, axis=-1), xp.zeros_like(norms))
            return xp.maximum(xp.sum(at_middle, axis=-1, keepdims=True), xp.full_like(records, LEAST_MEDIAN))

        return self._clipped(weights, features, labels, divisors, squares, median)

    def _clipped(
        self,
        weights: Array,
        features: Array,
        labels: Array,
        divisors: Array,
        squares: Any,
        bound_of: Callable[[Any], Any],
        shares: Any = None,
    ) -> Gradient:
        xp = array_namespace(weights)
        slopes = self.loss.slopes(xp.matmul(features, self.loss.contrast(weights)), labels)
        norms = xp.sqrt(self.loss.stretch * squares * xp.vecdot(slopes, slopes))
        bound = bound_of(norms)
        over = xp.maximum(norms / bound, 1.0) * divisors[..., None]
        slopes = slopes if shares is None else slopes * shares[..., None]
        mean = self.loss.spread(xp.matmul(xp.matrix_transpose(features), slopes / over[..., None]))
        longer, records = (
            xp.sum(xp.astype(those, norms.dtype), axis=-1) for those in (norms > LONGER * bound, squares > 0)
        )
        return Gradient(mean, norms, bound, longer / xp.maximum(records, xp.ones_like(records)))

    def record_gradients(self, weights: Array, features: Array, labels: Array) -> Any:
        """The un-clipped gradient of every record: (..., records, columns, outputs)."""
        xp = array_namespace(weights)
        slopes = self.loss.slopes(xp.matmul(features, weights), labels)
        return features[..., :, None] * slopes[..., None, :]

    def losses(self, weights: Array, features: Array, labels: Array) -> Any:
        """The (un-clipped) loss of every record: (..., records)."""
        xp = array_namespace(weights)
        return self.loss.values(xp.matmul(features, weights), labels)

    def gradient_bound(self, row_norm: float) -> float:
        """G: the clipping norm, or less where rows of norm at most `row_norm` cannot have longer gradients."""
        return min(self.clip_norm, self.largest_gradient(row_norm))

    def largest_gradient(self, row_norm: float) -> float:
        """Norm that a record's un-clipped gradient cannot exceed."""
        slope = self.loss.slope_bound
        return inf if slope == inf else slope * row_norm

    def smoothness(self, row_norm: float) -> float:
        """L of every record's loss when feature rows have norm at most `row_norm`."""
        return self.loss.curvature * row_norm * row_norm
