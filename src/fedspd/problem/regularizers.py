r"""Convex regularizers with their maps $\mathrm{prox}_{\alpha R}(v) = \arg\min_x \tfrac1{2\alpha}\|x-v\|^2 + R(x)$.

Weights are matrices (columns of the data, outputs), possibly stacked over clients in front.
All maps are 1-Lipschitz, which is all that the privacy analysis uses of them.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from fedspd.errors import InputError
from fedspd.typing import Array, array_namespace

MATRIX = (-2, -1)  # the axes of one weight matrix in a stack


class Regularizer(Protocol):
    """A convex function with a cheap proximal map."""

    def value(self, weights: Array) -> Any:
        """$R$ of each weight matrix in the stack."""
        ...

    def prox(self, weights: Array, step: Any) -> Any:
        r"""$\mathrm{prox}_{\mathrm{step}\cdot R}$ of each weight matrix in the stack."""
        ...

    def subgradient(self, weights: Array) -> Any:
        """An element of the subdifferential, the one of least norm; zero where there is a constraint."""
        ...

    def scaled(self, factor: float) -> "Regularizer":
        """The regularizer `factor` times this one (a client's share, or the sum over clients)."""
        ...


@dataclass(frozen=True)
class Unregularized:
    """$R = 0$."""

    def value(self, weights: Array) -> Any:
        """Zero."""
        return array_namespace(weights).sum(weights * 0.0, axis=MATRIX)

    def prox(self, weights: Array, step: Any) -> Any:
        """The weights themselves."""
        return weights

    def subgradient(self, weights: Array) -> Any:
        """Zero."""
        return 0.0 * weights

    def scaled(self, factor: float) -> "Unregularized":
        """Still zero."""
        return self


@dataclass(frozen=True)
class L1:
    r"""$R(x) = s\,\|x\|_1$, the paper's choice."""

    strength: float

    def value(self, weights: Array) -> Any:
        """The sum of absolute weights."""
        xp = array_namespace(weights)
        return self.strength * xp.sum(xp.abs(weights), axis=MATRIX)

    def prox(self, weights: Array, step: Any) -> Any:
        """Soft-thresholding."""
        return _soft_threshold(weights, step * self.strength)

    def subgradient(self, weights: Array) -> Any:
        """The signs, zero at zero."""
        return self.strength * array_namespace(weights).sign(weights)

    def scaled(self, factor: float) -> "L1":
        """Strength times factor."""
        return L1(self.strength * factor)


@dataclass(frozen=True)
class SquaredL2:
    r"""$R(x) = \tfrac s2\|x\|_2^2$."""

    strength: float

    def value(self, weights: Array) -> Any:
        """Half the weighted sum of squares."""
        return 0.5 * self.strength * array_namespace(weights).sum(weights * weights, axis=MATRIX)

    def prox(self, weights: Array, step: Any) -> Any:
        """Shrinkage toward zero."""
        return weights / (1.0 + step * self.strength)

    def subgradient(self, weights: Array) -> Any:
        """The gradient."""
        return self.strength * weights

    def scaled(self, factor: float) -> "SquaredL2":
        """Strength times factor."""
        return SquaredL2(self.strength * factor)


@dataclass(frozen=True)
class ElasticNet:
    r"""$R(x) = s\,(r\|x\|_1 + \tfrac{1-r}2\|x\|_2^2)$ with mixing ratio $r$."""

    strength: float
    ratio: float = 0.5

    def value(self, weights: Array) -> Any:
        """Both parts together."""
        return self._l1.value(weights) + self._l2.value(weights)

    def prox(self, weights: Array, step: Any) -> Any:
        """Soft-thresholding, then shrinkage."""
        return self._l2.prox(self._l1.prox(weights, step), step)

    def subgradient(self, weights: Array) -> Any:
        """Both parts together."""
        return self._l1.subgradient(weights) + self._l2.subgradient(weights)

    def scaled(self, factor: float) -> "ElasticNet":
        """Strength times factor, same mix."""
        return ElasticNet(self.strength * factor, self.ratio)

    @property
    def _l1(self) -> L1:
        return L1(self.strength * self.ratio)

    @property
    def _l2(self) -> SquaredL2:
        return SquaredL2(self.strength * (1.0 - self.ratio))


def _row_norms(weights: Array) -> Any:
    """(..., rows, 1), right also where squares would be too small or too large for a number."""
    xp = array_namespace(weights)
    largest = xp.max(xp.abs(weights), axis=-1, keepdims=True)
    unit = xp.where(largest > 0.0, largest, xp.ones_like(largest))
    scaled = weights / unit
    return unit * xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))


@dataclass(frozen=True)
class GroupL1:
    r"""$R(x) = s\sum_j \|x_{j\cdot}\|_2$: all weights of one column of the data vanish together."""

    strength: float

    def value(self, weights: Array) -> Any:
        """The sum of row norms."""
        xp = array_namespace(weights)
        return self.strength * xp.sum(_row_norms(weights)[..., 0], axis=-1)

    def prox(self, weights: Array, step: Any) -> Any:
        """Block soft-thresholding of each row."""
        xp = array_namespace(weights)
        norms = _row_norms(weights)
        threshold = step * self.strength
        kept = xp.maximum(norms - threshold, 0.0)
        return weights * (kept / xp.where(norms > 0.0, norms, xp.ones_like(norms)))

    def subgradient(self, weights: Array) -> Any:
        """Each row's direction, zero at zero."""
        xp = array_namespace(weights)
        norms = _row_norms(weights)
        return self.strength * weights / xp.where(norms > 0.0, norms, xp.ones_like(norms))

    def scaled(self, factor: float) -> "GroupL1":
        """Strength times factor."""
        return GroupL1(self.strength * factor)


@dataclass(frozen=True)
class Box:
    r"""The constraint $|x_j| \le$ radius: zero inside, infinite outside."""

    radius: float

    def value(self, weights: Array) -> Any:
        """Zero or infinity."""
        xp = array_namespace(weights)
        outside = xp.max(xp.abs(weights), axis=MATRIX) > self.radius
        zero = xp.sum(weights * 0.0, axis=MATRIX)
        return xp.where(outside, zero + xp.inf, zero)

    def prox(self, weights: Array, step: Any) -> Any:
        """Projection onto the box."""
        return array_namespace(weights).clip(weights, -self.radius, self.radius)

    def subgradient(self, weights: Array) -> Any:
        """Zero: a subgradient cannot keep to a constraint, only the proximal map can."""
        return 0.0 * weights

    def scaled(self, factor: float) -> "Box":
        """A constraint times a positive number is the same constraint."""
        return self


def _soft_threshold(weights: Array, threshold: Any) -> Any:
    xp = array_namespace(weights)
    return weights - xp.maximum(xp.minimum(weights, threshold), -threshold)


def make_regularizer(name: str, strength: float, ratio: float) -> Regularizer:
    """The regularizer a configuration names; for `box` the strength is the radius."""
    makers = {
        "none": Unregularized,
        "l1": lambda: L1(strength),
        "squared-l2": lambda: SquaredL2(strength),
        "elastic-net": lambda: ElasticNet(strength, ratio),
        "group-l1": lambda: GroupL1(strength),
        "box": lambda: Box(strength),
    }
    if name not in makers:
        raise InputError(f"regularizer must be one of {', '.join(makers)}, got {name!r}.")
    return makers[name]()
