r"""Pure releases alone: their losses take few values, so the composition is a sum without any grid.

Releases of epsilon $\varepsilon_i$, $n_i$ times each, are dominated by randomized responses, whose losses add up to
$\sum_i (n_i - 2 k_i)\varepsilon_i$ with masses
$\prod_i \binom{n_i}{k_i} e^{-k_i\varepsilon_i}/(1 + e^{-\varepsilon_i})^{n_i}$ for $k_i = 0..n_i$.
For one $\varepsilon$ this is theorem 3.3 of Kairouz, Oh & Viswanath (2015).
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedspd.privacy.accounting.distributions.profiles import Floats
from fedspd.privacy.accounting.events import Event, Laplace

# With more values than these the grid is as good, since they lie close together.
_MOST_LOSSES = 1 << 17


class PositiveLosses(NamedTuple):
    """The positive losses of a composition, their masses rounded up, and the largest loss."""

    losses: Floats
    masses: Floats
    largest: float


def total_epsilon(history: Mapping[Event, int]) -> float:
    """The sum of the pure epsilons of a history: zero for none, infinite with an event that is not pure."""
    return math.fsum(
        count * event.epsilon if isinstance(event, Laplace) else math.inf for event, count in history.items()
    )


def composed_exactly(history: Mapping[Event, int]) -> PositiveLosses | None:
    """The losses of pure releases alone; None if there are other events or too many different ones."""
    counts: Counter[float] = Counter()
    for event, count in history.items():
        if not isinstance(event, Laplace):
            return None
        counts[event.epsilon] += count
    if math.prod(count + 1 for count in counts.values()) > _MOST_LOSSES:
        return None
    losses, logs = np.zeros(1), np.zeros(1)
    for epsilon, count in counts.items():
        fewer = np.arange(count + 1.0)
        losses = np.add.outer(losses, (count - 2.0 * fewer) * epsilon).ravel()
        logs = np.add.outer(logs, _log_masses(epsilon, count, fewer)).ravel()
    positive = losses > 0.0
    return PositiveLosses(losses[positive], np.exp(logs[positive]), total_epsilon(history))


def pure_delta(composed: PositiveLosses, epsilon: float) -> float:
    """The delta of pure releases at `epsilon`.

    Guarantees:
        At the sum of the epsilons, and above, it is zero.
    """
    if epsilon >= composed.largest:
        return 0.0
    return min(1.0, float(np.dot(composed.masses, -np.expm1(np.minimum(epsilon - composed.losses, 0.0)))))


def pure_epsilon(composed: PositiveLosses, delta: float) -> float:
    """The least epsilon of pure releases at `delta`, by bisection.

    Guarantees:
        The upper end of the last bracket, rounded up, but never above the sum of the epsilons.
    """
    if pure_delta(composed, 0.0) <= delta:
        return 0.0
    low, high = 0.0, composed.largest
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if pure_delta(composed, middle) > delta:
            low = middle
        else:
            high = middle
    return min(high * (1.0 + 1e-12), composed.largest)


def _log_masses(epsilon: float, count: int, fewer: Floats) -> Floats:
    """The log of the mass of each number of losses that are negative, rounded up."""
    from scipy.special import gammaln  # scipy.special takes 0.3 s to import

    ways = gammaln(count + 1.0) - gammaln(fewer + 1.0) - gammaln(count - fewer + 1.0)
    logs = ways - fewer * epsilon - count * math.log1p(math.exp(-epsilon))
    # Each term is right to a few units in its last place, and none is larger than these two together.
    return logs + 2.0**-50 * (float(gammaln(count + 1.0)) + count * (epsilon + 1.0)) + 1e-12
