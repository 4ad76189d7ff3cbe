r"""Losses of linear scores, and those of classes: $\ell(W^\top a, y)$ for a record with features $a$ and label $y$.

Every loss here sees a record only through its scores $s = W^\top a$, so a record's gradient is the
outer product $a\, (\partial\ell/\partial s)^\top$ and its norm is $\|a\|\,\|\partial\ell/\partial s\|$:
gradients are clipped without ever being formed one by one.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Protocol

from fedspd.errors import InputError
from fedspd.typing import Array, array_namespace


class Loss(Protocol):
    """A convex, differentiable loss of scores."""

    @property
    def outputs(self) -> int:
        """Number of scores per record: the columns of the weight matrix."""
        ...

    @property
    def curvature(self) -> float:
        r"""Largest eigenvalue of $\partial^2\ell/\partial s^2$; rows of norm $R$ make it $L = R^2\,$curvature."""
        ...

    @property
    def slope_bound(self) -> float:
        r"""Largest norm of $\partial\ell/\partial s$, infinite where there is none."""
        ...

    @property
    def clip_keeps_convex(self) -> bool:
        """Whether a clipped gradient is still that of a convex loss: so for losses of one margin."""
        ...

    def values(self, scores: Array, labels: Array) -> Any:
        """Losses of records, from scores (..., outputs) and labels (...)."""
        ...

    def slopes(self, scores: Array, labels: Array) -> Any:
        r"""$\partial\ell/\partial s$, shaped like the scores."""
        ...

    def bends(self, scores: Array, labels: Array) -> Any:
        """Second derivative along the one margin that decides the loss, shaped like the labels."""
        ...

    def contrast(self, weights: Array) -> Any:
        """The least columns of weights that decide the loss: `values`, `slopes` and `predict` accept their scores."""
        ...

    def spread(self, gradient: Array) -> Any:
        """The gradient by the weights from that by their contrast."""
        ...

    @property
    def stretch(self) -> float:
        """How much longer that makes it, squared."""
        ...

    def predict(self, scores: Array) -> Any:
        """The class each record's scores speak for, or the number, as labels have it."""
        ...


