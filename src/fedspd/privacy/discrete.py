r"""Whole numbers for secure sums: how near their noise is to a Gaussian, and how fine their grid must be.

$N_\mathbb Z(0, s^2)$ is the law on the whole numbers with probabilities proportional to $e^{-k^2/2s^2}$ (Canonne,
Kamath and Steinke 2020). A sum of such noises is not of this kind, nor is a rounded Gaussian.
`docs/proofs/secure-sums.md` proves how near they are: a *gap* bounds the logarithm of the ratio of two laws at every
point (Theorems S1 and S2).
"""

from dataclasses import dataclass
from math import exp, frexp, inf, ldexp, log1p, pi, sqrt

from fedspd.errors import InputError
from fedspd.privacy.shared_noise import ROUNDING_VARIANCE, SharedNoise

FINENESS = 0.01  # of the sensitivity, what rounding to the grid may add to it
LEAST_STEPS = 16.0  # of the grid in one member's noise: Theorem S1 is then off by less than 10^-1000


def theta(variance: float) -> float:
    r"""$\theta(v) = 2\sum_{j\ge1} e^{-2\pi^2 v j^2}$: what a sum over whole numbers makes of a Gaussian's integral.

    Guarantees:
        For every y, $\sum_k \varphi_v(k - y)$ lies between $1 - \theta(v)$ and $1 + \theta(v)$, with the density
        $\varphi_v$ of N(0, v).
    """
    if not 0 < variance < inf:
        raise InputError(f"a variance must be positive and finite, got {variance!r}; plan the run again.")
    total, term, number = 0.0, 1.0, 0
    while term > 1e-18 * total:
        number += 1
        term = 2 * exp(-2 * pi**2 * variance * number**2)
        total += term
    return total


def rounding_gap(variance: float = ROUNDING_VARIANCE) -> float:
    r"""Theorem S2: of $N_\mathbb Z(0, S^2)$ from a Gaussian of variance $S^2 - r^2$ that is made whole, any $S > r$.

    Args:
        variance: $r^2$, in steps of the grid.
    """
    return _log_ratio(theta(variance))


def sum_gap(scale: float, members: int) -> float:
    r"""Theorem S1: of the sum of `members` noises $N_\mathbb Z(0, s^2)$ from $N_\mathbb Z(0, h s^2)$.

    Args:
        scale: s, in steps of the grid.
        members: h.
    """
    if members < 1:
        raise InputError(f"a sum must have at least one member, got {members}; plan the run again.")
    return sum(_log_ratio(theta(scale**2 * k / (k + 1))) for k in range(1, members))


def gap(scale: float, members: int, coordinates: int) -> float:
    r"""$\varpi$: everything that a sum on the grid may add to a run, beside the Gaussian that accountants speak of.

    Args:
        scale: the deviation of one member's noise, in steps of the grid.
        members: h, whose noise is counted on.
        coordinates: of all releases of a run together.

    Guarantees:
        The run's $(\varepsilon + 2\varpi, e^\varpi\delta)$ holds if $(\varepsilon, \delta)$ holds of Gaussian noise of
        variance $h\tau^2 - 4g^2$.
    """
    return coordinates * (sum_gap(scale, members) + rounding_gap())


def on_grid(sensitivity: float, dimension: int, grid: float) -> float:
    r"""The sensitivity of a value that is rounded to the grid: $\sqrt d\,g$ more, since both neighbors are rounded."""
    return sensitivity + sqrt(dimension) * grid


def grid_for(sensitivity: float, dimension: int, member_scale: float) -> float:
    r"""g: the largest power of two that costs at most a hundredth of the sensitivity.

    Args:
        sensitivity: of a member's part before it is rounded, $2Gw/b$ with replacement of a record.
        dimension: d, coordinates of a part.
        member_scale: a lower bound on $\tau$; without a grid, $z\,2Gw/(b\sqrt h)$.

    Guarantees:
        $\sqrt d\,g \le 0.01 \cdot 2Gw/b$.
        A member's noise has a deviation of at least 16 steps.
    """
    if not (0 < sensitivity < inf and 0 < member_scale < inf and dimension >= 1):
        raise InputError(
            "sensitivity, noise and dimension of a secure sum must be positive and finite, got "
            f"{sensitivity!r}, {member_scale!r} and {dimension}; plan the run again."
        )
    _, exponent = frexp(min(FINENESS * sensitivity / sqrt(dimension), member_scale / LEAST_STEPS))
    return ldexp(0.5, exponent)


def member_noise(share: SharedNoise, multiplier: float, sensitivity: float, dimension: int) -> "MemberNoise":
    r"""What a member of a cohort sends with, by rule.

    Args:
        share: who must be in a sum.
        multiplier: z, of the cohort.
        sensitivity: the largest of all members, before rounding to the grid: $2Gw/b + 2wr$.
        dimension: d, coordinates of a part.

    Guarantees:
        $h\tau^2 - 4g^2 = (zS)^2$ with the sensitivity S on the grid.
    """
    grid = grid_for(sensitivity, dimension, share.member_scale(multiplier, sensitivity))
    enlarged = on_grid(sensitivity, dimension, grid)
    scale, alone = share.member_scale(multiplier, enlarged, grid), share.alone(multiplier, enlarged, grid)
    return MemberNoise(grid, enlarged, scale, alone)


def _log_ratio(theta: float) -> float:
    if theta >= 1:
        raise InputError(
            "noise on whole numbers must have a deviation of 0.3 steps or more, got less; refine the grid."
        )
    return log1p(theta) - log1p(-theta)


@dataclass(frozen=True)
class MemberNoise:
    """Grid, sensitivity and noise of one member's part."""

    grid: float  # g
    sensitivity: float  # S, the grid included
    scale: float  # tau
    alone: float  # the multiplier of this member's noise by itself
