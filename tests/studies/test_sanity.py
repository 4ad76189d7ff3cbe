"""What a sceptic would check of every private method, by its name: no noise without a budget, no skill without one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd import run
from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.engine import Simulation, simulate
from fedspd.engine.numpy_engine import Draws, draw_round
from fedspd.privacy import PublishedPlan
from tests.support.small_runs import small_run

PRIVATE = [name for name, method in METHODS.items() if method.guarantee != "none"]
QUICK = ("fedspd", "dp-sgd", "dp-admm")
every_private_method = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PRIVATE]
)


def prepared(name: str, **changes: Any) -> Simulation:
    spared = {} if METHODS[name].needs.one_round else {"metrics__spent_every_round": False}
    config = small_run(name, metrics__lagrangian=False, **spared, **changes)
    return replace(prepare_experiment(config).simulation, objective_every=0)


def with_budget(simulation: Simulation, epsilon: float) -> Simulation:
    """Under a plan that only decides how much noise there is: epsilon of each round."""
    plan, sizes = simulation.plan, np.asarray(simulation.shards.sizes)
    easy = PublishedPlan(epsilon, plan.delta, plan.sampling, 0, sizes, plan.law)  # pyright: ignore[reportArgumentType]
    return replace(simulation, plan=easy)


def without_noise(simulation: Simulation) -> np.ndarray:
    """The last model of the same method, records and participants with draws of releases' noise that are all zero."""

    def silent(round: int, chosen: np.ndarray) -> Draws:
        drawn = draw_round(simulation, round, chosen)
        if drawn.noise.ndim == 3 or simulation.plan.law == "objective":  # whose two noises are new in every round
            return drawn._replace(noise=0 * drawn.noise)
        noise = drawn.noise.copy()  # what is drawn once and belongs to the objective stays
        noise[:, : simulation.algorithm.releases] = 0
        return drawn._replace(noise=noise)

    return simulate(simulation, drawn=silent).weights


@every_private_method
def test_with_budgets_going_to_infinity_a_method_approaches_its_non_private_self(name: str) -> None:
    simulation = prepared(name)
    itself = without_noise(with_budget(simulation, 1.0))
    assert np.abs(itself).max() > 1e-4, "it moved"
    away = [
        float(np.linalg.norm(simulate(with_budget(simulation, epsilon)).weights - itself))
        for epsilon in (1e2, 1e4, 1e6)
    ]
    # noise is inverse to the budget, and models are smooth functions of it but where a regularizer has kinks
    assert away[1] < away[0] / 30
    assert away[2] < away[1] / 30
    assert away[2] < 1e-2 * np.linalg.norm(itself)


@every_private_method
def test_with_budgets_going_to_zero_no_method_beats_the_majority_class_by_more_than_chance(name: str) -> None:
    summaries = [run(small_run(name, privacy__epsilon=1e-5, run__seed=seed)).summary for seed in range(6)]
    gains = np.array([summary["test_accuracy"] - summary["majority_accuracy"] for summary in summaries])
    assert gains.mean() <= 2 * gains.std(ddof=1) / len(gains) ** 0.5
    assert gains.max() < 0.02


def test_the_majority_is_beaten_at_a_usual_budget_so_that_not_beating_it_means_something() -> None:
    summary = run(small_run("fedspd", privacy__epsilon=1.0)).summary
    assert summary["test_accuracy"] > summary["majority_accuracy"] + 0.03
