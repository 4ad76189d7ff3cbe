"""The methods FedSPD-DP is compared with, against second, plain implementations on the same draws."""

from dataclasses import replace
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.dp_admm import DPADMM, Huang
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.dp_sgd_published import MedianDPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedpd import FedPD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.parts.step_sizes import Constant, SquareRoot
from fedspd.audit.replay import Shard, replay
from fedspd.engine import Simulation, simulate
from fedspd.engine.draws import NOBODY
from fedspd.engine.numpy_engine import draw_round
from fedspd.engine.participation import choose
from fedspd.engine.spending import Spending
from fedspd.errors import InputError
from fedspd.privacy import WITHOUT_REPLACEMENT, PublishedPlan
from fedspd.problem import L1, LeastSquares, Objective, Softmax, Unregularized
from tests.algorithms.test_fedspd_published import COLUMNS, small_problem
from tests.support.algorithms import plain_baselines as plain
from tests.support.algorithms.plain_baselines import Participation, Round

CLIENTS, BATCH, ROUNDS = 6, 3, 12
EPSILON, DELTA = 3.0, 1e-4
STRENGTH, BOUND = 0.02, 0.8
OBJECTIVE = Objective(Softmax(2), L1(STRENGTH), BOUND)


def simulation(algorithm: Any, participants: int, batch_size: int | None = BATCH, epsilon: float = EPSILON) -> Any:
    shards, table = small_problem(clients=CLIENTS)
    plan = PublishedPlan(epsilon, DELTA, WITHOUT_REPLACEMENT, 5 * BATCH, np.asarray(shards.sizes))
    return Simulation(shards, table, algorithm, plan, batch_size, participants, ROUNDS, seed=5)


def drawn_rounds(run: Simulation) -> list[Round]:
    """Every draw of the run, in the plain implementations' words: no rows that fill up a batch."""
    rounds: list[Round] = []
    for round in range(1, run.rounds + 1):
        chosen = choose(run, round, Spending(run.plan, run.shards.clients, None))
        records, normals = draw_round(run, round, chosen)
        told: Round = {}
        for place, client in enumerate(chosen.tolist()):
            flat = [run.shards.offsets[client] + batch[batch != NOBODY] for batch in records[place]]
            batches = [(run.shards.features[rows].tolist(), run.shards.labels[rows].tolist()) for rows in flat]
            told[client] = Participation(batches, normals[place].tolist())
        rounds.append(told)
    return rounds


def assert_agree(run: Simulation, expected: list[plain.Matrix]) -> None:
    models = simulate(run).models
    np.testing.assert_allclose(models, expected, rtol=0, atol=1e-10)
    assert np.abs(models[-1]).max() > 0.1, "a run that does not move would agree with anything"


@pytest.mark.parametrize("participants", [2, CLIENTS])
@pytest.mark.parametrize("clipping", ["fixed", "median"])
def test_dp_sgd_and_its_plain_implementation_agree_on_the_same_draws(clipping: Any, participants: int) -> None:
    fixed = DPSGD(OBJECTIVE, SquareRoot(1 / 0.8))
    run = simulation(fixed if clipping == "fixed" else MedianDPSGD(fixed), participants)
    clip = BOUND if clipping == "fixed" else None
    assert_agree(run, plain.dp_sgd(drawn_rounds(run), COLUMNS, 0.8, clip, EPSILON, DELTA, STRENGTH))


@pytest.mark.parametrize("participants", [2, CLIENTS])
@pytest.mark.parametrize("local_steps", [1, 5])
@pytest.mark.parametrize("proved", [True, False])
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_dp_fedavg_and_fedprox_and_their_plain_implementation_agree_on_the_same_draws(
    mu: float, proved: bool, local_steps: int, participants: int
) -> None:
    gamma, row_norm = 1.2, 2.0  # γ >= L/2 = 1
    steps = FedAvg(OBJECTIVE, local_steps, SquareRoot(gamma), mu)
    run = simulation(DPFedAvg(steps, row_norm) if proved else steps, participants)
    rows = run.shards.features * row_norm / np.linalg.norm(run.shards.features, axis=1).max()
    run = replace(run, shards=replace(run.shards, features=rows))
    expected = plain.dp_fedavg(
        drawn_rounds(run), COLUMNS, 1 / gamma, mu, BOUND, EPSILON, DELTA, STRENGTH, one_batch_per_record=proved
    )
    assert_agree(run, expected)


def test_dp_admm_and_its_plain_implementation_agree_on_the_same_draws() -> None:
    """Ours takes the dual step when the next model arrives, the published order ends with it."""
    sizes = np.asarray(small_problem(clients=CLIENTS)[0].sizes)
    assert len(np.unique(sizes)) > 1, "noise depends on the number of records"
    schedule = Huang(EPSILON, DELTA, 2 * COLUMNS, float(np.mean(sizes)), BOUND, diameter=9.0)
    run = simulation(DPADMM(OBJECTIVE, CLIENTS, 0.7, schedule), CLIENTS, batch_size=None)
    assert_agree(run, plain.dp_admm(drawn_rounds(run), COLUMNS, 0.7, BOUND, 9.0, EPSILON, DELTA, STRENGTH))


@pytest.mark.parametrize("local_steps", [1, 5])
def test_fedpd_and_its_plain_implementation_agree_on_the_same_draws(local_steps: int) -> None:
    """It has no noise; the published sign of λ is the other one."""
    objective = Objective(Softmax(2), L1(STRENGTH), inf)
    run = simulation(FedPD(objective, CLIENTS, 0.7, local_steps, Constant(2.0)), CLIENTS, epsilon=inf)
    assert_agree(run, plain.fedpd(drawn_rounds(run), COLUMNS, 1 / 0.7, 2.0, STRENGTH))


