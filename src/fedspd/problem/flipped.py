r"""The loss of labels that were flipped at random, without the bias that flipping brings.

With a chance p of a flip, $\hat\ell(y) = \frac{(1-p)\,\ell(y) - p\,\ell(1-y)}{1-2p}$ has the mean $\ell$ of the true
label (Natarajan et al. 2013). For cross-entropy $\ell(y) - \ell(1-y)$ is linear in the margin, so that $\hat\ell =
\ell(y) - \frac{p}{1-2p}(\pm m)$ is convex, with the same curvature, for every p below one half.
"""

from dataclasses import dataclass
from typing import Any

from fedspd.problem.losses import Softmax
from fedspd.typing import Array


@dataclass(frozen=True)
class FlippedLabels:
    """Cross-entropy of two classes, corrected for flips."""

    chance: float  # p

    outputs = 2
    curvature = 0.5
    clip_keeps_convex = True
    stretch = 2.0

    @property
    def slope_bound(self) -> float:
        r"""$\sqrt2\,(1-p)/(1-2p)$."""
        return Softmax(2).slope_bound * (1 + self.tilt)

    @property
    def tilt(self) -> float:
        """p/(1-2p): how far labels are moved apart."""
        return self.chance / (1 - 2 * self.chance)

    def values(self, scores: Array, labels: Array) -> Any:
        """Corrected losses, which may be negative."""
        one, other = Softmax(2).values(scores, labels), Softmax(2).values(scores, 1 - labels)
        return one + self.tilt * (one - other)

    def slopes(self, scores: Array, labels: Array) -> Any:
        """By the scores, or by their contrast."""
        one, other = Softmax(2).slopes(scores, labels), Softmax(2).slopes(scores, 1 - labels)
        return one + self.tilt * (one - other)

    def bends(self, scores: Array, labels: Array) -> Any:
        """Those of cross-entropy: what was added is linear."""
        return Softmax(2).bends(scores, labels)

    def contrast(self, weights: Array) -> Any:
        """The difference of two classes."""
        return Softmax(2).contrast(weights)

    def spread(self, gradient: Array) -> Any:
        """What one class gains the other loses."""
        return Softmax(2).spread(gradient)

    def predict(self, scores: Array) -> Any:
        """The class with the higher score."""
        return Softmax(2).predict(scores)
