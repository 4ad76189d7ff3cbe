r"""What one client minimizes: $F_i = f_i + R_i$, $f_i(x) = \frac1{m_i}\sum_j \ell(x; \mathrm{record}_j)$ (eq. 1-2)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from fedspd.problem.losses import Loss
from fedspd.problem.regularizers import Regularizer
from fedspd.typing import Array


class Gradient(NamedTuple):
    """A mini-batch gradient and the norms its records' gradients had before clipping."""

    mean: Array
    norms: Array


@dataclass(frozen=True)
class Objective:
    """A loss whose record gradients are held to norm `clip_norm` (G), and a client's regularizer."""

    loss: Loss
    regularizer: Regularizer
    clip_norm: float

    def gradient(self, weights: Array, features: Array, labels: Array, divisors: Array) -> Gradient:
        r"""Sum of the clipped record gradients over the batch size, $\frac1b\sum_j g_j\min(1, G/\|g_j\|)$.

        Args:
            weights: (..., columns, outputs), one matrix per stacked client.
            features: (..., records, columns).
            labels: (..., records).
            divisors: (...), the nominal batch size b, whatever number of records the batch holds.

        Guarantees:
            Replacing one of the records moves the mean by at most 2G/b.
        """
        xp = array_namespace(weights)
        slopes = self.loss.slopes(xp.matmul(features, weights), labels)
        norms = xp.sqrt(xp.vecdot(features, features) * xp.vecdot(slopes, slopes))
        shrink = 1.0 / xp.maximum(norms / self.clip_norm, 1.0)
        share = shrink / divisors[..., None]
        return Gradient(xp.matmul(xp.matrix_transpose(features), slopes * share[..., None]), norms)

    def record_gradients(self, weights: Array, features: Array, labels: Array) -> Any:
        """The un-clipped gradient of every record: (..., records, columns, outputs)."""
        xp = array_namespace(weights)
        slopes = self.loss.slopes(xp.matmul(features, weights), labels)
        return features[..., :, None] * slopes[..., None, :]

    def losses(self, weights: Array, features: Array, labels: Array) -> Any:
        """The (un-clipped) loss of every record: (..., records)."""
        xp = array_namespace(weights)
        return self.loss.values(xp.matmul(features, weights), labels)

    def smoothness(self, row_norm: float) -> float:
        """L of every record's loss when feature rows have norm at most `row_norm`."""
        return self.loss.curvature * row_norm * row_norm
