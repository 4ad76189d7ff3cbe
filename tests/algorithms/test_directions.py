"""Where spherical noise is counted on in all its dimensions: what a record moves, and what a plan may assume of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.base import PerturbsObjective
from fedspd.algorithms.parts.objective_noise import TWO_RECORDS, perturbed_minimum
from fedspd.assemble import prepare_experiment
from fedspd.audit.replay import Shard
from fedspd.engine import simulate
from fedspd.privacy import WHOLE_SHARD, ProvedPlan, RecordSampling, plan_proved
from fedspd.privacy.accounting import Laplace, Minimizer
from fedspd.problem import (
    FlippedLabels,
    Huber,
    LeastSquares,
    Loss,
    Objective,
    Poisson,
    Softmax,
    SquaredHinge,
    SquaredL2,
)
from tests.algorithms.test_fedspd import random_shard
from tests.algorithms.test_fedspd_published import small_problem
from tests.support.algorithms.contract_methods import METHODS, Setting, small_run, whole_shard
from tests.support.small_runs import small_run as configured

COLUMNS = 3
LOSSES: list[Loss] = [Softmax(2), LeastSquares(), SquaredHinge(), FlippedLabels(0.2), Huber(0.4), Poisson(1.0, 0.3)]
LAPLACE = [name for name in METHODS if METHODS[name](Setting()).law != "gaussian" and "published" not in name]
PERTURBED = [name for name in LAPLACE if isinstance(METHODS[name](Setting()), PerturbsObjective)]


def slopes(objective: Objective, shard: Shard, points: np.ndarray) -> np.ndarray:
    """The gradient of a sub-problem at every point, one row each."""
    batches = shard.batches(np.arange(len(shard.labels))[None])
    argmin = perturbed_minimum(objective, 1.0, points[:1], 0.3, points[:1], batches, least=0.3)
    return np.array([np.ravel(argmin.slope(point[None])) for point in points])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), loss=st.sampled_from(LOSSES), clip_norm=st.sampled_from([0.3, 0.7, 5.0]))
def test_whatever_the_weights_a_replaced_record_moves_the_gradient_within_one_plane(
    seed: int, loss: Loss, clip_norm: float
) -> None:
    rng = np.random.default_rng(seed)
    shard, objective = random_shard(rng, 8), Objective(loss, SquaredL2(0.1), clip_norm)
    neighbor = shard.with_record(2, random_shard(rng, 1).features[0], int(rng.integers(2)))
    points = 3 * rng.standard_normal((12, COLUMNS, loss.outputs))
    moved = slopes(objective, shard, points) - slopes(objective, neighbor, points)
    sizes = np.linalg.svd(moved, compute_uv=False)
    assert np.all(sizes[TWO_RECORDS:] <= 1e-12)


def test_the_whole_plane_is_reached_so_one_direction_would_be_too_few() -> None:
    rows = np.eye(COLUMNS)
    shard = Shard(rows, np.array([0, 1, 0]))
    neighbor = shard.with_record(0, rows[1], 1)
    points = np.random.default_rng(0).standard_normal((12, COLUMNS, 2))
    objective = Objective(Softmax(2), SquaredL2(0.1), 5.0)
    moved = slopes(objective, shard, points) - slopes(objective, neighbor, points)
    assert np.linalg.svd(moved, compute_uv=False)[1] > 1e-2


@pytest.mark.parametrize("name", ["ddp-admm-dvp", "ddp-admm-pvp", "dp-madmm", "dp-radmm", "one-shot"])
def test_a_method_by_name_counts_on_its_own_weights_and_directions(name: str) -> None:
    experiment = prepare_experiment(configured(name))
    plan, simulation = experiment.plan, experiment.simulation
    assert isinstance(plan, ProvedPlan)
    event = plan.groups[0].event
    perturbs = isinstance(simulation.algorithm, PerturbsObjective)
    assert isinstance(event, Minimizer if perturbs else Laplace)
    assert event.dimension == np.prod(simulation.matrix)
    assert event.directions == (2 if perturbs else 1)


def planned(algorithm: Any, dimension: int, directions: int) -> ProvedPlan:
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    counted = whole_shard(algorithm, sizes)
    sampling = RecordSampling(
        WHOLE_SHARD, law=algorithm.law, jacobian=counted.jacobian, dimension=dimension, directions=directions
    )
    return plan_proved(4.0, 1e-5, sampling, sizes, 2)


def weights_of(algorithm: Any) -> int:
    plan = planned(algorithm, 2 * COLUMNS, 2)
    return int(np.prod(small_run(algorithm, plan).matrix))


@pytest.mark.parametrize("name", PERTURBED)
def test_a_plan_that_counts_on_fewer_directions_than_a_record_has_is_refused(name: str) -> None:
    algorithm = METHODS[name](Setting(clients=5))
    simulate(small_run(algorithm, planned(algorithm, weights_of(algorithm), 2)))
    with pytest.raises(RuntimeError, match="in more directions than its plan counts on"):
        simulate(small_run(algorithm, planned(algorithm, weights_of(algorithm), 1)))


@pytest.mark.parametrize("name", LAPLACE)
def test_a_plan_that_counts_on_more_weights_than_there_are_is_refused(name: str) -> None:
    algorithm = METHODS[name](Setting(clients=5))
    count = weights_of(algorithm)
    with pytest.raises(RuntimeError, match=f"there are {count} weights, its plan counts on noise on {count + 1}"):
        simulate(small_run(algorithm, planned(algorithm, count + 1, 2)))
