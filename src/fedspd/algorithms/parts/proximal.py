"""The Q proximal SGD steps on a client's augmented Lagrangian, eq. (13a)-(13b), and when they spread no gap."""

from math import inf
from typing import Any, NamedTuple

from fedspd.errors import InputError
from fedspd.privacy.sensitivity import check_contraction
from fedspd.problem import Objective, fast
from fedspd.typing import Array, Batches, array_namespace


class Steps(NamedTuple):
    """Where the local steps of stacked clients led."""

    average: Array  # mean of the Q new iterates
    last: Array
    clipped: Any  # share of record gradients that were clipped, per client


def proximal_steps(
    objective: Objective,
    start: Array,
    center: Array,
    dual: Any,
    inverse_step: Any,
    penalty: float,
    batches: Batches,
) -> Steps:
    r"""$x \leftarrow \mathrm{prox}_{\eta R}(\eta(\gamma x + \rho x_0 + \lambda - \nabla f(x; B_r)))$.

    $\eta = 1/(\gamma+\rho)$; the average is over the Q new points.

    Args:
        objective: the client's loss and regularizer.
        start: where the steps begin.
        center: the server's weights $x_0$.
        dual: $\lambda$.
        inverse_step: $\gamma$.
        penalty: $\rho$.
        batches: one batch per step.
    """
    if type(objective) is Objective:  # the kernel does not know what another one makes of a gradient
        known = objective.loss, objective.regularizer, objective.clip_norm
        found = fast.proximal_steps(*known, start, center, dual, inverse_step, penalty, batches)
        if found is not None:
            return Steps(*found)
    xp = array_namespace(start)
    step_size = 1 / (inverse_step + penalty)
    keep, anchor = inverse_step * step_size, (penalty * center + dual) * step_size
    x, total, clipped = start, xp.zeros_like(start), 0.0
    local_steps = batches.features.shape[1]
    squares = xp.vecdot(batches.features, batches.features)  # of all steps in one call
    batches = batches._replace(divisors=batches.divisors / step_size)  # it multiplies batches, which are small
    for step in range(local_steps):
        gradient = objective.gradient(x, *batches.step(step), squares[:, step, ...])
        x = objective.regularizer.prox(keep * x + anchor - gradient.mean, step_size)
        total = total + x
        clipped = clipped + gradient.clipped
    return Steps(total / local_steps, x, clipped / local_steps)


def check_local_steps(
    objective: Objective, local_steps: int, inverse_step: float, row_norm: float, crowding: float = 1.0
) -> None:
    """Refuse what the sensitivity proofs of local steps do not cover, on declared numbers only.

    Args:
        objective: its loss and clipping.
        local_steps: Q.
        inverse_step: the least γ of all rounds.
        row_norm: every feature row is at most this long.
        crowding: most records in a batch over the nominal batch size.
    """
    loss, largest = objective.loss, objective.largest_gradient(row_norm)
    if local_steps > 1 and not loss.clip_keeps_convex and objective.clip_norm < largest:
        raise InputError(
            f"a clipped {type(loss).__name__} of more than two classes is not convex, so local_steps must be 1, "
            f"got {local_steps}; set local_steps = 1, or clip_norm to at least {largest:.4g}, which never clips."
        )
    check_contraction(local_steps, inverse_step, objective.smoothness(row_norm), crowding)
    if objective.gradient_bound(row_norm) == inf:
        raise InputError(
            f"record gradients must be bounded, got clip_norm = inf for {type(loss).__name__} and row_norm = "
            f"{row_norm:g}; set problem.clip_norm."
        )
