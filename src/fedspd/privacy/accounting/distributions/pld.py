r"""The tight accountant: one dominating privacy-loss distribution per event, composed.

Replace-one events, with and without subsampling, compose together: the profile of each is symmetric, so
one composition covers both orders of every pair of neighbors. For zero-out neighbors the order of the pair
is the same in every round (the record is there or it is not), so each order is composed by itself and the
larger result counts. Pure releases are symmetric too and compose with either kind. Alone, they are composed exactly by
their epsilons, and again by the dimension of their noise if it is known: the better result counts.
"""

import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from fedspd.privacy.accounting.closed_form.gaussian import total_multiplier
from fedspd.privacy.accounting.closed_form.pure import composed_exactly, pure_delta, pure_epsilon, total_epsilon
from fedspd.privacy.accounting.distributions.compose import (
    LEAST_LOG_DELTA,
    Parts,
    Tilt,
    compose,
    greatest_loss,
    infinite_mass,
    spread,
    tilt_for_delta,
    tilt_for_epsilon,
)
from fedspd.privacy.accounting.distributions.discretize import pessimistic
from fedspd.privacy.accounting.distributions.profiles import (
    Dominating,
    Pair,
    as_gaussian,
    deviation,
    dominating,
    loss_range,
    taken_apart,
)
from fedspd.privacy.accounting.events import Event, Gaussian, Laplace, Poisson
from fedspd.privacy.accounting.minimizers import FAILS, Minimizer

PairOrder = Literal["removal", "addition"]
Pairs = Mapping[Pair, int]

# Discretization raises epsilon by about this share of itself, and delta by twenty times as much.
_ACCURACY = 1e-6
# Losses beyond the grid count as infinite; together they cost this share of delta.
_TRUNCATED = 1e-9
_MOST_POINTS = 1 << 19
_SMALL_DELTA = 1e-14


def pld_epsilon(history: Mapping[Event, int], delta: float) -> float:
    """The least epsilon the composition proves at `delta`; infinite if delta cannot be met."""
    exactly = composed_exactly(history)
    pure = total_epsilon(history) if exactly is None else pure_epsilon(exactly, delta)
    if exactly is not None and not _of_known_dimension(history):
        return pure
    failing, largest = chance_of_failure(history), 0.0
    for pairs in _orders(history):
        largest = max(largest, _epsilon(pairs, delta, failing, settled=largest))
    return min(largest, pure)


def pld_delta(history: Mapping[Event, int], epsilon: float) -> float:
    """The least delta the composition proves at `epsilon`."""
    exactly = composed_exactly(history)
    pure = 1.0 if exactly is None else pure_delta(exactly, epsilon)
    if exactly is not None and not _of_known_dimension(history):
        return pure
    if epsilon >= total_epsilon(history):
        return 0.0
    failing, largest = chance_of_failure(history), math.exp(LEAST_LOG_DELTA)
    for pairs in _orders(history):
        largest = max(largest, _delta(pairs, epsilon, settled=largest))
    return min(pure, largest + (1.0 + math.exp(min(epsilon, 700.0))) * failing)


def chance_of_failure(history: Mapping[Event, int]) -> float:
    r"""Bound on the chance that something happens which no pair covers; delta pays $(1 + e^\varepsilon)$ times this.

    A batch of a Poisson event with several steps is above `max_batch`, with a chance of
    $\sum n\, Q \Pr[\mathrm{Bin}(m, q/Q) > B_{max}]$ in all; or noise in an objective is longer than a solver counts on.
    """
    from scipy.special import bdtrc  # scipy.special takes 0.3 s to import

    total = FAILS * sum(count for event, count in history.items() if isinstance(event, Minimizer))
    for event, count in history.items():
        if isinstance(event, Poisson) and event.local_steps > 1:
            records, largest = event.records or 0, event.max_batch or 0
            if largest < records:
                chance = float(bdtrc(largest, records, event.rate / event.local_steps))
                total += count * event.local_steps * chance
    return total * (1.0 + 1e-9)


def pairs_of(history: Mapping[Event, int], order: PairOrder) -> dict[Pair, int]:
    """The dominating pair of each event, all plain Gaussian releases merged into one."""
    parts = taken_apart(history)
    gaussians = [(z, count) for event, count in parts.items() if (z := as_gaussian(event)) is not None]
    pairs: dict[Pair, int] = {}
    if gaussians:
        pairs[dominating(Gaussian(total_multiplier(gaussians)), order)] = 1
    for event, count in parts.items():
        if as_gaussian(event) is None:
            pair = dominating(event, order)
            pairs[pair] = pairs.get(pair, 0) + count
    return pairs


