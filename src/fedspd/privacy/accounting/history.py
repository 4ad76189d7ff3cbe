"""The door of the accountants: histories, budgets and counts are checked here, before any work."""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Literal, get_args

from fedspd.errors import InputError
from fedspd.privacy.accounting import limits
from fedspd.privacy.accounting.events import Event, FixedSize, Gaussian, Laplace, Poisson, Relation, SharedGaussian
from fedspd.privacy.accounting.minimizers import Minimizer

# A mapping's keys are invariant in their type, hence one mapping per event.
History = (
    Mapping[Event, int]
    | Mapping[Gaussian, int]
    | Mapping[SharedGaussian, int]
    | Mapping[Laplace, int]
    | Mapping[Minimizer, int]
    | Mapping[FixedSize, int]
    | Mapping[Poisson, int]
    | Iterable[tuple[Event, int]]
)
Accountant = Literal["pld", "rdp"]
MOST_EPSILON = 1e6


def counted(history: History) -> dict[Event, int]:
    """The history as counts of distinct events, empty entries dropped.

    Guarantees:
        Refused: things that are no event of this package, counts that are no whole number of at least
        zero, and events under different neighbor relations, whose epsilons do not compose.
    """
    counts: dict[Event, int] = {}
    if isinstance(history, str) or not isinstance(history, Iterable):
        raise InputError(f"a history must be counts by event, got {history!r}; pass a dictionary.")
    for pair in history.items() if isinstance(history, Mapping) else history:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"a history must be counts by event, got {pair!r} in it; write (event, count).")
        event, count = pair
        if not isinstance(event, Event):
            raise InputError(
                f"expected events of fedspd.privacy.accounting, got {event!r}; no accountant has a proof for it."
            )
        require_count(count)
        if count:
            counts[event] = counts.get(event, 0) + int(count)
    relations = sorted({event.relation for event in counts})
    if len(relations) > 1:
        raise InputError(
            f"expected one neighbor relation in a history, got {' and '.join(relations)}; "
            "account for each relation apart, the two epsilons mean different things."
        )
    return counts


def relation_of(counts: Mapping[Event, int]) -> Relation | None:
    """The relation all events share; None without events."""
    return next(iter(counts)).relation if counts else None


def require_count(count: int) -> None:
    """Refuse a number of participations that is negative or no whole number."""
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
        raise InputError(f"participations must be a whole number of at least 0, got {count!r}; correct it.")
    if count:
        limits.require_count("participations", count)


def require_delta(delta: float) -> None:
    """Refuse a delta outside (0, 1)."""
    if not isinstance(delta, Real) or not 0.0 < delta < 1.0:
        raise InputError(f"delta must lie in (0, 1), got {delta!r}; 1e-5 is usual.")


def require_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is negative or not finite."""
    if not isinstance(epsilon, Real) or not 0.0 <= epsilon < math.inf:
        raise InputError(f"epsilon must be finite and at least 0, got {epsilon!r}; correct it.")
    if epsilon > MOST_EPSILON:
        raise InputError(f"epsilon must be at most {MOST_EPSILON:g}, got {epsilon!r}; such a budget protects nobody.")


def require_accountant(accountant: str) -> None:
    """Refuse an accountant this package does not have."""
    if accountant not in get_args(Accountant):
        raise InputError(f"accountant must be one of {get_args(Accountant)}, got {accountant!r}; pick one.")
