"""Computed minimizers of objectives with noise: how far off they may be, and the Gaussian that hides by how much."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd import InputError
from fedspd.algorithms.base import PerturbsObjective
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.parts.exactness import HALF, ROOM, bounded_pull, require_room
from fedspd.algorithms.parts.objective_noise import perturbed_minimum
from fedspd.assemble import prepare_experiment
from fedspd.audit.replay import attack
from fedspd.engine import draws
from fedspd.privacy import ProvedPlan
from fedspd.privacy.accounting import Gaussian, Laplace, Minimizer, delta_at, spent
from fedspd.privacy.accounting.minimizers import FAILS, gaussian_beside, longest_noise, minimizer_event
from fedspd.privacy.mechanism import objective
from fedspd.problem import LEFT, Objective, Softmax, SquaredL2, Unregularized
from fedspd.typing import Argmin, Batches
from tests.support.algorithms.contract_methods import METHODS, Setting
from tests.support.planted_twins import OffByTheShard
from tests.support.small_runs import small_run

PERTURBED = [name for name in METHODS if isinstance(METHODS[name](Setting()), PerturbsObjective)]
STEEP = Objective(Softmax(2), Unregularized(), 0.05)
RUNS, MULTIPLIER = 20_000, 0.02


# --- how far off -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PERTURBED)
def test_what_is_computed_is_a_hundred_times_as_close_as_the_second_noise_counts_on(name: str) -> None:
    found = attack(METHODS[name](Setting()), 1.0)
    assert found.survived
    assert found.miss < 0.01


def miss_of(off: float) -> float:
    """What a replay finds of a solver that is off by so many times what it may be, by the shard which way."""
    return attack(OffByTheShard(STEEP, 1.0, 1.0, off=off), 1.0).miss


def test_a_solver_that_is_as_far_off_as_it_may_be_survives_and_one_that_is_farther_off_does_not() -> None:
    assert miss_of(0.99) == pytest.approx(0.99, abs=1e-2)
    assert attack(OffByTheShard(STEEP, 1.0, 1.0, off=0.98), 1.0).survived
    assert not attack(OffByTheShard(STEEP, 1.0, 1.0, off=1.05), 1.0).survived


@pytest.mark.parametrize("name", PERTURBED)
def test_how_far_off_is_public_and_the_same_in_every_round(name: str) -> None:
    """A penalty that grows would ask for more digits than weights have."""
    algorithm, rng = METHODS[name](Setting()), np.random.default_rng(0)
    server, client, _ = algorithm.start(np.zeros((2, 3, 2)))
    known = set()
    for round in (1, 5, 99):
        shape = (2, 1, 8, 3)
        batches = Batches(rng.standard_normal(shape), rng.integers(0, 2, shape[:3]), np.full(2, 8.0))
        argmin, _ = algorithm.query(algorithm.broadcast(server, round), client, batches)
        known |= set(np.ravel(argmin.apart).tolist())
    assert len(known) == 1


# --- the Gaussian on it ----------------------------------------------------------------------------------------


def released(mechanism: Callable[..., Any], second: bool) -> np.ndarray:
    """Along which way the solver is off, given the exact minimizer: many releases of one of two neighbors."""
    algorithm = OffByTheShard(STEEP, 1.0, 1.0, off=1.0)
    labels = np.broadcast_to(np.array([0, 1, 1, 0, int(second)]), (RUNS, 1, 5))
    batches = Batches(np.full((RUNS, 1, 5, 3), 0.5), labels, np.full(RUNS, 5.0))
    _, client, _ = algorithm.start(np.zeros((RUNS, 3, 2)))
    query, _ = algorithm.query(algorithm.broadcast(np.zeros((3, 2)), 1), client, batches)
    exact = np.broadcast_to([[0.01, 0.0], [0.02, 0.01], [0.0, 0.0]], (RUNS, 3, 2))
    scale = MULTIPLIER * float(algorithm.sensitivity(1, 5.0))
    normals = draws.stream(7 + second, "noise").standard_normal((RUNS, 3, 2))
    drawn = np.stack([-np.asarray(query.slope(exact)) / scale, normals], axis=1)
    return (np.asarray(mechanism(query, scale, drawn).value) - exact)[:, 0, 0]


def leaked(mechanism: Callable[..., Any]) -> float:
    """The distance of two neighbors' releases given the exact minimizer, over what the charged multiplier allows."""
    first, second = (released(mechanism, side) for side in (False, True))
    deviation = np.sqrt((first.var() + second.var()) / 2)
    return abs(first.mean() - second.mean()) / max(deviation, 1e-300) * gaussian_beside(MULTIPLIER, 6)


def without_gaussian(query: Argmin, scale: Any, drawn: Any) -> Any:
    """A door that forgets the second noise."""
    return objective(query._replace(apart=0.0), scale, drawn)


def with_the_first_again(query: Argmin, scale: Any, drawn: Any) -> Any:
    """A door that takes the noise in the objective for the second one too."""
    return objective(query, scale, np.stack([drawn[:, 0], drawn[:, 0]], axis=1))


def test_given_the_exact_minimizer_a_solver_that_is_off_leaks_all_that_its_gaussian_is_charged_for() -> None:
    assert leaked(objective) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("mechanism", [without_gaussian, with_the_first_again])
def test_without_a_noise_of_its_own_such_a_solver_tells_two_neighbors_apart_for_certain(
    mechanism: Callable[..., Any],
) -> None:
    assert leaked(mechanism) > 100


