"""Without privacy the methods learn; those of Table 1 and rivals beside it in `test_table_one` and `test_rivals`."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from fedspd.engine import simulate
from fedspd.engine.measuring.diagnostics import objectives
from fedspd.privacy import WITHOUT_REPLACEMENT, plan_as_published
from fedspd.problem import L1, Objective, Regularizer, Softmax, SquaredL2
from tests.algorithms.test_fedspd_published import small_problem
from tests.support.algorithms.contract_methods import METHODS, Setting, small_run
from tests.support.optima import known_optimum

SMOOTH, SPARSE, ROUNDS_TO_CONVERGE = SquaredL2(0.01), L1(0.03), 250
CONVERGENCE: dict[str, tuple[Regularizer, float, float]] = {
    # regularizer, γ, ρ or μ; an average of proximal points, or a subgradient, needs a smooth regularizer
    "FedSPD-DP": (SPARSE, 0.1, 0.02),
    "FedSPD-DP from the client's own point": (SPARSE, 0.1, 0.02),
    "FedSPD-DP as published": (SPARSE, 0.1, 0.02),
    "DP-SGD": (SPARSE, 0.05, 0.0),
    "DP-FedAvg": (SMOOTH, 0.05, 0.0),
    "DP-FedAvg as published": (SMOOTH, 0.05, 0.0),
    "DP-FedProx": (SMOOTH, 0.04, 0.01),
    "DP-ADMM": (SMOOTH, 0.1, 0.02),
    "FedPD": (SPARSE, 0.1, 0.02),
}


def gap_at_the_end(name: str, regularizer: Regularizer, gamma: float, penalty: float) -> float:
    """Objective above the optimum of scikit-learn, without noise, with all records of all clients."""
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    plan = plan_as_published(inf, "round", 1e-4, WITHOUT_REPLACEMENT, 1, sizes, ROUNDS_TO_CONVERGE)
    objective = Objective(Softmax(2), regularizer, inf)
    algorithm = METHODS[name](Setting(objective, gamma=gamma, penalty=penalty, clients=5, grows=False))
    run = replace(small_run(algorithm, plan, ROUNDS_TO_CONVERGE), objective_every=ROUNDS_TO_CONVERGE)
    best = known_optimum(run)
    at_zero, least = objectives(objective, run.shards, np.stack([0 * best, best]))
    assert at_zero - least > 0.1, "the start must not be the optimum already"
    assert np.any(np.abs(best) < 1e-12) == (regularizer is SPARSE), "l1 must matter where it is used"
    return float(simulate(run).history.last("objective") - least)


@pytest.mark.parametrize("name", CONVERGENCE)
def test_without_noise_and_with_all_records_of_all_clients_a_method_reaches_the_optimum(name: str) -> None:
    """A tenth of the regularizer more or less would leave 2e-3."""
    assert abs(gap_at_the_end(name, *CONVERGENCE[name])) < 1e-6


def test_the_average_of_proximal_points_in_fedavg_misses_the_optimum_of_an_l1_problem() -> None:
    """Each client thresholds its own gradient, and a mean of thresholded points is not their mean thresholded."""
    assert gap_at_the_end("DP-FedAvg", SPARSE, 0.05, 0.0) > 1e-3
