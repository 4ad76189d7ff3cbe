"""The engine: reproducible, incremental where it says so, and convergent where it must be."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from fedspd import config
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.assemble import prepare_experiment
from fedspd.engine import Simulation, convergence, simulate
from fedspd.engine.measuring.diagnostics import local_objectives, objectives
from fedspd.privacy import WITHOUT_REPLACEMENT, PublishedPlan
from fedspd.problem import L1, LeastSquares, Objective, Softmax, SquaredHinge
from tests.algorithms.test_fedspd_published import published, simulation, small_problem
from tests.support.optima import known_optimum


def test_the_same_seed_gives_bit_identical_runs_and_another_seed_does_not() -> None:
    first, second = (simulate(simulation(WITHOUT_REPLACEMENT, 2, 5)) for _ in range(2))
    for column in first.history.columns:
        np.testing.assert_array_equal(first.history[column], second.history[column])
    np.testing.assert_array_equal(first.models, second.models)
    other = simulate(replace(simulation(WITHOUT_REPLACEMENT, 2, 5), seed=6))
    assert not np.array_equal(first.weights, other.weights)


@pytest.mark.parametrize("loss", [Softmax(2), LeastSquares(), SquaredHinge()])
def test_the_incremental_lagrangian_equals_its_definition(loss: Softmax | LeastSquares | SquaredHinge) -> None:
    run = simulation(WITHOUT_REPLACEMENT, 2, 5)
    objective = Objective(loss, L1(0.02), 1.0)
    outcome = simulate(replace(run, algorithm=replace(published(run), objective=objective)))
    trace, rho, x0 = outcome.lagrangian, run.algorithm.penalty, outcome.weights
    difference = x0 - trace.weights
    direct = (
        local_objectives(objective, run.shards, np.arange(6), trace.weights).sum()
        + np.sum(trace.dual * difference)
        + rho / 2 * np.sum(difference**2)
    )
    assert outcome.history.last("alfv") == pytest.approx(direct, abs=1e-10)
    assert outcome.history.last("alfv_per_client") == pytest.approx(direct / 6, abs=1e-10)
    rms = np.sqrt(np.mean(np.sum(difference**2, axis=(1, 2))))
    assert outcome.history.last("consensus_error") == pytest.approx(rms, abs=1e-8)


def test_evaluating_local_losses_in_small_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulate(simulation(WITHOUT_REPLACEMENT, 2, 5)).history
    monkeypatch.setattr("fedspd.engine.measuring.diagnostics.PENDING", 1)
    monkeypatch.setattr("fedspd.engine.measuring.diagnostics.BLOCK", 7)
    pieces = simulate(simulation(WITHOUT_REPLACEMENT, 2, 5)).history
    for column in ("alfv", "objective", "test_accuracy"):
        np.testing.assert_allclose(whole[column], pieces[column], atol=1e-12)


def test_recorded_objective_and_accuracy_are_those_of_the_server_model_after_the_round() -> None:
    run = simulation(WITHOUT_REPLACEMENT, 3, 5)
    outcome = simulate(run)
    for round in (0, 5, 11):
        model = outcome.models[round]
        direct = local_objectives(
            run.algorithm.objective, run.shards, np.arange(6), np.repeat(model[None], 6, axis=0)
        ).sum()
        assert outcome.history["objective"][round] == pytest.approx(direct, abs=1e-11)
        predicted = np.argmax(run.tested.features @ model, axis=1)
        assert outcome.history["test_accuracy"][round] == np.mean(predicted == run.tested.labels)


def test_the_average_for_the_criterion_repeats_the_last_value_of_a_client_that_sat_out() -> None:
    run = simulation(WITHOUT_REPLACEMENT, 2, 1)
    by_round = [simulate(replace(run, rounds=rounds)).lagrangian.weights for rounds in range(1, run.rounds + 1)]
    np.testing.assert_allclose(simulate(run).lagrangian.average(run.rounds), np.mean(by_round, axis=0), atol=1e-12)


def test_epsilon_follows_each_clients_realized_participations() -> None:
    run = simulation(WITHOUT_REPLACEMENT, 2, 5)
    outcome = simulate(run)
    spent = run.plan.spent(np.arange(6), outcome.participations)
    assert outcome.participations.sum() == run.rounds * 2
    assert outcome.history.last("epsilon_max") == pytest.approx(spent.max())
    assert outcome.history.last("epsilon_mean") == pytest.approx(spent.mean())


def full_batch(rounds: int, rho: float, gamma: float) -> Simulation:
    """No noise, every record, every client, l1, on equal shards."""
    shards, table = small_problem(seed=3, clients=5)
    size = int(shards.sizes.min())
    keep = np.concatenate([np.arange(a, a + size) for a in shards.offsets[:-1]])
    equal = replace(
        shards, features=shards.features[keep], labels=shards.labels[keep], offsets=np.arange(6) * size,
        order=np.arange(5 * size),
    )  # fmt: skip
    run = simulation(WITHOUT_REPLACEMENT, 5, 1)
    objective = Objective(Softmax(2), L1(0.15), clip_norm=inf)
    algorithm = replace(published(run), objective=objective, clients=5, penalty=rho, schedule=Constant(gamma))
    return replace(
        run, shards=equal, test=table, algorithm=algorithm,
        plan=PublishedPlan(inf, 1e-4, WITHOUT_REPLACEMENT, size, np.full(5, size)),
        batch_size=size, participants=5, rounds=rounds,
    )  # fmt: skip


def test_without_noise_full_batches_and_full_participation_reach_the_optimum_of_the_l1_problem() -> None:
    run = full_batch(rounds=3000, rho=0.1, gamma=2.0)
    outcome = simulate(run)
    best = known_optimum(run)
    least = objectives(run.algorithm.objective, run.shards, best[None])[0]
    assert 0 <= outcome.history.last("objective") - least + 1e-6 <= 1e-4
    assert outcome.history["objective"][0] - least > 0.05, "the start must not be the optimum already"
    assert np.count_nonzero(np.abs(best) < 1e-12) > 0, "the problem must be one where l1 matters"
    measured = convergence(run, outcome, None, 1.0, best)
    assert measured.bound is None
    assert measured.criterion is not None
    assert 0 <= measured.criterion < 0.1


@pytest.mark.slow
def test_on_adult_the_method_without_noise_comes_within_1e_4_of_scikit_learns_objective() -> None:
    experiment = prepare_experiment(
        config.load(
            "published",
            {
                "partition.clients": 5, "run.participants": 5, "problem.strength": 0.1, "problem.clip_norm": inf,
                "algorithm.local_steps": 1, "algorithm.batch_size": 6512, "algorithm.penalty": 0.1,
                "algorithm.inverse_step": 1.0, "privacy.epsilon": inf, "run.rounds": 450,
                "metrics.objective_every": 450,
            },
        )
    )  # fmt: skip
    run = experiment.simulation
    outcome = simulate(run)
    least = objectives(run.algorithm.objective, run.shards, known_optimum(run)[None])[0]
    assert abs(outcome.history.last("objective") - least) <= 1e-4


def test_the_published_preset_stays_below_the_majority_class_and_says_which_conditions_fail() -> None:
    """The paper's own constants: gamma near 800 sqrt(t) lets nothing move (measured: |x0| about 0.01)."""
    from fedspd import run

    summary = run("published").summary
    assert summary["test_accuracy"] <= summary["majority_accuracy"]
    assert summary["weights_norm"] < 0.02
    assert not summary["convergence"].conditions["penalty >= sqrt(inverse_step)"].holds
    assert summary["convergence"].criterion <= summary["convergence"].bound