def test_schedules_are_their_formulas() -> None:
    assert [Constant(3.0).inverse_step(t) for t in (1, 4)] == [3.0, 3.0]
    assert [SquareRoot(3.0).inverse_step(t) for t in (1, 4)] == [3.0, 6.0]
    huang = Huang(epsilon=0.5, delta=1e-3, dimension=10, records=200.0, gradient_bound=2.0, diameter=7.0)
    by_hand = sqrt(2 * 9) / 7 * sqrt(4 + 8 * 10 * 4 * log(1250) / (200**2 * 0.25))
    assert huang.inverse_step(9) == pytest.approx(by_hand, rel=1e-14)


def test_sensitivities_are_their_formulas() -> None:
    sizes = np.array([10.0, 40.0])
    two, one = "replace-one", "zero-out"
    for relation, moves in ((two, 2), (one, 1)):
        sgd = DPSGD(OBJECTIVE, SquareRoot(1.0), relation=relation)
        np.testing.assert_allclose(sgd.sensitivity(4, sizes), moves * BOUND / sizes)
        admm = DPADMM(OBJECTIVE, 3, 0.7, SquareRoot(1.0), relation)
        np.testing.assert_allclose(admm.sensitivity(4, sizes), moves * BOUND / (sizes * 2.7))
        fedprox = DPFedAvg(FedAvg(OBJECTIVE, 5, SquareRoot(1.0), 0.3), 1.0, relation)
        np.testing.assert_allclose(fedprox.sensitivity(4, sizes), moves * BOUND / (sizes * 2.3))
    assert FedAvg(OBJECTIVE, 5, SquareRoot(1.0)).sensitivity(4, sizes) == pytest.approx(2 * 5 * BOUND / 2)
    assert FedPD(OBJECTIVE, 3, 0.3, 5, SquareRoot(1.0)).sensitivity(4, sizes) == inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedule": Constant(0.2)}, r"inverse_step must be at least L/2 = 0.25 for local_steps > 1, got 0.2"),
        ({"schedule": SquareRoot(0.2)}, r"inverse_step must be at least L/2 = 0.25"),
        ({"row_norm": 2.0}, r"at least L/2 = 1 "),
        ({"crowding": 2.0}, r"at least L/2 = 0.5 "),
        ({"penalty": 5.0, "schedule": Constant(0.2)}, r"at least L/2 = 0.25 "),
        ({"objective": Objective(Softmax(3), L1(0.1), 0.5)}, r"more than two classes is not convex"),
        ({"objective": Objective(LeastSquares(), L1(0.1), inf), "schedule": Constant(5.0)}, r"must be bounded"),
    ],
)
def test_conditions_of_the_proof_for_the_last_local_iterate_are_checked_before_the_first_round(
    changes: dict, message: str
) -> None:
    usual = {"objective": OBJECTIVE, "local_steps": 5, "schedule": Constant(0.3), "row_norm": 1.0}
    assert checked(**usual).guarantee == "proved"
    with pytest.raises(InputError, match=message):
        checked(**(usual | changes))


def checked(row_norm: float, crowding: float = 1.0, **numbers: Any) -> DPFedAvg:
    return DPFedAvg(FedAvg(**numbers), row_norm, crowding=crowding)


class Falling:
    """γ that begins where the proof holds and falls out of it."""

    def inverse_step(self, round: Any) -> float:
        return 0.5 / round


def test_no_sensitivity_is_claimed_in_a_round_whose_step_size_the_proof_does_not_cover() -> None:
    """L/2 = 0.5. In round 5 the second batch throws two iterates nine times as far apart as the formula says."""
    algorithm = DPFedAvg(FedAvg(Objective(LeastSquares(), Unregularized(), 1.0), 2, Falling()), 1.0)
    rows = np.concatenate([np.zeros((20, 1)), np.ones((20, 1))])
    shard = Shard(rows, np.zeros(40, int)).with_record(0, np.ones(1), 5)
    neighbor, still = shard.with_record(0, np.ones(1), -5), np.zeros((5, 1, 1))
    draws = [np.arange(40).reshape(2, 20)] * 5
    assert replay(algorithm, shard, neighbor, draws[:1], still[:1], still[:1, None]).worst_ratio <= 1 + 1e-9
    with pytest.raises(InputError, match=r"inverse_step must be at least L/2 = 0.5"):
        replay(algorithm, shard, neighbor, draws, still, still[:, None])


def test_with_everybody_and_equal_penalty_and_inverse_step_fedspd_is_dp_sgd_with_twice_the_step() -> None:
    """Why neither leads the other with full participation: the noisy gradients are the same, and so is the path.

    y = x_0 + 2(λ - g)/(γ + ρ) + 2ξ - λ/ρ, where λ cancels for γ = ρ.
    """
    objective, gamma = Objective(Softmax(2), Unregularized(), BOUND), 0.4
    ours = FedSPD(objective, CLIENTS, gamma, 1, gamma, row_norm=1.0)
    theirs = DPSGD(objective, Constant(gamma))
    without_noise = [simulate(simulation(method, CLIENTS, epsilon=inf)).models for method in (ours, theirs)]
    np.testing.assert_allclose(without_noise[0], without_noise[1], rtol=1e-10, atol=1e-12)
    assert np.linalg.norm(without_noise[0][-1]) > 0.1
    noise = [simulate(simulation(method, CLIENTS)).history.last("noise_scale") for method in (ours, theirs)]
    assert 2 * noise[0] == pytest.approx(noise[1] / gamma, rel=1e-12), "on the model: 2ξ, and the step times the noise"
