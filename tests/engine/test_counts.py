"""What counts the same in the objective, every client or every record: losses, gradients and optimum agree on it."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.data import Shards
from fedspd.engine import Simulation, simulate
from fedspd.engine.draws import whole_shards
from fedspd.engine.measuring.diagnostics import Lagrangian, local_objectives, objectives
from fedspd.engine.numpy_engine import draw_round
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling, plan_proved
from fedspd.problem import L1, Objective, Softmax
from tests.engine.test_whole_shards import COLUMNS, gathered, whole, without_noise
from tests.support.optima import known_optimum

CLIENTS = 9
Counts = Literal["clients", "records"]
WEIGHTS = np.random.default_rng(7).standard_normal((COLUMNS, 2))


def free(counts: Counts, strength: float = 0.01) -> Simulation:
    """Unequal shards, gradients that are never clipped."""
    run = whole(CLIENTS, CLIENTS, 1, counts)
    assert isinstance(run.algorithm, FedSPD)
    return replace(run, algorithm=replace(run.algorithm, objective=Objective(Softmax(2), L1(strength), 10.0)))


def mean_losses(shards: Shards, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss of every record by hand, and its client."""
    scores = shards.features @ weights
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), shards.labels]
    return losses, np.repeat(np.arange(CLIENTS), shards.sizes)


@pytest.mark.parametrize("counts", ["clients", "records"])
def test_the_objective_is_a_sum_over_clients_of_means_or_a_mean_over_records(counts: Counts) -> None:
    run = free(counts)
    losses, owner = mean_losses(run.shards, WEIGHTS)
    data = CLIENTS * losses.mean() if counts == "records" else sum(losses[owner == i].mean() for i in range(CLIENTS))
    expected = data + CLIENTS * 0.01 * np.abs(WEIGHTS).sum()
    found = objectives(run.algorithm.objective, run.shards, WEIGHTS[None])[0]
    assert found == pytest.approx(expected, rel=1e-12)
    everyone = np.arange(CLIENTS)
    parts = local_objectives(run.algorithm.objective, run.shards, everyone, np.repeat(WEIGHTS[None], CLIENTS, axis=0))
    assert parts.sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("counts", ["clients", "records"])
def test_the_clients_gradients_add_up_to_that_of_the_objective(counts: Counts) -> None:
    run = free(counts)
    everyone = np.arange(CLIENTS)
    batches = gathered(run, everyone, whole_shards(np.random.default_rng(0), run.shards.sizes, 1))
    stacked = np.repeat(WEIGHTS[None], CLIENTS, axis=0)
    features, labels = (np.asarray(part)[:, 0] for part in (batches.features, batches.labels))
    gradient = np.asarray(run.algorithm.objective.gradient(stacked, features, labels, batches.divisors).mean).sum(
        axis=0
    )
    regularized = run.algorithm.objective.regularizer.value

    def smooth(weights: np.ndarray) -> float:
        return float(objectives(run.algorithm.objective, run.shards, weights[None])[0]) - CLIENTS * regularized(weights)

    for place in np.ndindex(WEIGHTS.shape):
        step = np.zeros_like(WEIGHTS)
        step[place] = 1e-5
        slope = (smooth(WEIGHTS + step) - smooth(WEIGHTS - step)) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("counts", ["clients", "records"])
@pytest.mark.parametrize("local_steps", [1, 3])
def test_batches_of_a_pass_add_up_to_the_gradient_of_the_whole_shard(local_steps: int, counts: Counts) -> None:
    """The mean over the steps of what they divide by Q-th parts is the same gradient, whatever the batches."""
    run = free(counts)
    stepped = replace(run, algorithm=replace(run.algorithm, local_steps=local_steps))  # pyright: ignore
    everyone, stacked = np.arange(CLIENTS), np.repeat(WEIGHTS[None], CLIENTS, axis=0)
    found = []
    for sim, steps in ((run, 1), (stepped, local_steps)):
        batches = gathered(sim, everyone, whole_shards(np.random.default_rng(1), sim.shards.sizes, steps))
        features, labels = np.asarray(batches.features), np.asarray(batches.labels)
        gradients = [
            run.algorithm.objective.gradient(stacked, features[:, step], labels[:, step], batches.divisors).mean
            for step in range(steps)
        ]
        found.append(np.mean(np.asarray(gradients), axis=0))
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)


def test_of_ten_drawn_records_each_stands_for_its_part_of_the_shard() -> None:
    run = replace(free("records"), batch_size=5)
    sizes = run.shards.sizes
    np.testing.assert_allclose(run.batch_sizes(np.arange(CLIENTS)), 5 * sizes.mean() / sizes, rtol=1e-14)
    assert (replace(free("clients"), batch_size=5).batch_sizes(np.arange(CLIENTS)) == 5).all()


def test_where_records_count_the_optimum_is_scikit_learns_on_all_records_together() -> None:
    run = free("records", strength=0.002)
    shards = run.shards
    # CLIENTS (mean loss + strength |x|_1) = (CLIENTS strength) (C sum of losses + |v|_1), v the difference of columns
    pooled = LogisticRegression(
        C=1 / (0.002 * len(shards.labels)), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-8,
        max_iter=10**4, random_state=0,
    )  # fmt: skip
    pooled.fit(shards.features, shards.labels)
    best = known_optimum(run)
    np.testing.assert_allclose(best[:, 1] - best[:, 0], pooled.coef_[0], rtol=1e-4)  # to the solvers' tolerance
    halves = np.stack([-pooled.coef_[0] / 2, pooled.coef_[0] / 2], axis=1)
    reached, least = objectives(run.algorithm.objective, run.shards, np.stack([best, halves]))
    assert reached == pytest.approx(least, rel=1e-8)
    assert np.abs(best).max() > 0.5, "the optimum must not be zero, which all problems share"
    by_clients = known_optimum(free("clients", strength=0.002))
    assert np.abs(best - by_clients).max() > 1e-2, "the two problems must differ for this to mean anything"


