"""What a history of participations has spent: epsilon at a delta, or delta at an epsilon.

Both are upper bounds, recomposed from the events each time, never added up or subtracted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fedspd.privacy.accounting.closed_form.gaussian import gaussian_delta, gaussian_epsilon, total_multiplier
from fedspd.privacy.accounting.distributions.profiles import as_gaussian
from fedspd.privacy.accounting.events import Event, Relation
from fedspd.privacy.accounting.history import (
    Accountant,
    History,
    counted,
    relation_of,
    require_accountant,
    require_delta,
    require_epsilon,
)


@dataclass(frozen=True)
class Bound:
    """The epsilon of a history at `delta`, and how it was found.

    `lower_bound` is an epsilon an adversary realizes, or None where none is known; `relation` is None for
    an empty history, which is private under every relation.
    """

    epsilon: float
    lower_bound: float | None
    delta: float
    accountant: Literal["gaussian", "pld", "rdp"]
    relation: Relation | None


def spent(history: History, delta: float, accountant: Accountant = "pld") -> Bound:
    """The epsilon of a history at `delta`, beside the epsilon an adversary is known to reach.

    Guarantees:
        `epsilon` is an upper bound and `lower_bound` a lower one. A history of plain Gaussian releases is
        composed exactly (accountant "gaussian") unless "rdp" is asked for.
    """
    counts = counted(history)
    epsilon = upper_epsilon(counts, delta, accountant)
    relation = relation_of(counts)
    multiplier = _plain_multiplier(counts)
    if multiplier is None:
        from fedspd.privacy.accounting.distributions.realized import realized_epsilon

        return Bound(epsilon, realized_epsilon(counts, delta, epsilon), delta, accountant, relation)
    lower = gaussian_epsilon(multiplier, delta) * (1.0 - 1e-9)
    return Bound(epsilon, lower, delta, "rdp" if accountant == "rdp" else "gaussian", relation)


def delta_at(history: History, epsilon: float, accountant: Accountant = "pld") -> float:
    """The delta of a history at `epsilon`: an upper bound, the other direction of `spent`."""
    counts = counted(history)
    require_epsilon(epsilon)
    require_accountant(accountant)
    if not counts:
        return 0.0
    if accountant == "rdp":
        from fedspd.privacy.accounting.rdp import rdp_delta  # dp-accounting takes more than a second to import

        return rdp_delta(counts, epsilon)
    multiplier = _plain_multiplier(counts)
    if multiplier is not None:
        return gaussian_delta(multiplier, epsilon)
    from fedspd.privacy.accounting.distributions.pld import pld_delta

    return pld_delta(counts, epsilon)


def upper_epsilon(counts: Mapping[Event, int], delta: float, accountant: Accountant) -> float:
    """The epsilon of `spent` alone, for counts that `counted` has checked."""
    require_delta(delta)
    require_accountant(accountant)
    if not counts:
        return 0.0
    if accountant == "rdp":
        from fedspd.privacy.accounting.rdp import rdp_epsilon  # dp-accounting takes more than a second to import

        return rdp_epsilon(counts, delta)
    multiplier = _plain_multiplier(counts)
    if multiplier is not None:
        return gaussian_epsilon(multiplier, delta)
    from fedspd.privacy.accounting.distributions.pld import pld_epsilon

    return pld_epsilon(counts, delta)


def _plain_multiplier(counts: Mapping[Event, int]) -> float | None:
    """The one Gaussian release that equals the history, or None if some event subsamples."""
    multipliers = [(as_gaussian(event), count) for event, count in counts.items()]
    known = [(multiplier, count) for multiplier, count in multipliers if multiplier is not None]
    return total_multiplier(known) if len(known) == len(multipliers) else None
