"""Whose turn it is: nobody stays away longer than is allowed, and rounds that depend on no record are free."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedspd.algorithms.methods.ps_admm import PSADMM
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.algorithms.parts.topology import make_topology
from fedspd.data import Table, assign
from fedspd.engine import Simulation, simulate
from fedspd.engine.participation import Course, free_rounds, plan_course, plan_rounds, sensitivities
from fedspd.engine.spending import Spending
from fedspd.errors import InputError
from fedspd.privacy import WHOLE_SHARD, plan_as_published, plan_proved
from fedspd.privacy.accounting import Gaussian, spent
from fedspd.problem import Objective, Softmax, Unregularized
from tests.algorithms.test_fedspd_published import small_problem
from tests.support.algorithms.contract_methods import METHODS, Setting, small_run, whole_shard


def many(clients: int, participants: int, rounds: int, seed: int = 0, **changes: Any) -> Simulation:
    """Clients with one record each, whose budgets are not enforced."""
    table = Table(np.ones((clients, 2)), np.zeros(clients, int), ("a", "b"), ("no", "yes"))
    algorithm = PSADMM(Objective(Softmax(2), Unregularized(), 1.0), clients, 1.0, Constant(1.0))
    plan = plan_as_published(1.0, "round", 1e-4, WHOLE_SHARD, 1, np.ones(clients, int), 1.0)
    shards = assign(table, np.arange(clients), clients)
    return Simulation(shards, table, algorithm, plan, None, participants, rounds, seed, **changes)


def chosen(simulation: Simulation) -> list[np.ndarray]:
    spending = Spending(simulation.plan, simulation.shards.clients, None, every_round=False)
    return [turn.chosen for turn in plan_rounds(simulation, spending)]


@settings(max_examples=60, deadline=None)
@given(clients=st.integers(1, 25), data=st.data(), seed=st.integers(0, 2**32))
def test_nobody_stays_away_longer_than_is_allowed_and_every_round_has_all_its_participants(
    clients: int, data: st.DataObject, seed: int
) -> None:
    participants = data.draw(st.integers(1, clients))
    least = -(-clients // participants)
    most_stale = data.draw(st.integers(least, least + 6))
    rounds = 4 * most_stale
    among = chosen(many(clients, participants, rounds, seed, most_stale=most_stale))
    assert [len(np.unique(one)) for one in among] == [participants] * rounds
    for client in range(clients):
        came = [0, *(round for round, one in enumerate(among, start=1) if client in one), rounds + 1]
        assert max(later - earlier for earlier, later in pairwise(came[:-1])) <= most_stale
        assert rounds - came[-2] < most_stale


def test_without_a_bound_somebody_does_stay_away_longer() -> None:
    """Otherwise the sentence above would be true of any choice."""
    among = chosen(many(10, 3, 40))
    absent = max(40 - sum(client in one for one in among) for client in range(10))
    longest = 0
    for client in range(10):
        came = [0, *(round for round, one in enumerate(among, start=1) if client in one)]
        longest = max(longest, *(later - earlier for earlier, later in pairwise(came)))
    assert longest > 4
    assert absent > 0


@pytest.mark.parametrize("most_stale", [4, 5, 30])
def test_who_comes_does_not_depend_on_the_number_that_a_client_bears(most_stale: int) -> None:
    """In every round of many runs; clients that are due at the same time come in random order."""
    runs, clients, participants, rounds = 1500, 8, 2, 5
    counts = np.zeros((rounds, clients))
    for seed in range(runs):
        for round, one in enumerate(chosen(many(clients, participants, rounds, seed, most_stale=most_stale))):
            counts[round, one] += 1
    for round in range(rounds):
        pvalues = [stats.binomtest(int(k), runs, participants / clients).pvalue for k in counts[round]]
        assert min(pvalues) * clients > 1e-4
    assert stats.binomtest(int(counts[0, 0]), runs, 1.25 * participants / clients).pvalue < 1e-3


def test_a_loose_bound_leaves_the_choice_to_chance() -> None:
    """Whoever came in one round comes again in the next as often as anybody."""
    clients, participants, rounds = 6, 2, 6000
    among = chosen(many(clients, participants, rounds, most_stale=200))
    again = sum(len(np.intersect1d(one, two)) for one, two in pairwise(among))
    assert stats.binomtest(again, participants * (rounds - 1), participants / clients).pvalue > 1e-4
    assert stats.binomtest(again, participants * (rounds - 1), 0.9 * participants / clients).pvalue < 1e-4


@pytest.mark.parametrize(("clients", "participants", "most_stale"), [(10, 3, 3), (5, 4, 1), (7, 1, 6)])
def test_a_bound_that_leaves_too_few_places_is_refused(clients: int, participants: int, most_stale: int) -> None:
    with pytest.raises(InputError, match=rf"at least the number of clients, {clients}, .* got {most_stale} x"):
        many(clients, participants, 5, most_stale=most_stale)
    many(clients, participants, 5, most_stale=most_stale + 1)


def test_clients_without_budget_have_no_turn_and_keep_nobody_from_theirs() -> None:
    simulation = many(8, 2, 24, most_stale=4)
    spending = Spending(simulation.plan, 8, None)
    spending._retire(np.array([0, 1, 2]))
    came = [turn.chosen.tolist() for turn in plan_rounds(simulation, spending)]
    assert all(len(one) == 2 and min(one) >= 3 for one in came)
    for client in range(3, 8):
        rounds = [0, *(round for round, one in enumerate(came, start=1) if client in one)]
        assert max(later - earlier for earlier, later in pairwise(rounds)) <= 4


# --- rounds that are free ------------------------------------------------------------------------------------


def recycled(rounds: int, most: int, **changes: Any) -> Simulation:
    """Recycled ADMM of five clients, each of whom may be asked for its records so often."""
    algorithm = METHODS["DP-RADMM"](Setting(clients=5))
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    plan = plan_proved(2.0, 1e-5, whole_shard(algorithm, sizes), sizes, most)
    return replace(small_run(algorithm, plan, rounds), **changes)


class Recorded:
    """A gate that lets everybody pass and writes down when it was asked."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        self.rounds.append(round)
        return np.ones(len(clients), bool)


