r"""A second accountant, for checking what the first one said: other formulas, other arithmetic, another composition.

Histories of Gaussian releases of all records are exact in closed form, in decimal arithmetic (`fifty_digits`). All
others are put on a grid by connecting the dots of their privacy profile
(Doroshenko et al. 2022) and composed by dp-accounting. Profiles are written down once more from docs/accounting.md; of
the first accountant's code only the events are used. Both accountants give upper bounds of the same composition, so two
numbers that differ by more than `SLACK` contradict each other.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspd.privacy.accounting.events import Event, FixedSize, Gaussian, Laplace, Poisson, SharedGaussian
from fedspd.privacy.accounting.minimizers import FAILS, Minimizer
from fedspd.privacy.fifty_digits import gaussian_epsilon

Floats = NDArray[np.floating[Any]]
Profile = Callable[[Floats], Floats]
EXACT_SLACK, SLACK, SPHERICAL_SLACK = 1e-9, 1e-3, 1e-2
"""How far two numbers may be apart, relative to the larger of them: in closed form, on grids, and for noise
of known dimension, whose law is integrated here without rounding it up."""
_TAIL = 1e-15


class SecondOpinion(NamedTuple):
    """An epsilon, and how far from it another accountant's may be."""

    epsilon: float
    slack: float

    def agrees(self, stated: float) -> bool:
        """Whether a stated epsilon does not contradict this one."""
        return stated == self.epsilon or abs(stated - self.epsilon) <= self.slack * max(self.epsilon, stated)

    def exceeds(self, stated: float) -> bool:
        """Whether more was spent than is stated, beyond what accountants may differ by."""
        return self.epsilon > stated and not self.agrees(stated)


def second_epsilon(history: Mapping[Event, int], delta: float) -> SecondOpinion:
    """The epsilon of a history at `delta`, computed anew."""
    return _second(frozenset((event, count) for event, count in history.items() if count), delta)


@lru_cache(maxsize=4096)
def _second(history: frozenset[tuple[Event, int]], delta: float) -> SecondOpinion:
    if not history:
        return SecondOpinion(0.0, EXACT_SLACK)
    multipliers = [(_plain(event), count) for event, count in history]
    if all(multiplier is not None for multiplier, _ in multipliers):
        return SecondOpinion(gaussian_epsilon([(z, n) for z, n in multipliers if z is not None], delta), EXACT_SLACK)
    spherical = any(getattr(event, "dimension", None) is not None for event, _ in history)
    pure = math.fsum(n * event.epsilon if isinstance(event, Laplace) else math.inf for event, n in history)
    found = max(_composed(history, delta, order) for order in ("removal", "addition"))
    return SecondOpinion(min(found, pure), SPHERICAL_SLACK if spherical else SLACK)


def is_gaussian(event: Event) -> bool:
    """Whether an event is one Gaussian release of all records."""
    return _plain(event) is not None


def _plain(event: Event) -> float | None:
    """The multiplier of an event that is one Gaussian release of all records."""
    if isinstance(event, Gaussian | SharedGaussian):
        return event.noise_multiplier
    if isinstance(event, Laplace | Minimizer) or event.local_steps > 1:
        return None
    everyone = event.rate == 1.0 if isinstance(event, Poisson) else event.drawn == event.records
    return event.noise_multiplier if everyone else None


def _composed(history: frozenset[tuple[Event, int]], delta: float, order: str) -> float:
    """By dp-accounting, from dots of each profile."""
    profiles = [(_profile(part, order), count) for event, count in history for part in _parts(event)]
    gap = _gap(profiles)
    whole: Any = None
    for profile, count in profiles:
        part = _on_grid(profile, gap).self_compose(count, _TAIL)
        whole = part if whole is None else whole.compose(part, _TAIL)
    failing = math.fsum(count * _failing(event) for event, count in history)
    if not failing:
        return float(whole.get_epsilon_for_delta(delta))
    low, high = 0.0, 1.0
    while whole.get_delta_for_epsilon(high) + (1 + math.exp(high)) * failing > delta:
        low, high = high, 2 * high
        if high > 500.0:
            return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        if whole.get_delta_for_epsilon(middle) + (1 + math.exp(middle)) * failing > delta:
            low = middle
        else:
            high = middle
    return high


def _parts(event: Event) -> tuple[Event, ...]:
    """What a release consists of: a computed minimizer of the exact one, and of a Gaussian release."""
    if not isinstance(event, Minimizer):
        return (event,)
    exact = Laplace(event.noise_multiplier, event.jacobian, event.relation, event.dimension, event.directions)
    return exact, Gaussian(event.gaussian_multiplier)


class Dots(NamedTuple):
    """A profile, and the losses outside which hardly anything lies."""

    at: Profile
    least: float
    largest: float
    spread: float  # of the loss, roughly


def _gap(profiles: list[tuple[Dots, int]]) -> float:
    """Of the grid: a small part of the spread of all losses together, and of each of them."""
    together = math.sqrt(math.fsum(count * dots.spread**2 for dots, count in profiles))
    count = sum(number for _, number in profiles)
    return min(together / math.sqrt(count) / 30.0, 0.02 * together)


def _on_grid(dots: Dots, gap: float) -> Any:
    from dp_accounting.pld import pld_pmf

    places = np.arange(math.floor(dots.least / gap), math.ceil(dots.largest / gap) + 1)
    deltas = np.clip(dots.at(places * gap), 0.0, 1.0)
    return pld_pmf.create_pmf_pessimistic_connect_dots(gap, places, np.minimum.accumulate(deltas)).to_dense_pmf()


