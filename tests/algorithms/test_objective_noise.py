"""Noise in the objective costs what is claimed: determinants, and densities of what is released, on both shards."""

from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.base import PerturbsObjective, at_weights
from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.objective_noise import determinant_loss, perturbed_minimum
from fedspd.algorithms.parts.topology import Topology
from fedspd.audit.replay import Shard
from fedspd.engine import draws
from fedspd.engine.client_tables import gather, heard
from fedspd.problem import (
    LEFT,
    FlippedLabels,
    LeastSquares,
    Loss,
    Objective,
    Poisson,
    Regularizer,
    Softmax,
    SquaredL2,
    Unregularized,
)
from fedspd.typing import Argmin
from tests.algorithms.test_fedspd import bounded, random_shard
from tests.support.algorithms.contract_methods import CONSENSUS, LOSSES, METHODS, PROVED, Setting
from tests.support.planted_twins import HalfTheSensitivity

COLUMNS, MULTIPLIER = 3, 1.0
PERTURBED = [name for name in METHODS if isinstance(METHODS[name](Setting()), PerturbsObjective)]
PATH = Network(3, Topology("path", ((1,), (0, 2), (1,))))  # degrees 1, 2, 1


def whole(shard: Shard) -> Any:
    return shard.batches(np.arange(len(shard.labels))[None])


def hessian(objective: Objective, curvature: float, shard: Shard, weights: np.ndarray) -> np.ndarray:
    """The second derivative of the sub-problem, from what the loss says of bends; none where a record is clipped."""
    loss = objective.loss
    scores = shard.features @ loss.contrast(weights)
    norms = np.linalg.norm(shard.features, axis=1) * np.abs(loss.slopes(scores, shard.labels)[:, 0])
    bends = np.where(np.sqrt(loss.stretch) * norms > objective.clip_norm, 0.0, loss.bends(scores, shard.labels))
    along = np.array([loss.spread(row[:, None]).ravel() for row in shard.features])
    strength = objective.regularizer.strength if isinstance(objective.regularizer, SquaredL2) else 0.0
    return (along.T * bends) @ along / len(bends) + (curvature + strength) * np.eye(along.shape[1])


def measured_hessian(argmin: Argmin, weights: np.ndarray) -> np.ndarray:
    """The same by differences of the slope."""
    step, found = 1e-5, []
    for place in range(weights.size):
        away = step * (np.arange(weights.size) == place).reshape(weights.shape)
        found.append(np.ravel(argmin.slope((weights + away)[None]) - argmin.slope((weights - away)[None])) / (2 * step))
    return np.array(found)


def log_determinant(matrix: np.ndarray) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def log_ratio(objective: Objective, curvature: float, shard: Shard, neighbor: Shard, weights: np.ndarray) -> float:
    one, other = (log_determinant(hessian(objective, curvature, side, weights)) for side in (shard, neighbor))
    return one - other