@pytest.mark.parametrize(("rounds", "paid"), [(1, 1), (2, 1), (5, 3), (6, 3)])
def test_only_rounds_that_depend_on_records_are_charged(rounds: int, paid: int) -> None:
    simulation, gate = recycled(rounds, 3), Recorded()
    outcome = simulate(simulation, gate=gate)
    assert gate.rounds == list(range(1, rounds + 1, 2))
    assert outcome.participations.tolist() == [paid] * 5
    assert len(outcome.models) == rounds
    assert outcome.history["participants"].tolist() == [5] * rounds
    cost = spent([(simulation.plan.event(0), paid)], 1e-5).epsilon  # pyright: ignore[reportAttributeAccessIssue]
    assert outcome.history.last("epsilon_max") == cost
    assert np.flatnonzero(np.diff(outcome.history["epsilon_max"])).tolist() == list(range(1, rounds - 1, 2))


def test_a_free_round_has_no_noise_and_a_charged_one_has() -> None:
    scales = simulate(recycled(4, 2)).history["noise_scale"]
    assert (scales > 0).tolist() == [True, False, True, False]


def test_a_free_round_follows_the_last_one_that_budgets_allow_and_then_the_run_ends() -> None:
    outcome = simulate(recycled(20, 3))
    assert len(outcome.models) == 6
    assert outcome.history["clients_with_budget"].tolist() == [5, 5, 5, 5, 0, 0]
    assert outcome.participations.tolist() == [3] * 5
    assert not np.array_equal(outcome.models[-1], outcome.models[-2]), "it does move the model"


def test_methods_that_look_at_records_in_every_round_have_no_free_one() -> None:
    for name, make in METHODS.items():
        simulation = replace(recycled(4, 2), algorithm=make(Setting(clients=5)))
        assert free_rounds(simulation).tolist() == [False, name == "DP-RADMM"] * 2


