"""Steps that grow by what releases show: as long steps would be, short where curvature is, never far."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.base import Released, Told
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.parts.moves import CURVATURE, GROWTH, SAFE, STRETCH, WEIGHTS
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.assemble import prepare_experiment
from fedspd.config import load
from fedspd.problem import Objective, Softmax, Unregularized
from fedspd.typing import Array, Release

OBJECTIVE = Objective(Softmax(2), Unregularized(), 0.5)
CLIENTS, MOST = 10, 30.0
FEDSPD = FedSPD(OBJECTIVE, CLIENTS, 1.0, 1, 1.0, 1.0, stretch=MOST)  # steps of 1 a round, for curvature up to 1
METHODS = {
    "fedspd": FEDSPD,
    "fedspd with momentum": replace(FEDSPD, momentum=0.7),
    "sums": SPDOnSums(OBJECTIVE, 1.0, 1.0, stretch=MOST),
    "dp-sgd": DPSGD(OBJECTIVE, Constant(1.0), stretch=MOST),
    "noisy-prox-gd": NoisyProximalGradient(OBJECTIVE, Constant(1.0), 0.7, stretch=MOST),
}


def released(algorithm: Any, told: Told, state: Any, gradients: Array) -> Release:
    """What clients release whose gradients are these."""
    if isinstance(algorithm, FedSPD):
        reach = told.inverse_step + algorithm.penalty
        return Release(told.weights + (state.dual - gradients) / reach)  # pyright: ignore[reportAbstractUsage]
    return Release(gradients)  # pyright: ignore[reportAbstractUsage]


def descended(
    algorithm: Any, bends: np.ndarray, target: np.ndarray, rounds: int, noise: float = 0.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Servers and models of all rounds on a parabola, everybody in each."""
    rng, clients = np.random.default_rng(seed), 1 if isinstance(algorithm, SPDOnSums) else CLIENTS
    server, state, previous = algorithm.start(np.zeros((clients, len(bends), 1)))
    servers, models = [server], []
    for round in range(1, rounds + 1):
        told = algorithm.broadcast(server, round)
        gradient = bends[:, None] * (told.weights - target[:, None])
        noised = gradient + noise * rng.standard_normal((clients, *gradient.shape))
        state, replies = algorithm.settle(told, state, released(algorithm, told, state, noised), None)
        server, previous = algorithm.merge(server, told, replies, previous, np.ones(clients)), replies
        servers.append(server)
        models.append(np.asarray(algorithm.model(server))[:, 0])
    return np.array(servers), np.array(models)


def loss(models: np.ndarray, bends: np.ndarray, target: np.ndarray) -> Any:
    return 0.5 * ((models - target) ** 2) @ bends