@pytest.mark.parametrize("counts", ["clients", "records"])
def test_the_optimum_is_the_least_of_the_objective(counts: Counts) -> None:
    run = free(counts, strength=0.002)
    best = known_optimum(run)
    rng = np.random.default_rng(3)
    near = best + 0.05 * rng.standard_normal((200, *best.shape))
    values = objectives(run.algorithm.objective, run.shards, np.concatenate([best[None], near]))
    assert values[0] < values[1:].min()


def test_without_noise_clients_that_count_by_records_agree_on_the_pooled_optimum() -> None:
    run = free("records", strength=0.002)
    silent = plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD), np.asarray(run.shards.sizes), 1500, 0.0, 0.01)
    assert isinstance(run.algorithm, FedSPD)
    algorithm = replace(run.algorithm, penalty=0.05, inverse_step=0.4)
    run = replace(run, plan=silent, algorithm=algorithm, rounds=1500, objective_every=1500)
    outcome = simulate(run, drawn=lambda *turn: without_noise(draw_round(run, *turn)))
    least = objectives(run.algorithm.objective, run.shards, known_optimum(run)[None])[0]
    assert outcome.history.last("objective") - least < 1e-4 * least


def test_the_lagrangian_begins_at_the_objective_of_zero(free_counts: Counts) -> None:
    run = free(free_counts)
    zeros = np.zeros((CLIENTS, COLUMNS, 2))
    trace = Lagrangian(run.algorithm.objective, run.shards, 0.5, map, zeros, zeros)
    losses, _ = mean_losses(run.shards, np.zeros((COLUMNS, 2)))
    np.testing.assert_allclose(trace.local, run.shards.sizes * losses[0] / run.shards.divisors, rtol=1e-14)


@pytest.fixture(params=["clients", "records"])
def free_counts(request: pytest.FixtureRequest) -> Counts:
    return request.param


METHODS = {
    "fedspd": FedSPD(Objective(Softmax(2), L1(0.01), 0.5), CLIENTS, 0.5, 1, 2.0, 1.0),
    "dp-sgd": DPSGD(Objective(Softmax(2), L1(0.01), 0.5), Constant(2.0)),
    "dp-fedavg": DPFedAvg(FedAvg(Objective(Softmax(2), L1(0.01), 0.5), 1, Constant(2.0)), 1.0),
    "dp-admm": DPADMM(Objective(Softmax(2), L1(0.01), 0.5), CLIENTS, 0.5, Constant(2.0)),
}


@pytest.mark.parametrize("name", METHODS)
def test_where_records_count_one_of_them_moves_every_client_equally_far(name: str) -> None:
    everyone = np.arange(CLIENTS)
    equal, own = (METHODS[name].sensitivity(1, free(counts).batch_sizes(everyone)) for counts in ("records", "clients"))
    assert np.ptp(equal) == 0
    assert np.ptp(own) > 0
    sizes = free("records").shards.sizes
    np.testing.assert_allclose(own * sizes, equal * sizes.mean(), rtol=1e-12)


@pytest.mark.parametrize("counts", ["clients", "records"])
def test_replacing_a_record_moves_the_query_of_its_client_by_no_more_than_the_sensitivity(counts: Counts) -> None:
    """The worst pair for a gradient at zero: opposite rows, of the full norm, under the same label."""
    run = free(counts)
    everyone = np.arange(CLIENTS)
    records = whole_shards(np.random.default_rng(0), run.shards.sizes, 1)
    for name, method in METHODS.items():
        server, clients, _ = method.start(np.zeros((CLIENTS, COLUMNS, 2)))
        told = method.broadcast(server, 1)
        bound = method.sensitivity(1, run.batch_sizes(everyone)) * np.ones(CLIENTS)
        queries = []
        for sign in (1.0, -1.0):
            features = run.shards.features.copy()
            features[run.shards.offsets[:-1]] = sign * np.eye(COLUMNS)[0]
            labels = run.shards.labels.copy()
            labels[run.shards.offsets[:-1]] = 1
            changed = replace(run, shards=replace(run.shards, features=features, labels=labels))
            queries.append(np.asarray(method.query(told, clients, gathered(changed, everyone, records))[0].value))
        moved = np.linalg.norm(queries[0] - queries[1], axis=(1, 2))
        assert (moved <= bound * (1 + 1e-12)).all(), name
        assert moved.max() > 0.5 * bound.max(), f"{name}: a bound that is never nearly reached could be any number"


def test_a_plan_for_drawn_records_of_unequal_shards_charges_each_client_its_own_rate() -> None:
    run = free("records")
    plan = plan_proved(2.0, 1e-5, RecordSampling(WITHOUT_REPLACEMENT, 5), np.asarray(run.shards.sizes), 6)
    spent = plan.spent(np.arange(CLIENTS), np.full(CLIENTS, 6))
    assert (spent <= 2.0).all()
    order = np.argsort(run.shards.sizes)
    assert (np.diff(plan.noise_multipliers[order]) <= 0).all(), "fewer records, a higher rate, more noise"
