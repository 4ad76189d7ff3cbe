r"""The terms a client enters on, fixed before its first release, and what they still allow.

Two rules decide. Each holds by itself for every order of the releases and every moment to stop:

- *plan*: releases within the declared plan, at most `count` of each event, compose as if all of them had been
  made: every order of a fixed collection gives the same sum of losses, and stopping only withholds. A plan
  of releases without subsampling covers all releases of that kind, whatever their noise: their squared
  inverse multipliers add up, adaptively too (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023).
- *filter*: any events, chosen after seeing anything, through `accounting.fits_adaptively` (a Rényi filter;
  Feldman & Zrnic 2021).

Accepting what either rule accepts at the full delta would *not* be private: a server that has seen the loss so
far picks the rule that suits it. So the rules share delta. A transcript that ends within the plan is one of
a process that never leaves the plan, and these transcripts together exceed $e^\varepsilon$ times their
chance under the neighbor by at most $\delta_{plan}$; all other transcripts are ones of a process that obeys the
filter, and exceed it by at most $\delta_{filter}$; the two add up to the delta of the budget.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

from fedspd.errors import InputError
from fedspd.privacy.accounting import (
    Event,
    History,
    Relation,
    alone,
    delta_at,
    fits_adaptively,
    participations_that_fit,
)
from fedspd.privacy.accounting.distributions.profiles import as_gaussian
from fedspd.privacy.accounting.history import counted, require_delta, require_epsilon
from fedspd.privacy.accounting.spending import upper_epsilon
from fedspd.typing import UNITS

Rule = Literal["plan", "filter"]
Counts = tuple[tuple[Event, int], ...]

# What a plan without subsampling leaves of delta to the filter, unless it needs it itself.
_LEFT_TO_FILTER = 0.01


@dataclass(frozen=True)
class Budget:
    """The most a client's releases may cost in all, over all runs: (epsilon, delta) under one relation, of one unit.

    Args:
        epsilon_alone: the most they may cost if everybody else colludes, where noise is shared; None: any.
        unit: what neighbors differ in: a record, or all that a client has of a person.
    """

    epsilon: float
    delta: float
    relation: Relation = "replace-one"
    epsilon_alone: float | None = None
    unit: str = "record"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if self.epsilon_alone is not None:
            require_epsilon(self.epsilon_alone)
        require_delta(self.delta)
        require_relation(self.relation, self.relation)
        if self.unit not in UNITS:
            raise InputError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}; use one of them.")


@dataclass(frozen=True)
class BudgetTerms:
    """A budget, the plan within it, and the part of delta that the plan takes; the filter has the rest."""

    budget: Budget
    plan: Counts = ()
    planned_delta: float = 0.0

    @property
    def filter_delta(self) -> float:
        """The delta at which the filter decides; rounded down."""
        return max(0.0, (self.budget.delta - self.planned_delta) * (1.0 - 1e-9))

    @cached_property
    def caps(self) -> Mapping[Event, int]:
        """The most releases of each event under the plan."""
        return dict(self.plan)

    @cached_property
    def covers_all_gaussian(self) -> bool:
        """Whether the plan has no subsampling, and so covers every release without it."""
        return bool(self.plan) and all(as_gaussian(event) is not None for event in self.caps)


def agree(budget: Budget, plan: History = ()) -> BudgetTerms:
    """The terms of a client that declares a budget and, before its first release, a plan.

    Guarantees:
        A plan beyond the budget is cut to what fits, event by event in the order of the plan.
        The delta of the plan and the delta of the filter add up to the delta of the budget at most.
        A plan that the filter would accept anyway takes nothing from the filter.
        Both hold of the second number, too, where there is a cap on it.
    """
    counts = counted(plan)
    for event in counts:
        require_relation(event.relation, budget.relation)
    return _agree(budget, tuple(counts.items()))


def rule_for(terms: BudgetTerms, history: Mapping[Event, int]) -> Rule | None:
    """The rule that covers a history, or None if it is beyond the budget.

    Guarantees:
        What is covered stays covered with fewer releases.
    """
    if terms.budget.epsilon_alone is not None and rule_for(_own(terms), by_own_noise(history)) is None:
        return None
    if within_caps(terms, history):
        return "plan"
    return _rule(terms, frozenset(history.items()))


def by_own_noise(history: Mapping[Event, int]) -> dict[Event, int]:
    """The history as it is if everybody else colludes."""
    return counted((alone(event), count) for event, count in history.items())


def is_reserved(terms: BudgetTerms, history: Mapping[Event, int]) -> bool:
    """Whether a history that no rule covers composes within the budget at its full delta, of which the plan has a part.

    It is for words and decides nothing: to grant such a history would give plan and filter more than delta together.
    """
    return terms.planned_delta > 0 and _composes(terms.budget, frozenset(history.items()))


def room(terms: BudgetTerms, history: Mapping[Event, int], event: Event) -> int:
    """How many more releases of `event` fit after `history`.

    Guarantees:
        One more than this would be refused.
    """
    require_relation(event.relation, terms.budget.relation)
    found = _room(terms, frozenset(history.items()), event)
    if terms.budget.epsilon_alone is None:
        return found
    return min(found, room(_own(terms), by_own_noise(history), alone(event)))


def require_relation(got: Relation, expected: Relation) -> None:
    """Refuse an event under another relation than that of the budget."""
    if got != expected or got not in ("replace-one", "zero-out"):
        raise InputError(
            f"expected the budget's neighbor relation, {expected!r}, got {got!r}; the two epsilons do not compose: "
            "use one of 'replace-one' and 'zero-out' throughout."
        )


def within_caps(terms: BudgetTerms, history: Mapping[Event, int]) -> bool:
    """Whether a history is part of the declared plan."""
    caps = terms.caps
    return all(count <= caps.get(event, 0) for event, count in history.items())


@lru_cache(maxsize=4096)
def _agree(budget: Budget, plan: Counts) -> BudgetTerms:
    caps = plan if _proved(plan, budget.epsilon, budget.delta) else _cut(budget, plan)
    if not caps:
        return BudgetTerms(budget)
    terms = BudgetTerms(budget, caps, min(budget.delta, delta_at(caps, budget.epsilon)))
    if terms.covers_all_gaussian:
        return BudgetTerms(budget, caps, max(terms.planned_delta, (1.0 - _LEFT_TO_FILTER) * budget.delta))
    if not fits_adaptively(caps, budget.epsilon, budget.delta):
        return terms
    return BudgetTerms(budget, caps if budget.epsilon_alone is not None else ())  # it may need it for the second number


@lru_cache(maxsize=4096)
def _own(terms: BudgetTerms) -> BudgetTerms:
    """The same plan by a client's own noise, under the cap on what is lost if everybody else colludes."""
    budget = terms.budget
    assert budget.epsilon_alone is not None, "there is a cap"
    capped = Budget(budget.epsilon_alone, budget.delta, budget.relation, unit=budget.unit)
    return agree(capped, by_own_noise(terms.caps).items())