@pytest.mark.parametrize("name", METHODS)
def test_the_bounds_of_many_rounds_at_once_are_those_of_one_after_the_other(name: str) -> None:
    algorithm, rounds = METHODS[name](Setting(clients=5)), np.arange(1, 8)
    sizes = np.random.default_rng(0).uniform(1, 9, (7, 3))
    apart = [
        np.broadcast_to(algorithm.sensitivity(int(round), own), 3) for round, own in zip(rounds, sizes, strict=True)
    ]
    np.testing.assert_allclose(sensitivities(algorithm, rounds, sizes), apart, rtol=1e-14)


class Stepwise:
    """A formula of one round, which an array would mislead."""

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        return np.max(round) / batch_sizes


def test_a_formula_that_means_something_else_by_arrays_is_asked_round_by_round() -> None:
    found = sensitivities(cast(Any, Stepwise()), np.array([1, 2, 3]), np.array([1.0, 2.0]))
    assert found.tolist() == [[1.0, 0.5], [2.0, 1.0], [3.0, 1.5]]


@pytest.mark.parametrize("same", [False, True])
def test_a_course_that_is_planned_at_once_is_that_of_round_after_round(same: bool) -> None:
    simulation = replace(recycled(6, 7), same_participants=same, participants=3, min_participants=2)
    apart, together = (Spending(simulation.plan, 5, None, every_round=False) for _ in range(2))
    expected, found = Course(tuple(plan_rounds(simulation, apart))), plan_course(simulation, together)
    assert plan_course(simulation, together) is found, "and it is shared"
    for one, other in zip(expected.turns, found.turns, strict=True):
        assert one.chosen.tolist() == other.chosen.tolist()
        assert (one.round, one.clients_with_budget, one.free) == (other.round, other.clients_with_budget, other.free)
    assert (together.participations == 2 * apart.participations).all(), "two runs of it were counted"
    assert (together.last == apart.last).all()


def test_a_course_ends_where_budgets_do() -> None:
    simulation = recycled(20, 3)
    spending = Spending(simulation.plan, 5, None, every_round=False)
    assert len(plan_course(simulation, spending).turns) == 6
    assert spending.participations.tolist() == [3] * 5


def test_a_method_of_all_clients_stops_where_one_of_them_has_no_budget_left() -> None:
    class Closing(Recorded):
        def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
            return (round < 3) | (clients != 2)

    ring = Network(5, make_topology("ring", 5, 0.0, np.random.default_rng(0)))
    algorithm = replace(METHODS["DP-RADMM"](Setting(clients=5)), network=ring)
    outcome = simulate(recycled(9, 5, algorithm=algorithm, min_participants=5), gate=Closing())
    assert len(outcome.models) == 2


def test_who_takes_part_is_drawn_from_public_numbers_alone() -> None:
    """No release is made before all rounds are planned, and other records of the same number change nothing."""
    simulation = many(clients=20, participants=3, rounds=30)
    table = replace(simulation.tested, features=5.0 * simulation.tested.features, labels=1 - simulation.tested.labels)
    other = replace(simulation, shards=assign(table, np.arange(20), 20))
    assert [one.tolist() for one in chosen(simulation)] == [one.tolist() for one in chosen(other)]


def test_a_server_that_stops_by_looking_at_losses_makes_what_was_spent_no_bound() -> None:
    """It ends a run of Gaussian rounds once the loss is above epsilon of the rounds so far (docs/proofs/budgets.md)."""
    multiplier, rounds, delta, runs = 3.0, 20, 0.01, 100_000
    said = np.array([spent({Gaussian(multiplier): count}, delta).epsilon for count in range(1, rounds + 1)])
    draws = np.random.default_rng(0).standard_normal((runs, rounds))
    losses = np.cumsum(draws / multiplier + 0.5 / multiplier**2, axis=1)

    def excess(end: np.ndarray) -> tuple[float, float]:
        beyond = np.maximum(-np.expm1(said[end] - losses[np.arange(runs), end]), 0.0)
        return float(beyond.mean()), float(beyond.std() / np.sqrt(runs))

    above = losses > said
    looking, error = excess(np.where(above.any(axis=1), above.argmax(axis=1), rounds - 1))
    assert looking - 5.0 * error > 2.0 * delta
    fixed, error = excess(np.full(runs, 9))
    assert abs(fixed - delta) < 5.0 * error