# --- determinants --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [*LOSSES, FlippedLabels(0.2)], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("clip_norm", [0.6, inf])
def test_the_second_derivative_of_what_is_minimized_is_what_the_loss_says_of_its_bends(
    loss: Loss, clip_norm: float
) -> None:
    rng = np.random.default_rng(3)
    objective, shard = Objective(loss, SquaredL2(0.1), clip_norm), random_shard(rng, 20)
    weights = rng.standard_normal((COLUMNS, loss.outputs))
    argmin = perturbed_minimum(objective, 1.0, weights[None], 0.2, weights[None], whole(shard), least=0.2)
    expected = hessian(objective, 0.2, shard, weights)
    np.testing.assert_allclose(measured_hessian(argmin, weights), expected, atol=1e-8)
    assert clip_norm == inf or 0 < np.asarray(argmin.clipped)[0] < 1, "some are clipped, some are not"


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([*LOSSES, FlippedLabels(0.2)]),
    regularizer=st.sampled_from([Unregularized(), SquaredL2(0.5)]),
    clip_norm=st.sampled_from([0.1, 0.7, inf]),
    curvature=st.sampled_from([1e-3, 0.1, 10.0]),
    records=st.sampled_from([1, 2, 8]),
)
def test_the_ratio_of_determinants_is_never_more_than_the_loss_that_is_claimed(
    seed: int, loss: Loss, regularizer: Regularizer, clip_norm: float, curvature: float, records: int
) -> None:
    """Ten neighbors and weights for each draw."""
    rng = np.random.default_rng(seed)
    objective = Objective(loss, regularizer, clip_norm)
    bound = determinant_loss(objective, 1.0, records, curvature)
    for _ in range(10):
        shard = random_shard(rng, records)
        neighbor = shard.with_record(0, bounded(rng.standard_normal((1, COLUMNS)) * 3, 1.0)[0], int(rng.integers(2)))
        weights = rng.standard_normal((COLUMNS, loss.outputs)) * rng.choice([0.1, 1.0, 10.0])
        assert abs(log_ratio(objective, curvature, shard, neighbor, weights)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("row_norm", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("regularizer", [Unregularized(), SquaredL2(0.5)], ids=["none", "squared"])
def test_a_long_row_where_the_loss_is_most_curved_against_a_null_row_attains_it_and_twice_as_much_is_published(
    loss: Loss, row_norm: float, regularizer: Regularizer
) -> None:
    objective, records, curvature = Objective(loss, regularizer, inf), 5, 0.02
    null = Shard(np.zeros((records, COLUMNS)), np.zeros(records, int))
    one = null.with_record(0, row_norm * np.eye(COLUMNS)[0], 0)
    weights = np.zeros((COLUMNS, loss.outputs))
    if isinstance(loss, Poisson):  # just below its highest rate
        weights[0] = (log(loss.most / loss.center) - 1e-9) / row_norm
    measured = log_ratio(objective, curvature, one, null, weights)
    claimed = determinant_loss(objective, row_norm, records, curvature)
    assert 0.99 * claimed < measured <= claimed * (1 + 1e-9)
    strength = 0.5 if isinstance(regularizer, SquaredL2) else 0.0
    published = 2 * log(1 + loss.curvature * row_norm**2 / (records * (curvature + strength)))
    assert measured == pytest.approx(published / 2)


@pytest.mark.parametrize("name", CONSENSUS)
def test_on_a_graph_the_curvature_that_is_counted_on_is_that_of_the_client_with_fewest_neighbors(name: str) -> None:
    """A client with more is held by more. Without records the second derivative is the curvature alone."""
    rng = np.random.default_rng(0)
    algorithm = replace(METHODS[name](Setting()), network=PATH)
    server, clients, _ = algorithm.start(np.zeros((3, COLUMNS, 2)))
    told = algorithm.broadcast(rng.standard_normal(server.shape), 1)
    null = Shard(np.zeros((4, COLUMNS)), np.zeros(4, int))
    held = []
    for client in range(3):
        place = np.array([client])
        alone = gather(clients, place)
        released = []
        for pull in (0.0, 1.0):  # a slope of 1 moves a minimizer by one over the curvature
            tilted = alone._replace(dual=alone.dual + pull)
            query, _ = algorithm.query(heard(told, place), tilted, whole(null))
            released.append(query.under(0.0 * alone.weights) if isinstance(query, Argmin) else query.value)
        held.append(2 / np.mean(np.asarray(released[0]) - np.asarray(released[1])))
    least = min(held)
    assert held[1] > 1.2 * least
    if isinstance(algorithm, PerturbsObjective):
        assert algorithm.jacobian([9, 4, 7]) == pytest.approx(log(1 + 0.5 / (4 * least)))
    elif name in PROVED:
        assert algorithm.sensitivity(1, 4.0) == pytest.approx(2 * 0.7 * (1 + LEFT) / (4 * least))


# --- densities -----------------------------------------------------------------------------------------------


def density_loss(algorithm: Any, told: Any, client: Any, shard: Shard, neighbor: Shard, released: Any) -> float:
    """ln of the ratio of the densities with which the two shards release the same minimizer, by differences."""
    scale = MULTIPLIER * float(algorithm.sensitivity(1, float(len(shard.labels))))
    found = []
    for side in (shard, neighbor):
        argmin, _ = algorithm.query(told, client, whole(side))
        curved = log_determinant(measured_hessian(argmin, np.asarray(released)[0]))
        found.append(curved - float(np.linalg.norm(argmin.slope(released))) / scale)
    return found[0] - found[1]


def claimed_loss(algorithm: Any, records: int) -> float:
    """What an event of this multiplier and determinant costs."""
    return 1 / MULTIPLIER + algorithm.jacobian([records])


@pytest.mark.parametrize("name", PERTURBED)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), records=st.sampled_from([1, 3]), loss=st.sampled_from([Softmax(2), LeastSquares()]))
def test_two_shards_release_the_same_minimizer_with_densities_that_differ_by_no_more_than_epsilon(
    name: str, seed: int, records: int, loss: Loss
) -> None:
    """Minimizers as the first shard releases them, ten for each pair of shards in two columns."""
    rng = np.random.default_rng(seed)
    algorithm = METHODS[name](Setting(Objective(loss, Unregularized(), 0.3 + rng.random()), penalty=0.05))
    server, client, _ = algorithm.start(np.zeros((1, 2, loss.outputs)))
    told = algorithm.broadcast(at_weights(server, rng.standard_normal((2, loss.outputs))), 1)
    rows = bounded(rng.standard_normal((records + 1, 2)) * 3, 1.0)
    shard = Shard(rows[:-1], rng.integers(0, 2, records))
    neighbor = shard.with_record(0, rows[-1], int(rng.integers(2)))
    epsilon, argmin = claimed_loss(algorithm, records), algorithm.query(told, client, whole(shard))[0]
    scale = MULTIPLIER * float(algorithm.sensitivity(1, float(records)))
    for noise in scale * draws.unit_noise(rng, "laplace", (10, 1, 2, loss.outputs)):
        loss_there = density_loss(algorithm, told, client, shard, neighbor, argmin.under(noise))
        assert loss_there <= epsilon * (1 + 1e-6)