def on_grid(
    pairs: Pairs, delta: float, tilting: Callable[[Parts], Tilt], scale: Callable[[Tilt, float], float]
) -> tuple[Parts, Tilt]:
    """Masses on a grid whose spacing is small enough, and the tilt that suits them.

    Args:
        scale: from the tilt and the standard deviation of the loss to the square of a spacing at which
            one composition would be off by everything that is asked for.
    """
    count = sum(pairs.values())
    negligible = max(1e-280, delta * _TRUNCATED / count)
    spacing = max(_first_spacing(pair, negligible) for pair in pairs)
    while True:
        parts = [(pessimistic(pair, spacing, negligible), times) for pair, times in pairs.items()]
        tilt = tilting(parts)
        deviation = spread(parts, tilt.value)
        needed = math.sqrt(_ACCURACY * scale(tilt, deviation) / count)
        longest = spacing * max(len(masses.masses) for masses, _ in parts)
        finest = max(20.0 * deviation, longest) / _MOST_POINTS
        if spacing <= 1.05 * max(needed, finest):
            return parts, tilt
        spacing = max(0.9 * needed, finest)


def _first_spacing(pair: Pair, negligible: float) -> float:
    """About a hundredth of the deviation of the loss; the range of Gaussian ones is ten of them."""
    return loss_range(pair, negligible)[1] / 1000.0 if isinstance(pair, Dominating) else deviation(pair) / 100.0


def _of_known_dimension(history: Mapping[Event, int]) -> bool:
    return any(isinstance(event, Laplace) and event.dimension is not None for event in history)


def _orders(history: Mapping[Event, int]) -> list[dict[Pair, int]]:
    removal, addition = pairs_of(history, "removal"), pairs_of(history, "addition")
    return [removal] if removal == addition else [removal, addition]


def _epsilon(pairs: Pairs, delta: float, failing: float, settled: float) -> float:
    """The least epsilon of one order; if it is below `settled` anyway, a coarse grid will do."""

    # Moving masses within their cells raises the log moment at tilt t by about t (t + 1) spacing^2 / 12 a
    # round, and epsilon by that over t.
    def scale(tilt: Tilt, deviation: float) -> float:
        if tilt.epsilon <= settled:
            return math.inf
        return 12.0 * max(tilt.epsilon, 0.3 * deviation) / (tilt.value + 1.0)

    parts, tilt = on_grid(pairs, delta, lambda parts: tilt_for_delta(parts, delta), scale)
    curve = compose(parts, tilt.value, lowest=0.0)
    totals = curve.deltas + (1.0 + np.exp(np.minimum(curve.epsilons, 700.0))) * failing
    start = int(np.searchsorted(curve.epsilons, 0.0))
    within = np.flatnonzero(totals[start:] <= delta)
    if not len(within):
        greatest = greatest_loss(parts)
        charged = infinite_mass(parts) + (1.0 + math.exp(min(greatest, 700.0))) * failing
        return greatest if charged <= delta else math.inf
    at = start + int(within[0])
    if at == start:
        return max(0.0, float(curve.epsilons[at]))
    share = (totals[at - 1] - delta) / (totals[at - 1] - totals[at])
    step = math.log1p(share * math.expm1(curve.epsilons[at] - curve.epsilons[at - 1]))
    return float(curve.epsilons[at - 1] + step) * (1.0 + 1e-9)


def _delta(pairs: Pairs, epsilon: float, settled: float) -> float:
    """The least delta of one order; if it is below `settled` anyway, a coarse grid will do."""

    def tilting(parts: Parts) -> Tilt:
        return tilt_for_epsilon(parts, epsilon)

    # Delta is off by what the log moment is off by, and relative to it twenty times as much is fine.
    def scale(tilt: Tilt, deviation: float) -> float:
        if tilt.log_delta <= math.log(settled):
            return math.inf
        return 240.0 * min(1.0 / (tilt.value + 1.0), deviation) ** 2

    parts, tilt = on_grid(pairs, _SMALL_DELTA, tilting, scale)
    if tilt.log_delta < math.log(_SMALL_DELTA):
        parts, tilt = on_grid(pairs, math.exp(max(tilt.log_delta, LEAST_LOG_DELTA)), tilting, scale)
    curve = compose(parts, tilt.value, lowest=epsilon)
    at = int(np.searchsorted(curve.epsilons, epsilon))
    if at == len(curve.epsilons):
        return infinite_mass(parts) + (math.exp(tilt.log_delta) if epsilon < greatest_loss(parts) else 0.0)
    if at == 0:
        return 1.0
    before, after = curve.epsilons[at - 1], curve.epsilons[at]
    share = math.expm1(epsilon - before) / math.expm1(after - before)
    return float((1.0 - share) * curve.deltas[at - 1] + share * curve.deltas[at])