@dataclass(frozen=True)
class Softmax:
    r"""Cross-entropy $\ln\sum_c e^{s_c} - s_y$.

    With two classes it is the paper's $\ln(1+\exp(-b^\top X^\top a))$ with $b = e_y - e_{other}$
    (theory: the printed $b X a$ does not have matching dimensions), so d = 81 x 2 = 162.
    """

    classes: int = 2

    @property
    def outputs(self) -> int:
        """One score per class."""
        return self.classes

    @property
    def curvature(self) -> float:
        r"""$\|\mathrm{diag}(p) - pp^\top\| \le 1/2$ for any number of classes."""
        return 0.5

    @property
    def slope_bound(self) -> float:
        """Probabilities minus a one-hot label are no longer than that."""
        return sqrt(2.0)

    @property
    def clip_keeps_convex(self) -> bool:
        """Two classes are decided by one margin; more are not."""
        return self.classes == 2

    def values(self, scores: Array, labels: Array) -> Any:
        """Negative log-likelihoods of the labels."""
        xp = array_namespace(scores)
        if self.classes == 2:
            against = (1.0 - 2.0 * like(scores, labels)) * _margin(scores)
            # ln(1 + e^a) is above a, and beyond 40 equal to it in double precision: no overflow, few passes
            return xp.maximum(against, xp.log1p(xp.exp(xp.minimum(against, 40.0))))
        top = xp.max(scores, axis=-1, keepdims=True)
        log_total = xp.log(xp.sum(xp.exp(scores - top), axis=-1)) + top[..., 0]
        return log_total - xp.sum(scores * self._one_hot(xp, scores, labels), axis=-1)

    def slopes(self, scores: Array, labels: Array) -> Any:
        """Predicted probabilities minus the one-hot label."""
        xp = array_namespace(scores)
        if self.classes == 2:
            # cut off long before the exponential overflows: by then the probability is 1e-35
            excess = 1.0 / (1.0 + xp.exp(xp.minimum(-_margin(scores), 80.0))) - like(scores, labels)
            return excess[..., None] if scores.shape[-1] == 1 else xp.stack([-excess, excess], axis=-1)
        unnormalized = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return unnormalized / xp.sum(unnormalized, axis=-1, keepdims=True) - self._one_hot(xp, scores, labels)

    def bends(self, scores: Array, labels: Array) -> Any:
        """$p(1-p)$ along the difference of two classes."""
        if self.classes != 2:
            raise InputError(
                f"a second derivative along one margin needs two classes, got {self.classes}; use data of two classes."
            )
        xp = array_namespace(scores)
        tail = xp.exp(-xp.minimum(xp.abs(_margin(scores)), 80.0))  # either side has the same bend
        return tail / ((1.0 + tail) * (1.0 + tail))

    def contrast(self, weights: Array) -> Any:
        """Two classes are told apart by one difference, at half the cost."""
        return weights[..., 1:] - weights[..., :1] if self.classes == 2 else weights

    def spread(self, gradient: Array) -> Any:
        """What one class gains the other loses."""
        return array_namespace(gradient).concat([-gradient, gradient], axis=-1) if self.classes == 2 else gradient

    @property
    def stretch(self) -> float:
        """Two equal columns for one."""
        return 2.0 if self.classes == 2 else 1.0

    def predict(self, scores: Array) -> Any:
        """The class with the highest score, the first of equals."""
        if self.classes == 2:
            return _margin(scores) > 0.0
        return array_namespace(scores).argmax(scores, axis=-1)

    def _one_hot(self, xp: Any, scores: Array, labels: Array) -> Any:
        return xp.astype(labels[..., None] == xp.arange(self.classes), scores.dtype)


class OneScore:
    """What losses of one score per record have in common."""

    outputs = 1
    clip_keeps_convex = True
    stretch = 1.0

    def contrast(self, weights: Array) -> Any:
        """The one column there is."""
        return weights

    def spread(self, gradient: Array) -> Any:
        """The one column there is."""
        return gradient


@dataclass(frozen=True)
class SquaredHinge(OneScore):
    r"""$\max(0, 1 - \pm s)^2$ for two classes, the sign taken from the label (0: minus, 1: plus)."""

    curvature = 2.0  # on the side where the hinge is open
    slope_bound = inf  # it grows with the score

    def values(self, scores: Array, labels: Array) -> Any:
        """Squared shortfalls of the margin."""
        xp = array_namespace(scores)
        shortfall = xp.maximum(1.0 - (2.0 * like(scores, labels) - 1.0) * scores[..., 0], 0.0)
        return shortfall * shortfall

    def slopes(self, scores: Array, labels: Array) -> Any:
        """Minus twice the signed shortfall."""
        xp = array_namespace(scores)
        sign = 2.0 * like(scores, labels)[..., None] - 1.0
        return -2.0 * sign * xp.maximum(1.0 - sign * scores, 0.0)

    def bends(self, scores: Array, labels: Array) -> Any:
        """Two where the margin falls short, else zero."""
        xp = array_namespace(scores)
        return 2.0 * xp.astype((2.0 * like(scores, labels) - 1.0) * scores[..., 0] < 1.0, scores.dtype)

    def predict(self, scores: Array) -> Any:
        """Class 1 where the margin is positive."""
        return scores[..., 0] > 0.0


def like(scores: Array, labels: Array) -> Any:
    """Labels as numbers of the scores' type: the array API standard mixes no integers with floats."""
    return array_namespace(scores).astype(labels, scores.dtype, copy=False)


def _margin(scores: Array) -> Any:
    """Score of class 1 above class 0, which may have come as their contrast already."""
    return scores[..., 0] if scores.shape[-1] == 1 else scores[..., 1] - scores[..., 0]
