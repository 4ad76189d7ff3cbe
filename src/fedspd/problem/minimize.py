r"""The exact sub-problem of ADMM methods: a client's whole objective with a quadratic, minimized to rounding.

A loss of one margin sees weights through their contrast $v$ alone, and its clipped gradient is that of
a convex loss of the margin, linear where it clips. In $v$ the sub-problem is strongly convex with a gradient that is
smooth but for kinks, and semismooth Newton steps solve it. No value
of a clipped loss is needed: how far to go is told by slopes along a step, which cost no more than the records' margins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedspd.errors import InputError
from fedspd.problem.losses import Loss
from fedspd.problem.objective import Objective
from fedspd.problem.regularizers import MATRIX, SquaredL2, Unregularized
from fedspd.typing import Array, array_namespace

NEWTON_STEPS = 200
LENGTHS = 40  # tried along one step at most
GOAL = 1e-11  # gradient norm at which a client is done
FLAT = 0.1  # share of a step's slope that may be left at its end
ROUNDING = 8.0  # of its terms' size, in units of rounding: a gradient below it that no longer shrinks is done


class Minimum(NamedTuple):
    """Where the sub-problems of stacked clients are least."""

    weights: Array  # (clients, columns, outputs)
    slope: Array  # (clients,): norm of the gradient there
    clipped: Array  # share of record gradients that are clipped there, per client


def check_exact(objective: Objective) -> None:
    """Refuse losses and regularizers whose sub-problems cannot be solved exactly here."""
    loss, regularizer = objective.loss, objective.regularizer
    if not loss.clip_keeps_convex:
        raise InputError(
            f"an exact sub-problem needs a loss of one margin, got {type(loss).__name__} with {loss.outputs} outputs; "
            "use data of two classes, or a method with local steps."
        )
    if not isinstance(regularizer, Unregularized | SquaredL2):
        raise InputError(
            "an exact sub-problem needs problem.regularizer = none or squared-l2, "
            f"got {type(regularizer).__name__}; use one of these, or a method with local steps."
        )


def minimize(
    objective: Objective, start: Array, curvature: Any, pull: Array, features: Array, labels: Array, divisors: Array
) -> Minimum:
    r"""$\arg\min_x \frac1b\sum_j \ell_{clipped}(x; \mathrm{record}_j) + R(x) + \frac\mu2\|x\|^2 - \langle p, x\rangle$.

    Args:
        objective: one that `check_exact` lets pass.
        start: (clients, columns, outputs), where the search begins; a near one saves time.
        curvature: $\mu$, a number or (clients, 1, 1); with the regularizer's strength it must be positive.
        pull: $p$, (clients, columns, outputs).
        features: (clients, records, columns), filled up with rows of zeros.
        labels: (clients, records).
        divisors: (clients,), $b$.

    Guarantees:
        The norm of the gradient at the result is at most 1e-9 in double precision, but for what rounding leaves of its
        terms: some 1e-15 of their size, and in single precision 1e-6.
    """
    xp, loss, regularizer = array_namespace(start), objective.loss, objective.regularizer
    strength = regularizer.strength if isinstance(regularizer, SquaredL2) else 0.0
    mu = xp.zeros_like(start[:, :1, :1]) + xp.asarray(curvature, dtype=start.dtype) + strength
    margins = _Margins(
        loss,
        objective.clip_norm,
        features,
        labels,
        share=loss.stretch / divisors[:, None],
        lengths=xp.sqrt(loss.stretch * xp.vecdot(features, features)),
        curvature=mu[..., 0],
        pull=loss.contrast(pull)[..., 0],
    )
    contrast = _newton(margins, loss.contrast(start)[..., 0])
    against = (margins.curvature * contrast - margins.pull) / loss.stretch  # minus the records' gradient
    weights = (pull + loss.spread(against[..., None])) / mu
    found = objective.gradient(weights, features, labels, divisors)
    slope = found.mean + mu * weights - pull
    return Minimum(weights, xp.sqrt(xp.sum(slope * slope, axis=MATRIX)), found.clipped)


@dataclass(frozen=True)
class _Margins:
    r"""The sub-problem of contrasts: $\frac sb\sum_j \phi_j(a_j^\top v) + \frac\mu2\|v\|^2 - \langle q, v\rangle$."""

    loss: Loss
    clip_norm: Any
    features: Array  # (clients, records, columns)
    labels: Array  # (clients, records)
    share: Array  # s/b, (clients, 1)
    lengths: Array  # (clients, records): norm of a record's gradient over its slope
    curvature: Array  # μ, (clients, 1)
    pull: Array  # q, (clients, columns)

    def scores(self, contrast: Array) -> Any:
        """Margins of all records."""
        return array_namespace(contrast).matmul(self.features, contrast[..., None])[..., 0]

    def slopes(self, scores: Array) -> tuple[Any, Any]:
        """Clipped slopes by the margins, and where they are not clipped."""
        xp = array_namespace(scores)
        slopes = self.loss.slopes(scores[..., None], self.labels)[..., 0]
        over = self.lengths * xp.abs(slopes) / self.clip_norm
        return slopes / xp.maximum(over, 1.0), over <= 1.0

    def at(self, contrast: Array, steps: Any) -> "_Point":
        """All that Newton's method must know of a point."""
        xp = array_namespace(contrast)
        scores = self.scores(contrast)
        slopes, unclipped = self.slopes(scores)
        bends = self.share * xp.astype(unclipped, scores.dtype) * self.loss.bends(scores[..., None], self.labels)
        loss_part = xp.matmul(xp.matrix_transpose(self.features), (self.share * slopes)[..., None])[..., 0]
        gradient = loss_part + self.curvature * contrast - self.pull
        # the sizes of what cancels at the minimum; scores are as uncertain as the weights are large
        of_records = self.lengths * (self.share * xp.abs(slopes) + bends * self.lengths * _norm(contrast)[:, None])
        terms = xp.sum(of_records, axis=-1) + _norm(self.curvature * contrast) + _norm(self.pull)
        slope, rounding = _norm(gradient), float(xp.finfo(contrast.dtype).eps) * terms
        return _Point(contrast, scores, bends, gradient, slope, rounding, slope <= GOAL, steps)

    def newton_direction(self, here: "_Point") -> Any:
        """Minus the gradient over the second derivative."""
        xp = array_namespace(here.scores)
        # so little more than μ that only a matrix which rounding would make singular feels it
        size = xp.sum(here.bends * self.lengths * self.lengths, axis=-1, keepdims=True)
        least = self.curvature + float(xp.finfo(size.dtype).eps) * size
        weighted = xp.matrix_transpose(self.features * here.bends[..., None])
        identity = xp.eye(self.features.shape[-1], dtype=size.dtype)
        bend = xp.matmul(weighted, self.features) + least[..., None] * identity
        return -xp.linalg.solve(bend, here.gradient[..., None])[..., 0]


