r"""What it costs to release a minimizer that is computed, of an objective with noise in it: two releases at once.

Noise in an objective is a proof for the exact minimizer $\tilde x$. A computed one is within $r$ of it, off by who
knows what function of records and noise. So a small Gaussian goes on top, and hides where within $r$ it was: the
release costs what $\tilde x$ does and a Gaussian release of deviation $\sigma$ and sensitivity $2r$, composed
(lemma 14 of `docs/proofs/minimizers.md`).
"""

from dataclasses import dataclass
from math import exp, inf, sqrt
from numbers import Real
from typing import ClassVar

from fedspd.errors import InputError
from fedspd.privacy.accounting.limits import (
    LEAST_PURE_MULTIPLIER,
    MOST_MULTIPLIER,
    Relation,
    require_count,
    require_multiplier,
)

OVER_LAPLACE = 25.0
"""A Gaussian of so many times the multiplier of the noise in the objective costs a thousandth of epsilon at most."""
_TAIL = 70.0
FAILS = exp(-_TAIL)
"""The chance that noise in an objective is longer than `longest_noise`, and a computed minimizer not what is promised:
4e-31, and delta pays for it."""


def gaussian_beside(noise_multiplier: float, dimension: int) -> float:
    r"""The multiplier of the Gaussian on a computed minimizer.

    Noise of scale $zs$ has a deviation of about $zs\sqrt d$ in each coordinate, and costs about as much as a Gaussian
    release of that deviation; the one on top is `OVER_LAPLACE` times as good.

    Args:
        noise_multiplier: $z$, of the noise in the objective.
        dimension: $d$, of both.
    """
    return OVER_LAPLACE * noise_multiplier * sqrt(dimension)


def longest_noise(dimension: int) -> float:
    r"""A length that unit noise of this dimension exceeds with a chance of `FAILS` at most.

    Lengths have the law Gamma(d), for which $\Pr[X > d + \sqrt{2dt} + t] \le e^{-t}$ (Boucheron, Lugosi and Massart
    2013, section 2.4).
    """
    return dimension + sqrt(2 * dimension * _TAIL) + _TAIL


@dataclass(frozen=True)
class Minimizer:
    r"""One release of a computed minimizer of an objective with spherical Laplace noise, and a Gaussian on top.

    Args:
        noise_multiplier: $z$, the scale of the noise in the objective over how far a record moves its gradient.
        gaussian_multiplier: the deviation of the noise on the minimizer over $2r$, twice what that may be off by.
        jacobian: a bound on $|\ln(\det/\det')|$ of the second derivatives.
        dimension: $d$, of both noises, or less.
        directions: $k < d$; what a record adds to the gradient stays in a subspace of so many dimensions.
    """

    relation: ClassVar[Relation] = "replace-one"
    noise_multiplier: float
    gaussian_multiplier: float
    jacobian: float
    dimension: int
    directions: int

    def __post_init__(self) -> None:
        require_multiplier(self.noise_multiplier, LEAST_PURE_MULTIPLIER)
        require_multiplier(self.gaussian_multiplier)
        if not isinstance(self.jacobian, Real) or not 0.0 <= self.jacobian < inf:
            raise InputError(
                f"jacobian must be finite and at least 0, got {self.jacobian!r}; it bounds the log of a ratio of "
                "determinants."
            )
        require_count("directions", self.directions)
        require_count("dimension", self.dimension, least=self.directions + 1)


def minimizer_event(noise_multiplier: float, jacobian: float, dimension: int, directions: int) -> Minimizer:
    """The event of a release with the two noises that the one door adds; arguments as above."""
    beside = min(gaussian_beside(noise_multiplier, dimension), MOST_MULTIPLIER)
    return Minimizer(noise_multiplier, beside, jacobian, dimension, directions)
