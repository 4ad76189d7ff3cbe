"""A sub-problem as records see it: through their margins, in the contrast of the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedspd.problem.losses import Loss
from fedspd.typing import Array, array_namespace

GOAL = 1e-7  # gradient norm, over one record's influence, at which a client is done
LEAST_GOAL = 1e-11  # and at most so much, for influences above a ten-thousandth


Loop = Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]
LOOPS: dict[str, Loop] = {}
"""Of libraries that compile, by their names: an engine enters its own."""


def norm(vectors: Array) -> Any:
    """Of each vector in a stack."""
    xp = array_namespace(vectors)
    return xp.sqrt(xp.vecdot(vectors, vectors))


def is_compiled(array: Array) -> bool:
    """Whether an array belongs to a library that compiles."""
    return _library(array) in LOOPS


def _library(array: Array) -> str:
    return array_namespace(array).__name__.partition(".")[0]


def repeat(going: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Steps for as long as they are going, which a compiled program must be told in its own words."""
    compiled = LOOPS.get(_library(state[0]))
    if compiled is not None:
        return compiled(going, step, state)
    while going(state):
        state = step(state)
    return state


@dataclass(frozen=True)
class Margins:
    r"""The sub-problem of contrasts: $\frac sb\sum_j \phi_j(a_j^\top v) + \frac\mu2\|v\|^2 - \langle q, v\rangle$."""

    loss: Loss
    clip_norm: Any
    features: Array  # (clients, records, columns)
    labels: Array  # (clients, records)
    share: Array  # s/b, (clients, 1)
    lengths: Array  # (clients, records): norm of a record's gradient over its slope
    curvature: Array  # μ, (clients, 1)
    pull: Array  # q, (clients, columns)
    influence: Array  # G/b, (clients,)

    @property
    def goal(self) -> Any:
        """The gradient norm at which Newton's method is done."""
        return array_namespace(self.influence).minimum(GOAL * self.influence, LEAST_GOAL + 0.0 * self.influence)

    def scores(self, contrast: Array) -> Any:
        """Margins of all records."""
        return array_namespace(contrast).matmul(self.features, contrast[..., None])[..., 0]

    def slopes(self, scores: Array) -> tuple[Any, Any]:
        """Clipped slopes by the margins, and where they are not clipped."""
        xp = array_namespace(scores)
        slopes = self.loss.slopes(scores[..., None], self.labels)[..., 0]
        over = self.lengths * xp.abs(slopes) / self.clip_norm
        return slopes / xp.maximum(over, 1.0), over <= 1.0

    def at(self, contrast: Array, steps: Any) -> "Point":
        """All that Newton's method must know of a point."""
        xp = array_namespace(contrast)
        scores = self.scores(contrast)
        slopes, unclipped = self.slopes(scores)
        bends = self.share * xp.astype(unclipped, scores.dtype) * self.loss.bends(scores[..., None], self.labels)
        loss_part = xp.matmul(xp.matrix_transpose(self.features), (self.share * slopes)[..., None])[..., 0]
        gradient = loss_part + self.curvature * contrast - self.pull
        # the sizes of what cancels at the minimum; scores are as uncertain as the weights are large
        of_records = self.lengths * (self.share * xp.abs(slopes) + bends * self.lengths * norm(contrast)[:, None])
        terms = xp.sum(of_records, axis=-1) + norm(self.curvature * contrast) + norm(self.pull)
        slope, rounding = norm(gradient), float(xp.finfo(contrast.dtype).eps) * terms
        return Point(contrast, scores, bends, gradient, slope, rounding, slope <= self.goal, steps)

    def newton_direction(self, here: "Point") -> Any:
        """Minus the gradient over the second derivative."""
        xp = array_namespace(here.scores)
        # so little more than μ that only a matrix which rounding would make singular feels it
        size = xp.sum(here.bends * self.lengths * self.lengths, axis=-1, keepdims=True)
        least = self.curvature + float(xp.finfo(size.dtype).eps) * size
        weighted = xp.matrix_transpose(self.features * here.bends[..., None])
        identity = xp.eye(self.features.shape[-1], dtype=size.dtype)
        bend = xp.matmul(weighted, self.features) + least[..., None] * identity
        return -xp.linalg.solve(bend, here.gradient[..., None])[..., 0]


class Point(NamedTuple):
    """Where Newton's method stands."""

    contrast: Any
    scores: Any
    bends: Any  # of the records, zero where they are clipped
    gradient: Any
    slope: Any  # its norm, (clients,)
    rounding: Any  # what the norm is uncertain by
    done: Any  # (clients,)
    steps: Any