@dataclass(frozen=True)
class DeterminantForgotten(OneShot):
    """Charged as if noise were added to a query."""

    def jacobian(self, batch_sizes: Any) -> float:
        return 0.0


@dataclass(frozen=True)
class CurvatureCountedTwice(OneShot):
    """More curvature in the formula than in the problem."""

    def jacobian(self, batch_sizes: Any) -> float:
        return determinant_loss(self.objective, self.row_norm, float(min(batch_sizes)), 2 * self.penalty)


def worst_loss(kind: type[OneShot]) -> float:
    """Over what is claimed. The gradient of one record is just not clipped and the problem curved; that of the other
    is clipped, the opposite, and the problem is not."""
    algorithm = kind(Objective(LeastSquares(), Unregularized(), 0.5), 0.1, 1.0)
    null = Shard(np.zeros((4, 2)), np.zeros(4))
    released, row = np.array([[[10.0], [0.0]]]), np.eye(2)[0]
    first, second = (null.with_record(0, row, label) for label in (10.499, 9.0))  # pyright: ignore[reportArgumentType]
    _, client, _ = algorithm.start(np.zeros((1, 2, 1)))
    told = algorithm.broadcast(np.zeros((2, 1)), 1)
    return density_loss(algorithm, told, client, first, second, released) / claimed_loss(algorithm, 4)


def test_the_epsilon_of_noise_in_the_objective_is_attained() -> None:
    assert 0.99 < worst_loss(OneShot) <= 1.0


@pytest.mark.parametrize("kind", [DeterminantForgotten, HalfTheSensitivity, CurvatureCountedTwice])
def test_a_smaller_claim_is_found_out_by_densities(kind: type[OneShot]) -> None:
    assert worst_loss(kind) > 1.1


def test_the_method_with_noise_on_the_dual_costs_what_one_shot_does_where_their_curvature_is_the_same() -> None:
    objective = Objective(Softmax(2), SquaredL2(0.1), 0.5)
    dual, shot = DDPADMMDual(objective, Network(4), 0.3, 1.0), OneShot(objective, 0.3, 1.0)
    assert dual.jacobian([7, 5]) == shot.jacobian([7, 5]) == pytest.approx(log(1 + 0.5 / (5 * 0.4)))
