r"""How well sub-problems are solved, from public numbers alone: before a record is seen, and whatever the records are.

A result is within `LEFT`$\cdot G/(m\mu')$ of the minimizer if the rounding of a gradient is at most half of
`LEFT`$\cdot G/m$ (`docs/proofs/minimizers.md`, lemma 12). Rounding grows with the weights, and these with the pull $p$
of the sub-problem; so settings that leave no room for a pull are refused, and a longer pull than there is room for,
which is a function of what was released and heard, is shortened: no record decides either. Noise in an objective is
a part of the pull too. It cannot be shortened, so half of the room is kept for it, and settings are refused whose noise
may need more.
"""

from math import inf
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.privacy.rounding import SAFETY, UNIT, GradientSum, gradient_rounding
from fedspd.problem import GRADIENT_STEPS, LEFT, Objective, SquaredL2, steps_enough
from fedspd.problem.regularizers import MATRIX
from fedspd.typing import Array, Batches, array_namespace

ROOM = 100.0  # pulls of so many G must be solved well enough
LARGEST_EXPONENT = 9.0  # of ten, of a curvature that a rule may choose
HALF = 0.5  # of the room for pulls, where noise needs the other half
TERMS = 16  # roundings of the terms beside the gradient, at most


def influence(objective: Objective, row_norm: Any, divisors: Array) -> Any:
    """G/b, what one record adds to a gradient at most; rows of no known norm are as if it were the clipping norm.

    Where nothing is bounded nothing is claimed, and a gradient of 1 stands for it.
    """
    return _gradient_bound(array_namespace(divisors), objective, row_norm) / divisors


def enlarged(moved: Any) -> Any:
    """How far one record moves a computed minimizer if it moves the exact one by `moved`: both may be off."""
    return moved * (1 + LEFT)


def bounded_pull(
    objective: Objective,
    row_norm: Any,
    curvature: Any,
    pull: Array,
    batches: Batches,
    part: float = 1.0,
    ease: Any = 1.0,
) -> Any:
    """The pull of stacked sub-problems, shortened where rounding would show.

    Args:
        objective: the client's loss, and its regularizer where that is part of the sub-problem.
        row_norm: every feature row is at most this long.
        curvature: $\\mu$, a number or (clients, 1, 1), without the regularizer's.
        pull: $p$, public.
        batches: one step, the whole shard; only how many rows there are is looked at.
        part: of the room that the pull may take.
        ease: how much farther off than `LEFT` a result may be, as (clients, 1, 1).
    """
    xp = array_namespace(pull)
    bound = _gradient_bound(xp, objective, row_norm)
    mu = curvature + (objective.regularizer.strength if isinstance(objective.regularizer, SquaredL2) else 0.0)
    shape, divisors = batches.features.shape, batches.divisors[:, None, None]
    room = _room(objective, bound, row_norm, mu, shape[-2], divisors, shape[-1], ease)
    room = part * xp.maximum(room, ROOM * bound + 0 * room)  # less is refused
    length = xp.sqrt(xp.sum(pull * pull, axis=MATRIX, keepdims=True))
    return pull * xp.minimum(room / xp.maximum(length, room), xp.ones_like(length))


def require_solvable(
    objective: Objective, row_norm: float, curvature: float, records: int, divisors: Any, columns: int
) -> None:
    """Refuse sub-problems that float64 cannot solve as well as the sensitivity says.

    Args:
        objective: the client's loss, and its regularizer where that is part of the sub-problem.
        row_norm: every feature row is at most this long.
        curvature: $\\mu'$, the least of all clients and rounds, the regularizer's included.
        records: of a client, at most.
        divisors: what each client divides its sum by.
        columns: of the features.
    """
    if not _is_solvable(objective, row_norm, curvature, records, divisors, columns):
        raise InputError(
            f"sub-problems must be solved to {LEFT:g} of what one record adds, which double precision cannot promise "
            f"for gradients of norm {objective.gradient_bound(row_norm):g}, curvature {curvature:g} and {records} "
            "records; raise problem.clip_norm or algorithm.penalty, or deal the records to more clients."
        )


