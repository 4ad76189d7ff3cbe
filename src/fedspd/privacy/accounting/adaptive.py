r"""A privacy filter: may a release whose event was chosen after seeing earlier releases still be made?

Recomposing what really happened by privacy-loss distributions is a proof only if the events were fixed
beforehand: an adversary who may choose switches to the event that suits the loss so far. A filter holds for
every choice: at a Rényi order $\theta + 1$ fixed in advance the log moments of all events stay within a
fixed allowance (Feldman & Zrnic 2021), which proposition 12 of Canonne, Kamath & Steinke (2020) turns into
(epsilon, delta). Pure releases whose epsilons add up to epsilon at most need no delta at all, whatever is chosen, so
they pass beside it. The order depends on the budget alone: somewhat below the best one for Gaussian releases,
which costs those little and suits rare draws better.
"""

import math
from collections.abc import Mapping

from fedspd.privacy.accounting.closed_form.gaussian import total_multiplier
from fedspd.privacy.accounting.closed_form.pure import total_epsilon
from fedspd.privacy.accounting.events import Event
from fedspd.privacy.accounting.history import History, counted, require_delta, require_epsilon
from fedspd.privacy.accounting.limits import LEAST_MULTIPLIER

# The part of delta kept for what no pair covers, fixed in advance like the order.
_RESERVE = 1e-3
# The order minus one, relative to the best for Gaussian releases.
_LOWERED = 0.8


def fits_adaptively(history: History, epsilon: float, delta: float) -> bool:
    """Whether a history with adaptively chosen events is within a budget that is enforced by this function.

    Guarantees:
        If every release was made only after this function accepted the history with it, for the same
        epsilon and delta, then all releases together are (epsilon, delta)-private, however their events
        were chosen. What it accepts, `spent` finds within the budget too.
    """
    counts = counted(history)
    require_epsilon(epsilon)
    require_delta(delta)
    if total_epsilon(counts) <= epsilon:
        return True
    from fedspd.privacy.accounting.distributions.pld import chance_of_failure  # plain Gaussian plans do without

    if (1.0 + math.exp(min(epsilon, 700.0))) * chance_of_failure(counts) > _RESERVE * delta:
        return False
    kept = (1.0 - _RESERVE) * delta
    tilt = _LOWERED * _best_tilt(epsilon, kept)
    return _largest_log_moment(counts, tilt) <= _allowance(tilt, epsilon, kept)


def _allowance(tilt: float, epsilon: float, delta: float) -> float:
    """The log moment at `tilt` that implies (epsilon, delta)."""
    order = tilt + 1.0
    return tilt * (epsilon - math.log1p(-1.0 / order)) + math.log(delta * order)


def _best_tilt(epsilon: float, delta: float) -> float:
    """The order minus one that leaves most room for Gaussian releases, whose moments are t (t + 1) / 2z^2."""
    from fedspd.privacy.accounting.distributions.compose import least_point

    def room(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return _allowance(tilt, epsilon, delta) / (tilt * (tilt + 1.0))

    return math.exp(least_point(lambda log_tilt: -room(log_tilt), -4.0, 14.0, 1e-3))


def _largest_log_moment(counts: Mapping[Event, int], tilt: float) -> float:
    from fedspd.privacy.accounting.distributions.pld import PairOrder, pairs_of
    from fedspd.privacy.accounting.distributions.profiles import as_gaussian, taken_apart
    from fedspd.privacy.accounting.renyi import pair_log_moment

    parts = taken_apart(counts)
    gaussians = [(z, count) for event, count in parts.items() if (z := as_gaussian(event)) is not None]
    if total_multiplier(gaussians) < LEAST_MULTIPLIER:
        return math.inf  # so much together is not accounted for, and no filter lets it through
    orders: tuple[PairOrder, ...] = ("removal", "addition")
    return max(
        math.fsum(times * pair_log_moment(pair, tilt) for pair, times in pairs_of(counts, order).items())
        for order in orders
    )