# --- what it costs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("multiplier", "jacobian", "rounds"), [(0.94531, 0.0, 5), (3.0, 0.001, 100), (0.5, 0.2, 1)])
def test_the_second_noise_costs_less_than_a_thousandth_of_epsilon(
    multiplier: float, jacobian: float, rounds: int
) -> None:
    exact = spent({Laplace(multiplier, jacobian, "replace-one", 162, 2): rounds}, 1e-5).epsilon
    computed = spent({minimizer_event(multiplier, jacobian, 162, 2): rounds}, 1e-5).epsilon
    assert exact < computed < 1.001 * exact


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("beside", [2.0, 300.0])
def test_a_computed_minimizer_costs_what_an_exact_one_and_a_gaussian_release_do(beside: float, accountant: Any) -> None:
    apart = {Laplace(0.9, 0.01, "replace-one", 162, 2): 5, Gaussian(beside): 5}
    together = {Minimizer(0.9, beside, 0.01, 162, 2): 5}
    assert spent(together, 1e-5, accountant).epsilon == pytest.approx(spent(apart, 1e-5, accountant).epsilon, rel=1e-3)
    assert spent(together, 1e-5, accountant).epsilon >= spent(apart, 1e-5, accountant).epsilon * (1 - 1e-9)
    assert delta_at(together, 1.0, accountant) >= delta_at(apart, 1.0, accountant) * (1 - 1e-9)


def test_delta_pays_for_noise_that_is_longer_than_a_solver_counts_on() -> None:
    charged = 3 * (1 + np.exp(40.0)) * FAILS
    assert delta_at({Minimizer(9.0, 1e9, 0.0, 162, 2): 3}, 40.0) == pytest.approx(charged)
    assert spent({Minimizer(9.0, 1e9, 0.0, 162, 2): 10**6}, 1e-25, "rdp").epsilon == np.inf
    assert spent({Minimizer(9.0, 1e9, 0.0, 162, 2): 1}, 1e-25).epsilon < np.inf


@pytest.mark.parametrize("dimension", [1, 6, 162, 20_000])
def test_noise_is_hardly_ever_longer_than_what_it_is_said_not_to_exceed(dimension: int) -> None:
    """By the law of its length, and not by much more than it must be."""
    from scipy.special import gammaincc, gammainccinv

    assert gammaincc(dimension, longest_noise(dimension)) <= FAILS
    assert longest_noise(dimension) < 1.6 * gammainccinv(dimension, FAILS)


# --- room for it -----------------------------------------------------------------------------------------------


def room_of(problem: Objective, batches: Batches) -> float:
    """The longest pull that nothing shortens."""
    return float(np.linalg.norm(bounded_pull(problem, 1.0, 0.1, np.full((1, 3, 2), 1e30), batches)))


def test_half_of_the_room_is_for_the_pull_and_the_other_half_for_the_noise() -> None:
    problem, rng = Objective(Softmax(2), SquaredL2(0.01), 0.5), np.random.default_rng(0)
    batches = Batches(rng.standard_normal((1, 1, 50, 3)), np.zeros((1, 1, 50), int), np.full(1, 50.0))
    room, zero = room_of(problem, batches), np.zeros((1, 3, 2))
    argmin = perturbed_minimum(problem, 1.0, zero, 0.1, zero + 1e30, batches, least=0.1)
    without = perturbed_minimum(problem, 1.0, zero, 0.1, zero, batches, least=0.1)
    pull = np.asarray(without.slope(zero)) - np.asarray(argmin.slope(zero))
    assert np.linalg.norm(pull) == pytest.approx(HALF * room)
    noise = (problem, 1.0, 0.11, 50, np.full(1, 50.0), 3)
    require_room(*noise, 0.999 * HALF * room)
    with pytest.raises(InputError, match=r"noise in sub-problems must leave them solvable.*raise algorithm.penalty"):
        require_room(*noise, 1.001 * HALF * room)


def test_a_run_whose_noise_leaves_no_room_is_refused_with_a_remedy() -> None:
    config = small_run("one-shot", algorithm__penalty=0.01, problem__strength=0.0001, privacy__noise_multiplier=1e5)
    with pytest.raises(InputError, match="noise in sub-problems must leave them solvable"):
        prepare_experiment(config)


@pytest.mark.parametrize("epsilon", [1e-3, 0.03, 1.0])
@pytest.mark.parametrize("name", ["one-shot", "dp-madmm"])
def test_the_rules_leave_room_for_the_noise(name: str, epsilon: float) -> None:
    experiment = prepare_experiment(small_run(name, privacy__epsilon=epsilon))
    plan = experiment.plan
    assert isinstance(plan, ProvedPlan)
    event = plan.groups[0].event
    assert isinstance(event, Minimizer)
    assert event == minimizer_event(event.noise_multiplier, event.jacobian, event.dimension, 2)


def test_the_room_that_is_asked_for_at_least_is_more_than_usual_noise_needs() -> None:
    usual = 2 * 1.0 / 300 * longest_noise(162)  # a multiplier of 1, 300 records, gradients of norm 1
    assert usual < HALF * ROOM


def test_what_is_left_of_a_minimizer_is_what_the_solver_promises() -> None:
    zero = np.zeros((1, 3, 2))
    batches = Batches(np.ones((1, 1, 4, 3)), np.zeros((1, 1, 4), int), np.full(1, 4.0))
    argmin = perturbed_minimum(replace(STEEP, regularizer=SquaredL2(0.2)), 1.0, zero, 0.3, zero, batches, least=0.1)
    assert np.ravel(argmin.apart) == pytest.approx(LEFT / 0.3)
    assert OneShot(STEEP, 0.5, 1.0).noise.curvature == 0.5
