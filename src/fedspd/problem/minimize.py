r"""The exact sub-problem of ADMM methods: a client's whole objective with a quadratic, minimized to rounding.

A loss of one margin sees weights through their contrast $v$ alone, and its clipped gradient is that of
a convex loss of the margin, linear where it clips. In $v$ the sub-problem is strongly convex with a gradient that is
smooth but for kinks, and semismooth Newton steps solve it. No value
of a clipped loss is needed: how far to go is told by slopes along a step, which cost no more than the records' margins.

What is left of the gradient is measured against $G/b$, what one record adds to it. Whatever the records are there is a
result as good as promised, and no error: where Newton's method has not arrived, as many gradient steps follow as are
proved to be enough.
"""

from typing import Any, NamedTuple

from fedspd.errors import InputError
from fedspd.problem import fast
from fedspd.problem.margins import Margins, Point, is_compiled, norm, repeat
from fedspd.problem.objective import Objective
from fedspd.problem.regularizers import MATRIX, SquaredL2, Unregularized
from fedspd.typing import Array, array_namespace

NEWTON_STEPS = 200
CACHED = 1 << 18  # numbers of records that are solved side by side on NumPy: 2 MiB, which a core's caches hold
GRADIENT_STEPS = 10**6  # that may follow; what needs more is refused beforehand
LENGTHS = 40  # tried along one step at most
LEFT = 1e-4  # the same, that no result exceeds (`docs/proofs/minimizers.md`)
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
    objective: Objective,
    start: Array,
    curvature: Any,
    pull: Array,
    features: Array,
    labels: Array,
    divisors: Array,
    influence: Any,
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
        influence: $G/b$, a public number or one per client: what one record adds to the gradient at most.

    Guarantees:
        The result is at most `LEFT` times the influence, over the curvature, away from where the minimum is, if
        rounding leaves half of that (`algorithms.parts.exactness`), whatever the records are.
        Mostly the gradient is a ten-millionth of the influence, or what rounding leaves of its terms: some 1e-15 of
        their size, and in single precision 1e-6.
    """
    count, records, columns = features.shape
    size = max(1, CACHED // max(1, records * columns))
    if is_compiled(start) or count <= size:
        return _minimize(objective, start, curvature, pull, features, labels, divisors, influence)
    parts = [slice(begin, begin + size) for begin in range(0, count, size)]
    found = [
        _minimize(
            objective, start[part], _part(curvature, part, count), pull[part], features[part], labels[part],
            divisors[part], _part(influence, part, count),
        )
        for part in parts
    ]  # fmt: skip
    xp = array_namespace(start)
    return Minimum(*(xp.concat(values) for values in zip(*found, strict=True)))


def _part(value: Any, part: slice, count: int) -> Any:
    """Of a number or of one per client."""
    return value[part] if getattr(value, "shape", ())[:1] == (count,) else value


def _minimize(
    objective: Objective,
    start: Array,
    curvature: Any,
    pull: Array,
    features: Array,
    labels: Array,
    divisors: Array,
    influence: Any,
) -> Minimum:
    """The same for clients that are solved side by side."""
    xp, loss, regularizer = array_namespace(start), objective.loss, objective.regularizer
    strength = regularizer.strength if isinstance(regularizer, SquaredL2) else 0.0
    mu = xp.zeros_like(start[:, :1, :1]) + xp.asarray(curvature, dtype=start.dtype) + strength
    margins = Margins(
        loss,
        objective.clip_norm,
        features,
        labels,
        share=loss.stretch / divisors[:, None],
        lengths=xp.sqrt(loss.stretch * xp.vecdot(features, features)),
        curvature=mu[..., 0],
        pull=loss.contrast(pull)[..., 0],
        influence=xp.zeros_like(divisors) + influence,
    )
    contrast = _arrived(margins, loss.contrast(start)[..., 0])
    against = (margins.curvature * contrast - margins.pull) / loss.stretch  # minus the records' gradient
    weights = (pull + loss.spread(against[..., None])) / mu
    found = objective.gradient(weights, features, labels, divisors)
    slope = found.mean + mu * weights - pull
    return Minimum(weights, xp.sqrt(xp.sum(slope * slope, axis=MATRIX)), found.clipped)


def _arrived(margins: Margins, start: Array) -> Any:
    """The contrasts; by the kernel, if there is one, of those that it leads there."""
    found = fast.newton(
        margins.loss, margins.clip_norm, margins.features, margins.labels, margins.lengths, margins.share,
        margins.curvature, margins.pull, margins.goal, start, ROUNDING, FLAT, NEWTON_STEPS, LENGTHS,
    )  # fmt: skip
    if found is None:
        return _descended(margins, _newton(margins, start))
    contrasts, arrived = found
    if arrived.all():
        return contrasts
    # client by client: which way one takes must not depend on another's records
    return array_namespace(start).where(arrived[:, None], contrasts, _descended(margins, _newton(margins, start)))


def _newton(margins: Margins, start: Array) -> Point:
    r"""The contrast at which the gradient vanishes, if that many steps lead there.

    Every step lowers the objective $F$ by $a^2/4K$ or more (see `_tried`), $a = d^\top H d$ and
    $K \le L\|d\|^2$ with $H$ between $\mu$ and $L$, which is a share $(\mu/L)^2/2$ of what $F$ is above its minimum:
    it converges from anywhere. Near the minimum whole steps pass and it converges faster than linearly.
    """
    xp = array_namespace(start)

    def step(here: Point) -> Point:
        direction = margins.newton_direction(here)
        length = xp.where(here.done, 0.0 * here.slope, _length(margins, here, direction))
        there = margins.at(here.contrast + length[:, None] * direction, here.steps + 1)
        exhausted = (there.slope <= ROUNDING * there.rounding) & (there.slope > 0.5 * here.slope)
        return there._replace(done=here.done | there.done | exhausted)

    def going(here: Point) -> Any:
        return xp.any(~here.done) & (here.steps < NEWTON_STEPS)

    return repeat(going, step, margins.at(start, xp.asarray(0)))


def steps_enough(xp: Any, condition: Any, ratio: Any) -> Any:
    """Gradient steps after which the distance is half of 1/ratio of what it was, for this ratio of curvatures."""
    return condition * xp.log(xp.maximum(2.0 * ratio, 1.0 + 0.0 * ratio))


class _Descent(NamedTuple):
    """Where gradient steps stand."""

    contrast: Any
    settled: Any  # (clients,)
    taken: Any


def _descended(margins: Margins, last: Point) -> Any:
    r"""Where Newton's method ended; where it has not arrived, gradient steps from zero that are proved to.

    A step of length $1/M$, $M$ at least the largest curvature, brings a point nearer by $1 - \mu/M$, and zero is at
    most its slope over $\mu$ away. Roundings add up to what one step makes times $M/\mu$ (lemma 12
    of `docs/proofs/minimizers.md`).
    """
    xp = array_namespace(last.contrast)
    least, target = margins.curvature[:, 0], 0.5 * LEFT * margins.influence
    steepness = margins.loss.curvature / margins.loss.stretch**2 * margins.share * margins.lengths * margins.lengths
    most = least + xp.sum(steepness, axis=-1)
    at_zero, _ = margins.slopes(xp.zeros_like(last.scores))
    farthest = xp.sum(margins.share * xp.abs(at_zero) * margins.lengths, axis=-1) + norm(margins.pull)
    enough = xp.minimum(steps_enough(xp, most / least, farthest / target), xp.asarray(float(GRADIENT_STEPS)))
    eps = float(xp.finfo(target.dtype).eps)
    hopeless = (
        target <= ROUNDING * eps * (1.0 + most / least) * farthest
    )  # for rounding, which is refused beforehand too

    def step(here: _Descent) -> _Descent:
        point = margins.at(here.contrast, here.taken)
        settled = here.settled | (point.slope <= target) | (enough <= xp.astype(here.taken, target.dtype))
        length = xp.where(settled, xp.zeros_like(most), 1.0 / most)
        return _Descent(here.contrast - length[:, None] * point.gradient, settled, here.taken + 1)

    arrived = last.done | (last.slope <= target) | hopeless
    start = xp.where(arrived[:, None], last.contrast, xp.zeros_like(last.contrast))
    return repeat(lambda here: xp.any(~here.settled), step, _Descent(start, arrived, xp.asarray(0))).contrast


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


def _length(margins: Margins, here: Point, direction: Array) -> Any:
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
        noise=here.rounding * norm(direction),
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
    search = repeat(going, step, _tried(margins, line, untried, xp.ones_like(low)))
    return xp.where(search.settled, search.found, search.low)


def _tried(margins: Margins, line: _Line, search: _Search, length: Any) -> _Search:
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
