r"""From scores of two worlds to the largest epsilon that they prove is leaked, with controlled error.

An attacker guesses the second world where a score exceeds a threshold. With false positives at most $a$ and false
negatives at most $b$ (Clopper and Pearson 1934), every $(\varepsilon, \delta)$ that holds has
$1 - b \le e^\varepsilon a + \delta$ and the same with $a$ and $b$ exchanged (Kairouz, Oh and Viswanath 2015). That is
the *direct* bound, which assumes nothing. The *family* bound asks for the most noise under which the claimed releases
could still look like this: for Gaussian ones the least $\mu$ of Gaussian DP (Nasr et al. 2023, arXiv 2302.07956), for
others their composed profile. It is sharper, since it uses the whole profile and not one point of it.

Thresholds are picked on one part of the runs and tested on the other, so nothing is picked by what it is tested on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import NamedTuple

import numpy as np

from fedspd.privacy.accounting import (
    Event,
    Laplace,
    Minimizer,
    SharedFixedSize,
    SharedGaussian,
    SharedPoisson,
    delta_at,
    spent,
)
from fedspd.privacy.accounting.minimizers import minimizer_event

CONFIDENCE = 0.999
PICKED_ON = 0.2  # of the runs, those on which thresholds are picked
THRESHOLDS = 201
LEAST_FACTOR, MOST_FACTOR = 1 / 8, 32.0  # of the claimed noise, in a family
LOOKED_AT = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)  # of the largest epsilon at which a pair of rates says something


@dataclass(frozen=True)
class Claim:
    """What is attacked: epsilon at delta, and the releases it follows from, where it is a theorem about them."""

    epsilon: float
    delta: float
    history: tuple[tuple[Event, int], ...] = ()

    def with_noise(self, factor: float) -> "Claim":
        """What the claim would be with so many times the noise."""
        history = tuple((_with_noise(event, factor), count) for event, count in self.history)
        return Claim(spent(history, self.delta).epsilon, self.delta, history)

    def allows(self, rates: "Rates") -> bool:
        """Whether these rates can be those of the claimed releases."""
        return all(rates.needed(epsilon) <= delta_at(self.history, epsilon) for epsilon in rates.epsilons())


class Rates(NamedTuple):
    """Upper bounds on how often an attacker is wrong."""

    false_positives: float
    false_negatives: float

    def needed(self, epsilon: float) -> float:
        """Delta is at least this at epsilon."""
        a, b = self
        return max(1 - b - exp(epsilon) * a, 1 - a - exp(epsilon) * b)

    def epsilon(self, delta: float) -> float:
        """Epsilon is at least this at delta."""
        a, b = self
        return max([0.0, *(log((1 - delta - x) / y) for x, y in ((a, b), (b, a)) if 1 - delta - x > y > 0)])

    def epsilons(self) -> list[float]:
        """Where these rates say something about delta."""
        most = self.epsilon(0.0)
        return [part * most for part in LOOKED_AT] if most > 0 else []

    @property
    def separation(self) -> float:
        """The mu of Gaussian DP that the rates need."""
        from scipy.special import ndtri  # takes 0.3 s to import

        return float(-ndtri(self.false_positives) - ndtri(self.false_negatives))


@dataclass(frozen=True)
class Lower:
    """Epsilons that are certainly leaked, but for a chance of one minus the confidence."""

    direct: float  # whatever the mechanism is
    family: float | None  # among claims like the one attacked; None where there is no such family
    confidence: float
    runs: int  # in each world, those that thresholds were picked on included

    @property
    def epsilon(self) -> float:
        """The larger of both."""
        return max(self.direct, self.family or 0.0)


def lower_bound(first: np.ndarray, second: np.ndarray, claim: Claim, confidence: float = CONFIDENCE) -> Lower:
    """What scores of two worlds prove; larger scores speak for the second.

    Guarantees:
        Where the claim holds, the bound exceeds it with a chance of at most 1 - confidence.
    """
    picked = [scores[: int(PICKED_ON * len(scores))] for scores in (first, second)]
    tested = [scores[int(PICKED_ON * len(scores)) :] for scores in (first, second)]
    error = (1 - confidence) / (4 if claim.history else 2)  # two rates, of one or two bounds
    pooled = np.concatenate(picked)
    candidates = np.unique(np.quantile(pooled[np.isfinite(pooled)], np.linspace(0, 1, THRESHOLDS)))
    seen = [(threshold, rates_at(picked, threshold, error)) for threshold in candidates]
    direct = max(seen, key=lambda pair: pair[1].epsilon(claim.delta))[0]
    bound = rates_at(tested, direct, error).epsilon(claim.delta)
    family = None
    if claim.history:
        widest = max(seen, key=lambda pair: pair[1].separation)[0]
        family = family_bound(rates_at(tested, widest, error), claim)
    return Lower(bound, family, confidence, min(len(first), len(second)))


def rates_at(scores: Sequence[np.ndarray], threshold: float, error: float) -> Rates:
    """Both rates of a threshold, each exceeded with a chance of at most `error`."""
    first, second = scores
    return Rates(
        clopper_pearson(int(np.sum(first > threshold)), len(first), error),
        clopper_pearson(int(np.sum(second <= threshold)), len(second), error),
    )


def clopper_pearson(count: int, runs: int, error: float) -> float:
    """The exact upper limit of a chance that was seen so often, too low with a chance of at most `error`."""
    from scipy.special import betaincinv  # takes 0.3 s to import

    return 1.0 if count >= runs else float(betaincinv(count + 1, runs - count, 1 - error))


def family_bound(rates: Rates, claim: Claim) -> float:
    """Epsilon of the claim with the most noise that the rates still allow."""
    if claim.with_noise(MOST_FACTOR).allows(rates):
        return 0.0
    if not claim.with_noise(LEAST_FACTOR).allows(rates):
        return claim.with_noise(LEAST_FACTOR).epsilon
    low, high = log(LEAST_FACTOR), log(MOST_FACTOR)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if claim.with_noise(exp(middle)).allows(rates) else (low, middle)
    return claim.with_noise(exp(high)).epsilon  # refuted, by a hair: what is leaked is more


def _with_noise(event: Event, factor: float) -> Event:
    if isinstance(event, SharedGaussian | SharedFixedSize | SharedPoisson):
        own = event.own_multiplier * factor
        return replace(event, noise_multiplier=event.noise_multiplier * factor, own_multiplier=own)
    if isinstance(event, Minimizer):
        known = event.jacobian / factor, event.dimension, event.directions
        return minimizer_event(event.noise_multiplier * factor, *known)
    if isinstance(event, Laplace):  # what else a minimizer tells, which more noise alone would leave as it is
        return replace(event, noise_multiplier=event.noise_multiplier * factor, jacobian=event.jacobian / factor)
    return replace(event, noise_multiplier=event.noise_multiplier * factor)
