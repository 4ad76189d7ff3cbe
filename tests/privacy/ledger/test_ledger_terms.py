"""Terms: the plan is composed, the rest is filtered, and the two share delta."""

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.errors import InputError
from fedspd.privacy.accounting import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Relation,
    SharedFixedSize,
    SharedGaussian,
    alone,
    calibrate,
    delta_at,
    fits_adaptively,
    participations_that_fit,
    spent,
)
from fedspd.privacy.ledger import Budget, BudgetTerms, agree
from fedspd.privacy.ledger.terms import is_reserved, room, rule_for

BUDGET = Budget(1.0, 1e-4)
ROUND = FixedSize(2.607, 325, 50)  # 20 of them fit (an independent prototype: 2.606 for epsilon 1)
SCALING = Gaussian(30.0)


def test_a_calibrated_plan_is_covered_to_its_last_round() -> None:
    terms = agree(BUDGET, {ROUND: 20})
    assert terms.caps == {ROUND: 20}
    assert rule_for(terms, {ROUND: 20}) == "plan"
    assert rule_for(terms, {ROUND: 21}) is None
    both = calibrate(lambda z: FixedSize(z, 325, 50), 20, 1.0, 1e-4, {SCALING: 1})
    mixed = {SCALING: 1, FixedSize(both, 325, 50): 20}
    assert agree(BUDGET, mixed).caps == mixed


def test_a_plan_beyond_the_budget_is_cut_to_what_fits_event_by_event_in_the_order_of_the_plan() -> None:
    assert agree(BUDGET, {ROUND: 1000}).caps == {ROUND: 20}
    caps = agree(BUDGET, {SCALING: 1, ROUND: 1000}).caps
    assert caps == {SCALING: 1, ROUND: participations_that_fit(ROUND, {SCALING: 1}, 1.0, 1e-4)}
    assert agree(BUDGET, {Gaussian(1.0): 1}) == agree(BUDGET)


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {ROUND: 3},
        {ROUND: 20},
        {SCALING: 1, ROUND: 17},
        {Gaussian(30.0): 40},
        {Gaussian(30.0): 1000},
        {Laplace(40.0): 90},
    ],
)
def test_the_delta_of_the_plan_and_the_delta_of_the_filter_add_up_to_the_delta_of_the_budget_at_most(
    plan: dict[Event, int],
) -> None:
    terms = agree(BUDGET, plan)
    assert delta_at(terms.plan, 1.0) <= terms.planned_delta
    assert terms.planned_delta + terms.filter_delta <= BUDGET.delta
    assert terms.planned_delta + terms.filter_delta >= 0.9999 * BUDGET.delta


def test_a_plan_that_the_filter_would_accept_anyway_takes_nothing_from_the_filter() -> None:
    assert fits_adaptively({ROUND: 10}, 1.0, 1e-4)
    assert agree(BUDGET, {ROUND: 10}) == agree(BUDGET) == BudgetTerms(BUDGET)
    assert rule_for(agree(BUDGET), {ROUND: 10}) == "filter"


def test_releases_without_subsampling_are_filtered_at_no_cost_whatever_their_noise() -> None:
    terms = agree(BUDGET, {Gaussian(30.0): 20})
    half = Gaussian(3.1857 * math.sqrt(2) * 1.001)  # an independent prototype: 3.1857 for epsilon 1 at delta 1e-4
    assert rule_for(terms, {half: 2}) == "plan"
    assert rule_for(terms, {half: 1, Gaussian(30.0): 40}) == "plan"
    assert not fits_adaptively({half: 2}, 1.0, 1e-4)
    assert rule_for(terms, {Gaussian(30.0): 20, FixedSize(30.0, 325, 50): 1}) == "filter"
    whole = FixedSize(30.0, 50, 50)
    assert rule_for(terms, {whole: 20, Gaussian(30.0): 1}) == "plan"


def test_what_departs_from_the_plan_goes_through_the_filter() -> None:
    terms = agree(BUDGET, {ROUND: 18})
    later = FixedSize(5.0, 325, 50)
    assert rule_for(terms, {ROUND: 4, later: 4}) == "filter"
    assert fits_adaptively({ROUND: 4, later: 4}, 1.0, terms.filter_delta)
    assert rule_for(terms, {ROUND: 18, later: 1}) is None


def test_only_what_composes_at_the_full_delta_and_only_under_a_plan_is_called_reserved() -> None:
    later = FixedSize(5.0, 325, 50)
    terms = agree(BUDGET, {ROUND: 20})
    assert rule_for(terms, {ROUND: 15, later: 1}) is None
    assert is_reserved(terms, {ROUND: 15, later: 1})
    assert not is_reserved(agree(BUDGET), {ROUND: 15, later: 1})
    assert not is_reserved(terms, {ROUND: 20, later: 1})


SHARED = SharedFixedSize(20.0, 325, 50, own_multiplier=2.607)  # of members that share noise: 20 fit by their own, too
CAPPED = Budget(1.0, 1e-4, epsilon_alone=1.0)


def test_a_plan_is_covered_to_its_last_round_by_the_cap_on_the_second_number_too() -> None:
    """Its own noise went through the filter, which ended runs of batches before the rounds that noise was added for."""
    terms = agree(CAPPED, {SHARED: 20})
    assert fits_adaptively({SHARED: 20}, 1.0, 1e-4), "the first number is far from its budget"
    assert not fits_adaptively({ROUND: 20}, 1.0, 1e-4)
    assert rule_for(terms, {SHARED: 20}) is not None
    assert rule_for(terms, {SHARED: 21}) is None
    assert rule_for(agree(CAPPED), {SHARED: 20}) is None, "without a plan there is the filter"


