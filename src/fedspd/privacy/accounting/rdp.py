r"""Rényi accounting through dp-accounting, for subsets of fixed size under replace-one neighbors.

The bound is theorem 27 of Wang, Balle & Kasiviswanathan (2019) as dp-accounting implements it. Its code
charges an unsampled release $\alpha / 2z^2$, so $z$ must be the noise over the *replace-one* sensitivity,
although its documentation speaks of the norm of a record (google/differential-privacy#378). A canary test
pins this convention. The random step of a record is not used: every step counts like the first. A pure release has
the divergence of randomized response, that of infinite order included.
"""

import math
from collections.abc import Mapping
from functools import lru_cache

import dp_accounting
import numpy as np
from dp_accounting.rdp.rdp_privacy_accountant import (
    DEFAULT_RDP_ORDERS,
    RdpAccountant,
    compute_delta,
    compute_epsilon,
)

from fedspd.errors import InputError
from fedspd.privacy.accounting.closed_form.pure import total_epsilon
from fedspd.privacy.accounting.distributions.pld import chance_of_failure
from fedspd.privacy.accounting.distributions.profiles import Floats, Part, dominating, taken_apart
from fedspd.privacy.accounting.events import Event, FixedSize, Gaussian, Laplace, Poisson, SharedGaussian
from fedspd.privacy.accounting.renyi import pair_log_moment

# The part of delta kept for computed minimizers that are not what is promised, where there are any.
_RESERVE = 1e-3
_RELATIONS = {
    "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "zero-out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
}


def rdp_epsilon(history: Mapping[Event, int], delta: float) -> float:
    """The best epsilon over all Rényi orders at `delta`."""
    orders, divergences = _renyi(history)
    failing = chance_of_failure(history)
    kept = (1.0 - _RESERVE) * delta if failing else delta
    epsilon = min(float(compute_epsilon(orders.tolist(), divergences.tolist(), kept)[0]), total_epsilon(history))
    return epsilon if (1.0 + math.exp(min(epsilon, 700.0))) * failing <= delta - kept else math.inf


def rdp_delta(history: Mapping[Event, int], epsilon: float) -> float:
    """The best delta over all Rényi orders at `epsilon`."""
    if epsilon >= total_epsilon(history):
        return 0.0
    orders, divergences = _renyi(history)
    charged = (1.0 + math.exp(min(epsilon, 700.0))) * chance_of_failure(history)
    return min(1.0, float(compute_delta(orders.tolist(), divergences.tolist(), epsilon)[0]) + charged)


def _renyi(history: Mapping[Event, int]) -> tuple[Floats, Floats]:
    """Orders and divergences of the whole history."""
    divergences = np.zeros(len(DEFAULT_RDP_ORDERS))
    for event, count in taken_apart(history).items():
        divergences += count * _event_divergences(event)
    return np.asarray(DEFAULT_RDP_ORDERS, dtype=np.float64), divergences


@lru_cache(maxsize=256)
def _event_divergences(event: Part) -> Floats:
    """The divergence of one event at each order.

    dp-accounting takes differences of high order, whose rounding noise reaches several percent from order
    128 on (and may be negative), so no value may fall below the Rényi moment of the dominating pair, which
    bounds the event by itself.
    """
    pairs = {dominating(event, "removal"), dominating(event, "addition")}
    tilts = np.asarray(DEFAULT_RDP_ORDERS) - 1.0
    floor = np.array([max(pair_log_moment(pair, tilt) for pair in pairs) / tilt for tilt in tilts])
    positions = isinstance(event, FixedSize) and event.drawn == event.records and event.local_steps > 1
    if isinstance(event, Laplace) or positions:
        return floor  # nothing is sampled that dp-accounting would know of
    accountant = RdpAccountant(neighboring_relation=_RELATIONS[event.relation])
    with np.errstate(all="ignore"):
        accountant.compose(_translated(event))
    divergences = np.where(np.isnan(accountant.rdp), np.inf, accountant.rdp)
    return np.maximum(divergences, floor)


def _translated(event: Gaussian | SharedGaussian | FixedSize | Poisson) -> dp_accounting.DpEvent:
    release = dp_accounting.GaussianDpEvent(event.noise_multiplier)
    if isinstance(event, Gaussian | SharedGaussian):
        return release
    if isinstance(event, FixedSize):
        return dp_accounting.SampledWithoutReplacementDpEvent(int(event.records), int(event.drawn), release)
    if event.local_steps > 1:
        raise InputError(
            f"accountant 'rdp' expects Poisson events with local_steps = 1, got {event.local_steps}; "
            "use accountant 'pld', which charges oversized batches."
        )
    return dp_accounting.PoissonSampledDpEvent(event.rate, release)