class _Point(NamedTuple):
    """Where Newton's method stands."""

    contrast: Any
    scores: Any
    bends: Any  # of the records, zero where they are clipped
    gradient: Any
    slope: Any  # its norm, (clients,)
    rounding: Any  # what the norm is uncertain by
    done: Any  # (clients,)
    steps: Any


def _newton(margins: _Margins, start: Array) -> Any:
    r"""The contrast at which the gradient vanishes.

    Every step lowers the objective $F$ by $a^2/4K$ or more (see `_tried`), $a = d^\top H d$ and
    $K \le L\|d\|^2$ with $H$ between $\mu$ and $L$, which is a share $(\mu/L)^2/2$ of what $F$ is above its minimum:
    it converges from anywhere. Near the minimum whole steps pass and it converges faster than linearly.
    """
    xp = array_namespace(start)

    def step(here: _Point) -> _Point:
        direction = margins.newton_direction(here)
        length = xp.where(here.done, 0.0 * here.slope, _length(margins, here, direction))
        there = margins.at(here.contrast + length[:, None] * direction, here.steps + 1)
        exhausted = (there.slope <= ROUNDING * there.rounding) & (there.slope > 0.5 * here.slope)
        return there._replace(done=here.done | there.done | exhausted)

    def going(here: _Point) -> Any:
        return xp.any(~here.done) & (here.steps < NEWTON_STEPS)

    return _repeat(going, step, margins.at(start, xp.asarray(0))).contrast