@pytest.mark.parametrize("plan", [{}, {SHARED: 20}, {SHARED: 10}, {SharedGaussian(60.0, 30.0): 40}])
def test_the_second_number_of_several_plans_stays_under_its_cap_and_so_does_what_there_is_room_for(
    plan: dict[Event, int],
) -> None:
    terms = agree(CAPPED, plan)
    for event in (SHARED, SharedGaussian(60.0, 30.0), SharedGaussian(9.0, 8.0)):
        history = dict.fromkeys(plan, 3)
        after = history.get(event, 0) + room(terms, history, event)
        full = {**history, event: after} if after else history
        assert not full or rule_for(terms, full) is not None
        assert rule_for(terms, {**history, event: after + 1}) is None
        own = {alone(one): count for one, count in full.items()}
        assert not own or spent(own, CAPPED.delta).epsilon <= 1.0


@pytest.mark.parametrize(
    ("budget", "event"),
    [(Budget(1e4, 1e-5), Gaussian(3.0)), (Budget(100.0, 1e-5, epsilon_alone=1e4), SharedGaussian(5.0, 3.0))],
)
def test_budgets_beyond_what_is_accounted_for_have_room_for_what_is_and_end_in_no_error(
    budget: Budget, event: Event
) -> None:
    """So many releases that their noise together is less than any event may have ended a site's run in a crash."""
    terms = agree(budget, {event: 2})
    count = room(terms, {event: 1}, event)
    assert count > 1000
    assert rule_for(terms, {event: 1 + count}) is not None


EVENTS: list[Event] = [ROUND, SCALING, Laplace(40.0), FixedSize(5.0, 325, 50), FixedSize(2.0, 325, 50, 5, 0.95)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_what_is_covered_stays_covered_with_fewer_releases(data: st.DataObject) -> None:
    terms = agree(BUDGET, data.draw(st.sampled_from([{}, {ROUND: 18}, {SCALING: 40}])))
    history = data.draw(st.dictionaries(st.sampled_from(EVENTS), st.integers(1, 12), min_size=1))
    less = {event: data.draw(st.integers(0, count)) for event, count in history.items()}
    less = {event: count for event, count in less.items() if count}
    if rule_for(terms, history):
        assert rule_for(terms, less)
        assert spent(history, BUDGET.delta).epsilon <= BUDGET.epsilon


@pytest.mark.parametrize("plan", [{}, {ROUND: 18}, {ROUND: 20}, {SCALING: 40}])
@pytest.mark.parametrize("history", [{}, {ROUND: 3}, {SCALING: 5}])
@pytest.mark.parametrize("event", [ROUND, SCALING])
def test_one_more_than_there_is_room_for_would_be_refused(
    plan: dict[Event, int], history: dict[Event, int], event: Event
) -> None:
    terms = agree(BUDGET, plan)
    count = room(terms, history, event)
    after = history.get(event, 0) + count
    assert not count or rule_for(terms, {**history, event: after})
    assert rule_for(terms, {**history, event: after + 1}) is None


@cache
def one_round(event: Event, epsilon: float) -> float:
    return delta_at({event: 1}, epsilon)


def adaptive_delta(first: Gaussian, choices: list[Event], epsilon: float) -> float:
    """What an adversary reaches who picks the second event by the loss of the first, both attaining their profile."""
    mean, deviation = 0.5 / first.noise_multiplier**2, 1.0 / first.noise_multiplier
    losses = np.linspace(mean - 8 * deviation, mean + 8 * deviation, 161)
    values = np.zeros((len(choices), len(losses)))
    for (row, event), (column, loss) in itertools.product(enumerate(choices), enumerate(losses)):
        left = epsilon - loss
        delta = one_round(event, abs(left))
        values[row, column] = delta if left >= 0 else 1 - math.exp(left) + math.exp(left) * delta
    density = np.exp(-0.5 * ((losses - mean) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    return float(np.trapezoid(values.max(axis=0) * density, losses))


def test_a_plan_or_a_filter_each_at_the_full_delta_is_no_bound_but_sharing_delta_is() -> None:
    first, planned = Gaussian(5.0), FixedSize(0.5, 100, 1)
    delta = 1.02 * delta_at({first: 1, planned: 1}, 1.0)
    terms = agree(Budget(1.0, delta), {first: 1, planned: 1})

    def least(fits: Callable[[Event], object]) -> Event:
        return next(event for z in 0.2 * 1.02 ** np.arange(250) if fits(event := Gaussian(float(z))))

    careless = least(lambda event: fits_adaptively({first: 1, event: 1}, 1.0, delta))
    assert adaptive_delta(first, [planned, careless], 1.0) > 1.04 * delta
    shared = least(lambda event: rule_for(terms, {first: 1, event: 1}))
    assert rule_for(terms, {first: 1, planned: 1}) == "plan"
    assert adaptive_delta(first, [planned, shared], 1.0) <= delta


def test_budgets_and_plans_are_checked_at_the_door() -> None:
    for values in [(-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0), (math.nan, 1e-5)]:
        with pytest.raises(InputError, match="must"):
            Budget(*values)
    unknown: Relation = "add-or-remove"  # pyright: ignore[reportAssignmentType]
    with pytest.raises(InputError, match="neighbor relation"):
        Budget(1.0, 1e-5, unknown)
    with pytest.raises(InputError, match="neighbor relation"):
        agree(BUDGET, {Poisson(2.0, 0.1): 1})
    with pytest.raises(InputError, match="neighbor relation"):
        room(agree(BUDGET), {}, Poisson(2.0, 0.1))
    assert agree(Budget(1.0, 1e-4, "zero-out"), {Poisson(2.54, 50 / 325): 20}).caps == {Poisson(2.54, 50 / 325): 20}
