r"""L2 sensitivities that are proved (`docs/proofs/local-steps.md`), as functions of public numbers only.

Neighbors: under "replace-one" a record is replaced by any other; under "zero-out" it is replaced by
one without any effect. A record's clipped gradient has norm at most G, so one record moves a batch's
mean gradient by at most 2G/b, or G/b.
"""

from math import sqrt
from typing import Any

from fedspd.errors import InputError

RECORD_MOVES = {"replace-one": 2.0, "zero-out": 1.0}
"""How far one record moves a sum of vectors of norm at most 1."""


def proximal_average(
    relation: str, gradient_bound: float, batch_sizes: Any, local_steps: int, inverse_step: float, penalty: float
) -> Any:
    r"""$s_x = \frac{2G}{bQ(\gamma+\rho)}\sum_{k<Q} c^k = \frac{2G(1-c^Q)}{bQ\rho}$ with $c = \gamma/(\gamma+\rho)$.

    The average of Q proximal steps, a record being in at most one of the batches; the factor is 1
    instead of 2 for zero-out neighbors.

    Guarantees:
        An upper bound for any convex regularizer, if every batch loss is convex and L-smooth and
        $\gamma \ge L/2$ (`check_contraction`); with Q = 1 without any condition.
        It is attained.
    """
    contraction = inverse_step / (inverse_step + penalty)
    series = sum(contraction**k for k in range(local_steps))
    moved = RECORD_MOVES[relation] * gradient_bound * series
    return moved / (batch_sizes * local_steps * (inverse_step + penalty))


def check_contraction(local_steps: int, inverse_step: float, smoothness: float, crowding: float = 1.0) -> None:
    r"""Refuse Q > 1 unless $\gamma \ge \kappa L/2$: only then do later steps not spread a gap.

    Args:
        local_steps: Q.
        inverse_step: $\gamma$.
        smoothness: L of a record's loss under the declared row norm, never the data's own.
        crowding: $\kappa$, the largest number of records in a batch over the nominal batch size.
    """
    least = crowding * smoothness / 2
    if local_steps > 1 and not inverse_step >= least:
        raise InputError(
            f"algorithm.inverse_step must be at least L/2 = {least:.4g} for local_steps > 1, got {inverse_step:g}; "
            "raise it, lower data.row_norm, or set local_steps = 1."
        )


def moment_sums(relation: str, categorical: int, numeric: int) -> float:
    r"""Of the sums of blocks, such as one-hot levels, and of $(u, u^2)$, $u \in [-1, 1]$, over a shard.

    Features of a block are not negative and add up to at most 1 in a record.

    Replacing a record moves each block of levels by at most $\sqrt2$ and each pair by at most 2
    (the largest $(u-v)^2 + (u^2-v^2)^2$ is 4); zeroing it by 1 and $\sqrt2$.
    """
    if relation == "replace-one":
        return sqrt(2 * categorical + 4 * numeric)
    return sqrt(categorical + 2 * numeric)