def test_a_stretched_upload_is_that_of_steps_so_much_longer() -> None:
    """A release of γ, ρ, stretched by m about what was sent, is the same release of γ/m, ρ/m: noise grows with it."""
    rng = np.random.default_rng(0)
    weights, dual, release = (rng.standard_normal((1, 4, 2)) for _ in range(3))
    told, state = Told(weights[0], FEDSPD.inverse_step, 7.0), Released(weights, dual)
    longer = replace(FEDSPD, penalty=FEDSPD.penalty / 7, inverse_step=FEDSPD.inverse_step / 7)
    moved = Release(told.weights + 7 * (release - told.weights))  # pyright: ignore[reportAbstractUsage]
    same = Told(weights[0], longer.inverse_step)
    (ours, reply), (theirs, other) = (
        FEDSPD.settle(told, state, Release(release), None),  # pyright: ignore[reportAbstractUsage]
        longer.settle(same, state, moved, None),
    )
    assert reply == pytest.approx(other, rel=1e-12)
    assert ours.dual == pytest.approx(theirs.dual, rel=1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("bend", [1.0, 0.3, 0.05, 0.001])
def test_steps_grow_to_what_the_curvature_allows_and_no_further(name: str, bend: float) -> None:
    algorithm = METHODS[name]
    servers, _ = descended(algorithm, np.array([bend]), np.ones(1), 6)
    momentum = getattr(algorithm, "momentum", 0.0)
    stable = 2 * (1 + momentum) / (1 + 2 * momentum)
    assert servers[-1][CURVATURE, 0, 0] == pytest.approx(bend, rel=1e-6)
    assert servers[-1][STRETCH, 0, 0] == pytest.approx(np.clip(SAFE * stable / bend, 1.0, MOST), rel=1e-6)
    grown = servers[1:, STRETCH, 0, 0] / servers[:-1, STRETCH, 0, 0]
    assert grown.max() <= GROWTH + 1e-12


@pytest.mark.parametrize("name", METHODS)
def test_few_rounds_get_much_further_than_with_safe_steps(name: str) -> None:
    algorithm, bends, target = METHODS[name], np.linspace(0.02, 0.08, 5), np.ones(5)
    ends = [
        loss(descended(each, bends, target, 10)[1][-1], bends, target)
        for each in (algorithm, replace(algorithm, stretch=1.0))
    ]
    assert ends[0] < 0.1 * ends[1]


SHAPES = {
    "even": np.ones(6),
    "one sharp direction that is hardly pulled at": np.array([1.0, 0.01, 0.01, 0.01, 0.01, 0.01]),
    "over four orders of magnitude": np.logspace(0, -4, 6),
    "two sharp ones": np.array([1.0, 0.9, 0.002, 0.002, 0.002, 0.002]),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rounds", [5, 25, 100])
def test_curvature_that_shows_late_does_no_more_harm_than_noise(name: str, shape: str, rounds: int) -> None:
    bends, algorithm = SHAPES[shape], METHODS[name]
    target = np.where(bends == 1.0, 0.01, 3.0) if shape.startswith("one") else np.ones(6)
    noise, seeds = 0.003, range(5)
    ends = [
        np.mean([loss(descended(each, bends, target, rounds, noise, seed)[1][-1], bends, target) for seed in seeds])
        for each in (algorithm, replace(algorithm, stretch=1.0))
    ]
    around = noise**2 / CLIENTS * MOST * len(bends)  # what noise alone leaves of steps that are so much longer
    assert ends[0] <= 1.05 * ends[1] + 4 * around


@pytest.mark.parametrize("name", METHODS)
def test_no_model_is_further_away_than_its_steps_add_up_to(name: str) -> None:
    """Gradients that always turn against the last move, as no convex loss has them: steps add up, and no more."""
    algorithm, longest = METHODS[name], 0.5
    clients = 1 if isinstance(algorithm, SPDOnSums) else CLIENTS
    server, state, previous = algorithm.start(np.zeros((clients, 3, 1)))
    momentum, gone = getattr(algorithm, "momentum", 0.0), 0.0
    rng = np.random.default_rng(1)
    for round in range(1, 60):
        told = algorithm.broadcast(server, round)
        outward = -told.weights + 1e-3 * rng.standard_normal((3, 1))
        gradient = longest * outward / np.linalg.norm(outward) * np.ones((clients, 1, 1))
        state, replies = algorithm.settle(told, state, released(algorithm, told, state, gradient), None)
        server, previous = algorithm.merge(server, told, replies, previous, np.ones(clients)), replies
        gone += float(told.stretch) * longest
        assert np.linalg.norm(server[WEIGHTS, ...]) <= gone / (1 - momentum) + 1e-9
    assert gone > 100  # it was pulled along, and grew


def test_rules_stretch_where_rounds_are_few_and_nothing_is_set() -> None:
    few = {"partition.clients": 100, "run.participants": 20, "run.rounds": 25, "metrics.criterion": False}

    def stretch(**settings: Any) -> float:
        chosen = {key.replace("__", "."): value for key, value in settings.items()}
        algorithm: Any = prepare_experiment(load("proved", {**few, **chosen})).simulation.algorithm
        return algorithm.stretch

    assert stretch(privacy__epsilon=8.0) > stretch(privacy__epsilon=1.0) > 2
    assert stretch(run__rounds=800) == 1.0
    assert stretch(algorithm__local_steps=2) == 1.0
    assert stretch(algorithm__step_scale=2.0) == 1.0
    assert stretch(algorithm__inverse_step=1.0) == 1.0


@pytest.mark.parametrize("name", METHODS)
def test_the_model_is_the_mean_of_all_rounds_each_by_the_square_of_its_number(name: str) -> None:
    bends, target = np.linspace(0.02, 0.8, 5), np.ones(5)
    last, averaged = (
        descended(replace(METHODS[name], averaging=share), bends, target, 12, noise=0.1) for share in (0.0, 1.0)
    )
    assert np.array_equal(last[0][:, WEIGHTS], averaged[0][:, WEIGHTS]), "what is sent does not hear of the mean"
    for round, model in enumerate(averaged[1], start=1):
        numbers = np.arange(1, round + 1)
        counts = numbers * (numbers + 1)  # squares, nearly: they make (p + 1)/(t + p) the share of the newest exactly
        assert model == pytest.approx(counts @ last[1][:round] / counts.sum(), rel=1e-9)
    assert np.array_equal(last[1], last[0][1:, WEIGHTS, :, 0]), "without averaging it is the last one to the bit"


@pytest.mark.parametrize("name", METHODS)
def test_the_mean_keeps_little_of_the_noise_where_the_loss_bends(name: str) -> None:
    """Both at the optimum from the start of the count: what is left of noise, over many seeds."""
    bends, target = np.full(400, 0.3), np.zeros(400)
    ends = {
        share: descended(replace(METHODS[name], averaging=share, stretch=1.0), bends, target, 300, noise=1.0)[1][-1]
        for share in (0.0, 1.0)
    }
    assert ends[1.0].std() < 0.3 * ends[0.0].std()


def test_rules_average_where_rounds_have_room_and_noise_is_small() -> None:
    def averaging(**settings: Any) -> float:
        wanted = {"partition.clients": 100, "run.participants": 20, "metrics.criterion": False}
        wanted |= {key.replace("__", "."): value for key, value in settings.items()}
        algorithm: Any = prepare_experiment(load("proved", wanted)).simulation.algorithm
        return algorithm.averaging

    assert averaging() == averaging(algorithm__name="noisy-prox-gd") == averaging(algorithm__averaging=True) == 1
    assert averaging(privacy__epsilon=0.1) == 0, "directions are soft"
    assert averaging(run__rounds=25) == 0, "the way cannot be gone"
    assert averaging(algorithm__local_steps=2) == averaging(algorithm__step_scale=2.0) == 0
    assert averaging(algorithm__averaging=False) == 0
    assert averaging(algorithm__averaging=True, algorithm__step_scale=2.0) == 1


def farthest(algorithm: SPDOnSums, rounds: int) -> float:
    """How far from the start the model gets where the same one of five cohorts is drawn again and again at first."""
    server, state, previous = algorithm.start(np.zeros((5, 1, 1)))
    tables: list[Any] = [state.weights, state.dual, previous]
    found, rng = 0.0, np.random.default_rng(0)
    for round in range(1, rounds + 1):
        one = [0 if round <= rounds // 2 else int(rng.integers(5))]
        weights, dual, before = (table[one] for table in tables)
        told = algorithm.broadcast(server, round)
        gradient = Release((0.1 * (told.weights - 1.0))[None])  # pyright: ignore[reportAbstractUsage]
        own, reply = algorithm.settle(told, Released(weights, dual), gradient, None)
        server = algorithm.merge(server, told, reply, before, np.ones(1))
        for table, new in zip(tables, (own.weights, own.dual, reply), strict=True):
            table[one] = new
        found = max(found, float(np.abs(np.asarray(algorithm.model(server))).max()))
    return found


def test_momentum_does_not_run_away_while_few_cohorts_have_answered() -> None:
    """A mean over one that has answered is that one's: sent ahead as a fifth of a mean, it doubled round by round."""
    five = SPDOnSums(OBJECTIVE, 0.1, 0.5, momentum=0.6, share=0.2, cohorts=5)
    assert farthest(five, 20) < 2
    assert farthest(replace(five, cohorts=1), 20) > 10, "planted: as if all had answered from the start"
