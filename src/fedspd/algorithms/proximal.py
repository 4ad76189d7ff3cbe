"""The Q proximal SGD steps on a client's augmented Lagrangian, eq. (13a)-(13b), shared by primal-dual methods."""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from fedspd.problem import Objective
from fedspd.typing import Array, Batches


class Steps(NamedTuple):
    """Where the local steps of stacked clients led."""

    average: Array  # mean of the Q new iterates
    last: Array
    clipped: Array  # share of record gradients that were clipped, per client


def proximal_steps(
    objective: Objective, start: Array, center: Array, dual: Array, inverse_step: Any, penalty: float, batches: Batches
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
    xp = array_namespace(start)
    step_size = 1 / (inverse_step + penalty)
    keep, anchor = inverse_step * step_size, (penalty * center + dual) * step_size
    x, total, norms = start, xp.zeros_like(start), []
    local_steps = batches.features.shape[1]
    for step in range(local_steps):
        gradient = objective.gradient(x, batches.features[:, step], batches.labels[:, step], batches.divisors)
        x = objective.regularizer.prox(keep * x + anchor - step_size * gradient.mean, step_size)
        total = total + x
        norms.append(gradient.norms)
    clipped = xp.astype(xp.stack(norms) > objective.clip_norm, x.dtype)
    return Steps(total / local_steps, x, xp.mean(clipped, axis=(0, 2)))