def _profile(event: Any, order: str) -> Dots:
    if isinstance(event, Laplace):
        return _laplace(event)
    if isinstance(event, Gaussian | SharedGaussian):
        rate, steps = 1.0, [(1.0, event.noise_multiplier)]
    else:
        rate = event.rate if isinstance(event, Poisson) else event.drawn / event.records
        steps = _steps(event)
    reach = max((9.0 / z + 0.5 / z**2) for _, z in steps)
    spread = rate * max(1.0 / z for _, z in steps)

    def removal(losses: Floats) -> Floats:
        inner = 1.0 + np.expm1(losses) / rate
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = rate * sum(chance * _normal_profile(np.log(inner), z) for chance, z in steps)
        return np.where(inner > 0.0, inside, -np.expm1(losses))

    def addition(losses: Floats) -> Floats:
        return -np.expm1(losses) + np.exp(losses) * removal(-losses)

    def symmetric(losses: Floats) -> Floats:
        return np.where(losses >= 0.0, removal(np.abs(losses)), addition(-np.abs(losses)))

    most = math.log1p(rate * math.expm1(min(reach, 300.0)))
    least = -most if rate == 1.0 or not isinstance(event, Poisson) else math.log1p(-rate * -math.expm1(-reach))
    if not isinstance(event, Poisson) or rate == 1.0:
        return Dots(symmetric, -most, most, spread)
    return Dots(removal, least, most, spread) if order == "removal" else Dots(addition, -most, -least, spread)


def _steps(event: FixedSize | Poisson) -> list[tuple[float, float]]:
    """The chance of a drawn record to be in each local step, and the multiplier of that step."""
    steps, shrink = event.local_steps, event.contraction
    sums = [math.fsum(shrink**power for power in range(left)) for left in range(steps, 0, -1)]
    distances = [value / sums[0] for value in sums] if shrink else [1.0] * steps
    chances = [1.0 / steps] * steps
    if isinstance(event, FixedSize) and event.drawn == event.records:
        chances = [len(range(step, event.records, steps)) / event.records for step in range(steps)]
    return [(chance, event.noise_multiplier / distance) for chance, distance in zip(chances, distances, strict=True)]


def _normal_profile(losses: Floats, multiplier: float) -> Floats:
    from scipy.special import log_ndtr, ndtr

    below = log_ndtr(-losses * multiplier - 0.5 / multiplier) + losses
    return ndtr(0.5 / multiplier - losses * multiplier) - np.exp(np.minimum(below, 700.0))


def _failing(event: Event) -> float:
    """The chance that noise in an objective is too long, or some batch of one Poisson event, for their proofs."""
    if isinstance(event, Minimizer):
        return FAILS
    if not isinstance(event, Poisson) or event.local_steps == 1 or (event.max_batch or 0) >= (event.records or 0):
        return 0.0
    records, chance = event.records or 0, event.rate / event.local_steps
    logs = [
        math.lgamma(records + 1) - math.lgamma(k + 1) - math.lgamma(records - k + 1)
        + k * math.log(chance) + (records - k) * math.log1p(-chance)
        for k in range((event.max_batch or 0) + 1, records + 1)
    ]  # fmt: skip
    return event.local_steps * math.fsum(math.exp(log) for log in logs)


def _laplace(event: Laplace) -> Dots:
    """Losses of both signs: of randomized response, or by the dimension of the noise."""
    if event.dimension is None or event.directions is None:
        losses, masses = np.array([event.epsilon]), np.array([1.0 / (1.0 + math.exp(-event.epsilon))])
    else:
        losses, masses = _lengthened(event.noise_multiplier, event.jacobian, event.dimension, event.directions)

    def at(points: Floats) -> Floats:
        positive = np.array([np.dot(masses, -np.expm1(np.minimum(abs(x) - losses, 0.0))) for x in points])
        return np.where(points >= 0.0, positive, -np.expm1(points) + np.exp(points) * positive)

    largest = float(losses[-1])
    return Dots(at, -largest, largest, math.sqrt(float(np.dot(masses * (1 + np.exp(-losses)), losses**2))))


@lru_cache(maxsize=64)
def _lengthened(multiplier: float, jacobian: float, dimension: int, directions: int) -> tuple[Floats, Floats]:
    """Positive losses and their masses, from the law of the noise's length and angle at many quantiles of both."""
    from scipy.special import betaincinv, gammaincinv, ndtr

    nodes = np.linspace(-8.0, 8.0, 801)
    middles, weights = 0.5 * (nodes[1:] + nodes[:-1]), np.diff(ndtr(nodes))
    weights /= weights.sum()
    lengths = gammaincinv(dimension, ndtr(middles))[:, None]
    cosines = np.sqrt(1.0 - betaincinv(0.5 * (dimension - directions), 0.5 * directions, ndtr(middles)))[None, :]
    shift = 1.0 / multiplier
    longer = np.sqrt(lengths**2 + 2.0 * lengths * cosines * shift + shift**2) - lengths
    flat, masses = longer.ravel() + jacobian, np.outer(weights, weights).ravel()
    bins = np.linspace(0.0, shift + jacobian, 4001)
    places = np.clip(np.searchsorted(bins, flat), 1, 4000)
    gathered = np.bincount(places, masses, minlength=4001)
    losses, masses = bins[1:], gathered[1:] / gathered.sum()
    signs = 1.0 + np.exp(-losses)
    larger = np.append(np.cumsum((masses * signs)[::-1])[-2::-1], 0.0)
    kept = np.minimum(masses, np.maximum(1.0 - larger, 0.0) / signs)
    return losses[kept > 0], kept[kept > 0]
