r"""How far a query computed in float64 may be from its real-number value: bounds from public numbers only.

Sensitivities are proved for real numbers. A real client takes the sensitivity plus *twice* the bound, since both of two
neighboring shards' queries are rounded. Roundings are counted as by Higham (2002, Section 3.1): a sum of n terms, in
any order, is off by at most $nu/(1-nu)$ times the sum of their sizes. `docs/proofs/deployed.md` adds
them up.
"""

from dataclasses import dataclass
from math import sqrt

UNIT = 2.0**-53
"""u: half the distance from 1 to the next float64."""

SAFETY = 8.0
"""Covers products of roundings, the rounding of the declared rows, and that of the sensitivity and of z times it.

5.5 would do (lemma 16 of `docs/proofs/deployed.md`).
"""


@dataclass(frozen=True)
class GradientSum:
    """Public numbers of a client's batches: what is summed, and over what it is divided."""

    gradient_bound: float  # G
    row_norm: float  # R
    smoothness: float  # L of a record's loss
    columns: int
    outputs: int
    records: int  # at most that many in a batch, those that fill it up included
    divisor: float  # b, the nominal batch size
    rows: int = 1  # of each at most, where a person counts as one record

    @property
    def longest(self) -> float:
        """Norm that the mean gradient cannot exceed: above G only where a batch exceeds its nominal size."""
        return self.gradient_bound * self.records / self.divisor


def gradient_rounding(batch: GradientSum, weights: float) -> float:
    r"""Of a batch's mean clipped gradient at weights of at most that norm: the query of DP-SGD.

    $8u\,\frac nb\,\big[(n + p + c + 32)\,G + (2c + 16)\,R + (p + 4)\,L\|x\|\big]$: sums and clipping, the exponentials,
    and the scores, whose rounding grows with the weights. Where a person with at most r rows counts as a record, a sum
    has n r + 2 terms in place of n, whose sizes still add up to n G.

    Guarantees:
        An upper bound for every loss and any order of summation.
    """
    shares = 2 if batch.rows > 1 else 0  # their own rounding, and the product with them
    terms = batch.records * batch.rows + batch.columns + batch.outputs + 32 + shares
    sums = terms * batch.gradient_bound
    slopes = (2 * batch.outputs + 16) * batch.row_norm
    scores = (batch.columns + 4) * batch.smoothness * weights
    return SAFETY * UNIT * (sums + slopes + scores) * batch.records / batch.divisor


def clipping_rounding(batch: GradientSum, most: float) -> float:
    r"""Of a vector that is clipped as a whole: how much longer than this it may be, $8u\,(d + 8)\,C$.

    For the norm, the quotient and the product. What was clipped may be anything, rounded in any way.
    """
    return SAFETY * UNIT * (batch.columns * batch.outputs + 8) * most


def steps_rounding(
    batch: GradientSum, local_steps: int, inverse_step: float, penalty: float, start: float, pull: float
) -> float:
    r"""Of the average and of the last of Q proximal steps.

    Q times that of a step, $8u\,(c + 26)\,X + \mathrm{gradient\_rounding}(X)/(\gamma+\rho)$. No iterate exceeds X,
    the larger of the start and of $X_Q$, $X_r = (\gamma X_{r-1} + \mathrm{pull} + \frac nb G)/(\gamma+\rho)$. Later
    steps do not spread it, by the conditions of the sensitivity, or since Q = 1.

    Args:
        batch: of the largest of the Q batches.
        local_steps: Q.
        inverse_step: $\gamma$.
        penalty: $\rho$.
        start: norm of the weights where the steps begin.
        pull: norm of the public terms beside $\gamma x$. FedSPD-DP: $\rho\|x_0\| + \|\lambda\|$. DP-FedProx and, with
            $\mu = 0$, DP-FedAvg: $\mu\|w\|$. DP-ADMM, one step from $\tilde w$: $\rho(2\|w\| + \|\tilde w\|) +
            \|\lambda\|$ plus the norm of the regularizer's subgradient at $\tilde w$.

    Guarantees:
        An upper bound for every regularizer.
    """
    step, reach = 1 / (inverse_step + penalty), start
    for _ in range(local_steps):
        reach = step * (inverse_step * reach + pull + batch.longest)
    reach = max(start, reach)  # on the way from one to the other the bound on the iterates only rises, or only falls
    weights = SAFETY * UNIT * (batch.outputs + 26) * reach
    return local_steps * (weights + step * gradient_rounding(batch, reach))


def sum_rounding(records: int, columns: int, rows: int = 1) -> float:
    r"""Of the sums over a shard of columns with values in [-1, 1], the query of the moments: $8u\,m^2 r\sqrt k$.

    Count the numeric columns twice, for $u$ and $u^2$; levels are whole numbers, whose sums are exact, but not where
    persons with at most r rows count as records: there every column counts.

    Guarantees:
        An upper bound for any order of summation.
    """
    return SAFETY * UNIT * records * records * rows * sqrt(columns)
