r"""Noise that the members of a cohort share, where nobody sees anything but their sum (`docs/proofs/secure-sums.md`).

Each member adds Gaussian noise of deviation $\tau$ to its part of the sum. Any sum that can be unmasked holds at least
$t$ members, of whom at most $c$ collude and tell their noise, so the noise of $h = t - c$ members is left in it:

    h τ² - 4 g² >= (z S)²

with the noise multiplier z, the sensitivity S of one member's part and the grid g on which it is sent (0 in a
simulation). Without any assumption on the others a member has its own noise: the multiplier $\sqrt{τ² - 4g²}/S$.
"""

from dataclasses import dataclass
from math import ceil, sqrt

from fedspd.errors import InputError

SMALLEST_COHORT = 3  # members: with two, either knows the other's part
ROUNDING_VARIANCE = 4.0  # of the noise in steps of the grid, what makes integers of it (Theorem S2, r² = 4)


@dataclass(frozen=True)
class SharedNoise:
    """Who must be in a sum, and how many may tell what they know."""

    members: int  # n
    threshold: int  # t: fewer are never unmasked
    colluders: int  # c

    def __post_init__(self) -> None:
        """Check the conditions of the proof."""
        n, t, c = self.members, self.threshold, self.colluders
        if n < SMALLEST_COHORT:
            raise InputError(
                f"a cohort must have at least {SMALLEST_COHORT} members for secure sums, got {n}; lower "
                "privacy.cohorts, or set privacy.trust = each-upload."
            )
        if not 0 <= c < n:
            raise InputError(
                f"privacy.colluders must be from 0 to {n - 1} in a cohort of {n}, got {c}; "
                f"{'raise it to 0' if c < 0 else 'lower it'}."
            )
        if t > n or 2 * t <= n + c:  # so t > c as well
            raise InputError(
                f"2 x privacy.threshold must be more than the {n} members of a cohort plus privacy.colluders, "
                f"got threshold {t} and colluders {c}; with these colluders it is from {(n + c) // 2 + 1} to {n}."
            )

    @property
    def honest(self) -> int:
        """h: whose noise is in every sum, and told to nobody."""
        return self.threshold - self.colluders

    def member_scale(self, multiplier: float, sensitivity: float, grid: float = 0.0) -> float:
        r"""$\tau$: the deviation of one member's noise."""
        return sqrt(((multiplier * sensitivity) ** 2 + ROUNDING_VARIANCE * grid**2) / self.honest)

    def alone(self, multiplier: float, sensitivity: float = 1.0, grid: float = 0.0) -> float:
        """The multiplier that a member has by its own noise, whatever masks, server and all others do."""
        own = self.member_scale(multiplier, sensitivity, grid) ** 2 - ROUNDING_VARIANCE * grid**2
        if own <= 0:
            raise InputError(
                f"the grid of secure sums must be finer than a member's noise, got {grid:g}; plan the run again."
            )
        return sqrt(own) / sensitivity

    def for_alone(self, multiplier: float) -> float:
        """The multiplier of the cohort at which a member has this one by its own noise (without a grid)."""
        return multiplier * sqrt(self.honest)

    def spread(self, arrived: int) -> float:
        """Noise in the sum of so many members, over what the claim counts on."""
        return sqrt(arrived / self.honest)


def usual_threshold(members: int) -> int:
    """Four fifths of the members."""
    return ceil(0.8 * members)


def usual_colluders(members: int, threshold: int) -> int:
    """So many that two thirds of the members are honest in every sum."""
    return max(0, threshold - round(2 * members / 3))