def _proved(history: Iterable[tuple[Event, int]], epsilon: float, delta: float) -> bool:
    # Both are upper bounds; either is a proof, and calibrations use the second.
    counts = dict(history)
    return delta_at(counts, epsilon) <= delta or upper_epsilon(counts, delta, "pld") <= epsilon


def _cut(budget: Budget, plan: Counts) -> Counts:
    caps: dict[Event, int] = {}
    for event, count in plan:
        fitting = participations_that_fit(event, caps, budget.epsilon, budget.delta)
        if fitting:
            caps[event] = min(count, fitting)
    return tuple(caps.items())


@lru_cache(maxsize=1 << 16)
def _rule(terms: BudgetTerms, history: frozenset[tuple[Event, int]]) -> Rule | None:
    budget = terms.budget
    gaussian = terms.covers_all_gaussian and _all_gaussian(history)
    if gaussian and _proved(history, budget.epsilon, terms.planned_delta):
        return "plan"
    if terms.filter_delta and fits_adaptively(history, budget.epsilon, terms.filter_delta):
        return "filter"
    return None


@lru_cache(maxsize=1 << 12)
def _composes(budget: Budget, history: frozenset[tuple[Event, int]]) -> bool:
    return _proved(history, budget.epsilon, budget.delta)


@lru_cache(maxsize=1 << 12)
def _room(terms: BudgetTerms, history: frozenset[tuple[Event, int]], event: Event) -> int:
    budget, counts = terms.budget, dict(history)
    found = 0
    if within_caps(terms, counts):
        found = max(0, terms.caps.get(event, 0) - counts.get(event, 0))
    if terms.covers_all_gaussian and _all_gaussian(history) and as_gaussian(event) is not None:
        found = max(found, participations_that_fit(event, counts, budget.epsilon, terms.planned_delta))
    if terms.filter_delta:
        filtered = participations_that_fit(event, counts, budget.epsilon, terms.filter_delta, adaptive=True)
        found = max(found, filtered)
    return found


def _all_gaussian(history: frozenset[tuple[Event, int]]) -> bool:
    return all(as_gaussian(event) is not None for event, _ in history)