class _Line(NamedTuple):
    """The objective along a step: its slope is `-descent` at first and grows by `least` to `most` per length."""

    scores: Any
    moves: Any  # of the scores, per length
    constant: Any  # part of the slope
    descent: Any
    least: Any
    most: Any
    noise: Any  # a slope below it is as good as none


class _Search(NamedTuple):
    """Between which lengths the best one of a step is; all but `tried` are (clients,)."""

    low: Any
    low_slope: Any  # negative
    high: Any
    high_slope: Any  # positive
    found: Any
    settled: Any
    tried: Any


def _length(margins: _Margins, here: _Point, direction: Array) -> Any:
    """How far to go along a step: all of it, or to where the objective is about least."""
    xp = array_namespace(direction)
    moves, tiny = margins.scores(direction), float(xp.finfo(direction.dtype).smallest_normal)
    least = xp.vecdot(margins.curvature * direction, direction)
    line = _Line(
        here.scores,
        moves,
        constant=xp.vecdot(margins.curvature * here.contrast - margins.pull, direction),
        descent=-xp.vecdot(here.gradient, direction),
        least=least,
        most=least + margins.loss.curvature / margins.loss.stretch * xp.vecdot(margins.share * moves, moves),
        noise=here.rounding * _norm(direction),
    )

    def step(search: _Search) -> _Search:
        low, high = search.low, search.high
        secant = low - (high - low) * search.low_slope / xp.maximum(search.high_slope - search.low_slope, tiny)
        return _tried(margins, line, search, xp.where(search.tried % 2 == 1, secant, xp.sqrt(low * high)))

    def going(search: _Search) -> Any:
        return xp.any(~search.settled) & (search.tried < LENGTHS)

    low, high = (line.descent / xp.maximum(growth, tiny) for growth in (line.most, line.least))
    # the slope at `high` is a guess, which only the first secant may feel
    untried = _Search(low, -line.descent, high, line.descent, low, here.done, xp.asarray(0))
    search = _repeat(going, step, _tried(margins, line, untried, xp.ones_like(low)))
    return xp.where(search.settled, search.found, search.low)


def _tried(margins: _Margins, line: _Line, search: _Search, length: Any) -> _Search:
    r"""One more length tried.

    With slope $-a$ at first, $b$ at length $t$ and at most $K$ more per length, the objective is lower at $t$ by
    $(a^2-b^2)/2K$ or more if $b \le 0$, and by $(a+b)^2/2K - bt$ or more if not. That settles it if it is $a^2/4K$.
    """
    xp = array_namespace(length)
    slopes, _ = margins.slopes(line.scores + length[:, None] * line.moves)
    slope = xp.vecdot(margins.share * slopes, line.moves) + line.constant + length * line.least
    before, total = slope <= 0.0, line.descent + slope
    enough = xp.where(before, -slope <= FLAT * line.descent, 4.0 * line.most * slope * length <= total * total)
    return _Search(
        xp.where(before, length, search.low),
        xp.where(before, slope, search.low_slope),
        xp.where(before, search.high, length),
        xp.where(before, search.high_slope, slope),
        xp.where(search.settled, search.found, length),
        search.settled | enough | (xp.abs(slope) <= line.noise),
        search.tried + 1,
    )


def _norm(vectors: Array) -> Any:
    xp = array_namespace(vectors)
    return xp.sqrt(xp.vecdot(vectors, vectors))


def _repeat(going: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Steps for as long as they are going, which a compiled program must be told in its own words."""
    if array_namespace(state[0]).__name__.startswith("jax"):
        import jax

        return jax.lax.while_loop(going, step, state)
    while going(state):
        state = step(state)
    return state