def require_room(
    objective: Objective, row_norm: float, curvature: float, records: int, divisors: Any, columns: int, longest: float
) -> None:
    """Refuse noise in sub-problems under which float64 cannot solve them; arguments as above.

    Args:
        longest: a length that noise hardly ever exceeds.
    """
    if not _has_room(objective, row_norm, curvature, records, divisors, columns, longest):
        raise InputError(
            f"noise in sub-problems must leave them solvable in double precision, got a length of {longest:.3g} for "
            f"gradients of norm {objective.gradient_bound(row_norm):g}, curvature {curvature:g} and {records} records; "
            "raise algorithm.penalty or privacy.epsilon, or deal the records to fewer clients."
        )


def least_curvature(
    objective: Objective, row_norm: float, records: int, divisors: Any, columns: int, longest: float = 0.0
) -> float:
    """The least curvature of sub-problems that are not refused, within a percent, for rules that choose one.

    Zero where the records alone would do, infinite where no curvature helps. Arguments as above.
    """

    def solvable(exponent: float) -> bool:
        problem = objective, row_norm, 10.0**exponent, records, divisors, columns
        return _is_solvable(*problem) and _has_room(*problem, longest)

    low, high = -LARGEST_EXPONENT, LARGEST_EXPONENT
    if solvable(low) or not solvable(high):
        return 0.0 if solvable(low) else inf
    while high - low > 0.004:
        middle = (low + high) / 2
        low, high = (low, middle) if solvable(middle) else (middle, high)
    return 10.0**high


def _is_solvable(
    objective: Objective, row_norm: float, curvature: float, records: int, divisors: Any, columns: int
) -> bool:
    bound, each = objective.gradient_bound(row_norm), np.asarray(divisors, float)
    room = _room(objective, bound, row_norm, curvature, records, each, columns)
    crowd = records / each
    condition = 1 + objective.smoothness(row_norm) * crowd / curvature
    needed = steps_enough(np, condition, 4 * (room / bound + crowd) * each / LEFT)
    return bool(np.all((room >= ROOM * bound) & (needed <= GRADIENT_STEPS)))


def _has_room(
    objective: Objective, row_norm: float, curvature: float, records: int, divisors: Any, columns: int, longest: float
) -> bool:
    bound, each = objective.gradient_bound(row_norm), np.asarray(divisors, float)
    return bool(np.all(HALF * _room(objective, bound, row_norm, curvature, records, each, columns) >= longest))


def _gradient_bound(xp: Any, objective: Objective, row_norm: Any) -> Any:
    """G, also where numbers are traced."""
    bound = xp.asarray(objective.clip_norm)
    if row_norm is not None:
        bound = xp.minimum(bound, xp.asarray(objective.loss.slope_bound * row_norm))
    return xp.where(xp.isfinite(bound), bound, xp.ones_like(bound))


def _room(
    objective: Objective, bound: Any, row_norm: Any, curvature: Any, records: int, divisors: Any, columns: int,
    ease: Any = 1.0,
) -> Any:  # fmt: skip
    r"""The longest pull $P$ at which rounding is half of `LEFT`$\cdot G/m$, with weights of $2(P + nG/m)/\mu'$."""
    smoothness = objective.loss.curvature * row_norm * row_norm
    batch = GradientSum(bound, row_norm, smoothness, columns, objective.loss.outputs, records, divisors)

    def rounding(pull: Any) -> Any:
        weights = 2 * (pull + batch.longest) / curvature
        return gradient_rounding(batch, weights) + SAFETY * UNIT * TERMS * (curvature * weights + pull)

    least, far = rounding(0.0), 1e6 * bound
    return (0.5 * LEFT * ease * bound / divisors - least) / ((rounding(far) - least) / far)
