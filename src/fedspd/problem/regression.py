"""Losses of numbers and counts. Numbers are on [-1, 1], counts as they are (`fedspd.target`)."""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.problem.losses import Loss, OneScore, like
from fedspd.typing import Array, array_namespace

LEAST_SHARE = 1e-3  # of the center: no lower rate is predicted


@dataclass(frozen=True)
class LeastSquares(OneScore):
    r"""$\tfrac12 (s - y)^2$ for a number $y$, or for two classes 0 and 1."""

    of_classes: bool = True  # whether a class is predicted, or the number

    curvature = 1.0
    slope_bound = inf  # it grows with the score

    def values(self, scores: Array, labels: Array) -> Any:
        """Half the squared residuals."""
        residual = scores[..., 0] - like(scores, labels)
        return 0.5 * residual * residual

    def slopes(self, scores: Array, labels: Array) -> Any:
        """The residuals."""
        return scores - like(scores, labels)[..., None]

    def bends(self, scores: Array, labels: Array) -> Any:
        """One."""
        return array_namespace(scores).ones_like(scores[..., 0])

    def predict(self, scores: Array) -> Any:
        """The score, or class 1 where it is nearer to 1 than to 0."""
        return scores[..., 0] > 0.5 if self.of_classes else scores[..., 0]


@dataclass(frozen=True)
class Huber(OneScore):
    r"""$\tfrac12 r^2$ of residuals $r = s - y$ up to the threshold, $|r|$ times it beyond: outliers pull no harder."""

    threshold: float = 0.5

    curvature = 1.0

    @property
    def slope_bound(self) -> float:
        """The threshold, whatever the label is."""
        return self.threshold

    def values(self, scores: Array, labels: Array) -> Any:
        """Half the squares near zero, straight lines beyond."""
        residual = scores[..., 0] - like(scores, labels)
        held = array_namespace(scores).clip(residual, -self.threshold, self.threshold)
        return held * (residual - 0.5 * held)

    def slopes(self, scores: Array, labels: Array) -> Any:
        """The residuals, held to the threshold."""
        residual = scores - like(scores, labels)[..., None]
        return array_namespace(scores).clip(residual, -self.threshold, self.threshold)

    def bends(self, scores: Array, labels: Array) -> Any:
        """One up to the threshold, else zero."""
        xp = array_namespace(scores)
        return xp.astype(xp.abs(scores[..., 0] - like(scores, labels)) < self.threshold, scores.dtype)

    def predict(self, scores: Array) -> Any:
        """The score."""
        return scores[..., 0]


@dataclass(frozen=True)
class Poisson(OneScore):
    r"""Half the deviance of a count $y$ from its rate $\mu = c\,e^s$, over the most there can be, $M$.

    $\frac1M\big(\mu - y + y\ln\frac y\mu\big)$ for rates up to $M$ and its tangent beyond, so that slopes are within
    [-1, 1] and bends at most 1. A count above the most counts as the most: the bound on slopes holds whatever the
    records are.
    """

    most: float  # M
    center: float  # c, the rate at a score of zero

    curvature = 1.0
    slope_bound = 1.0

    def values(self, scores: Array, labels: Array) -> Any:
        """Half deviances over the most, a straight line above the highest rate."""
        xp = array_namespace(scores)
        count, score = self._counts(scores, labels), scores[..., 0]
        beyond = xp.maximum(score - self._highest(scores), 0.0)
        positive = xp.where(count > 0.0, count, xp.ones_like(count))
        own = xp.log(positive / self.center)  # the score at which the rate is the count
        return (self._rates(scores) * (1.0 + beyond) - count - count * (score - own)) / self.most

    def slopes(self, scores: Array, labels: Array) -> Any:
        """The rate above the count, over the most."""
        return ((self._rates(scores) - self._counts(scores, labels)) / self.most)[..., None]

    def bends(self, scores: Array, labels: Array) -> Any:
        """The rate over the most, zero where it can rise no more."""
        xp = array_namespace(scores)
        rising = scores[..., 0] < self._highest(scores)
        return xp.where(rising, self._rates(scores), xp.zeros_like(scores[..., 0])) / self.most

    def predict(self, scores: Array) -> Any:
        """The rate, which is never quite zero."""
        return array_namespace(scores).maximum(self._rates(scores), LEAST_SHARE * self.center)

    def _rates(self, scores: Array) -> Any:
        xp = array_namespace(scores)
        return xp.minimum(self.center * xp.exp(xp.minimum(scores[..., 0], self._highest(scores))), self.most)

    def _highest(self, scores: Array) -> Any:
        """The score at which the rate is the most."""
        xp = array_namespace(scores)
        return xp.log(xp.asarray(self.most / self.center, dtype=scores.dtype))

    def _counts(self, scores: Array, labels: Array) -> Any:
        return array_namespace(scores).clip(like(scores, labels), 0.0, self.most)


def is_regression(loss: Loss) -> bool:
    """Whether a number or a rate is predicted: then every record has a finite score that suits it best."""
    return isinstance(loss, Huber | Poisson) or (isinstance(loss, LeastSquares) and not loss.of_classes)
