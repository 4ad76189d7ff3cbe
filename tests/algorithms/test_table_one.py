"""The ADMM methods of Table 1 against plain implementations on the same draws, the optimum, and each other."""

from dataclasses import replace
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.ddp_admm_dvp import DDPADMMDual
from fedspd.algorithms.methods.ddp_admm_pvp import DDPADMMPrimal
from fedspd.algorithms.methods.ddp_admm_pvp_published import DDPADMMPrimalPublished
from fedspd.algorithms.methods.dp_aadmm import DPAADMM
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_lr_admm import DPLRADMM
from fedspd.algorithms.methods.dp_madmm import DPMADMM
from fedspd.algorithms.methods.dp_radmm import DPRADMM
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.multi_step_dp_admm import MultiStepDPADMM
from fedspd.algorithms.methods.ps_admm import PSADMM
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.step_sizes import Constant, Geometric, SquareRoot
from fedspd.data import Shards, Table, assign
from fedspd.engine import Simulation, simulate
from fedspd.engine.draws import NOBODY
from fedspd.engine.measuring.diagnostics import objectives
from fedspd.engine.numpy_engine import Draws, GivenDraws, draw_round
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, PublishedPlan
from fedspd.problem import L1, LEFT, FlippedLabels, Objective, Softmax, SquaredL2
from tests.support.algorithms import plain_table_one as plain
from tests.support.algorithms.plain_table_one import Participation, Records, Round
from tests.support.optima import known_optimum

SIZES, COLUMNS, ROUNDS = (9, 14, 30, 21, 26, 12), 4, 8
CLIENTS, SHAPE = len(SIZES), (COLUMNS, 2)
EPSILON, DELTA = 8.0, 1e-4
STRENGTH, BOUND, ROW_NORM = 0.02, 0.8, 3.0
SMOOTH, SPARSE = (Objective(Softmax(2), kind(STRENGTH), BOUND) for kind in (SquaredL2, L1))
EVERYBODY = {i: [j for j in range(CLIENTS) if j != i] for i in range(CLIENTS)}


def uneven_problem(seed: int = 1) -> tuple[Shards, Table]:
    """Clients of unequal size that draw from different places and do not agree on labels."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(CLIENTS), SIZES)
    features = rng.standard_normal((len(owner), COLUMNS)) + rng.standard_normal((CLIENTS, COLUMNS))[owner]
    features *= np.minimum(1, ROW_NORM / np.linalg.norm(features, axis=1))[:, None]
    planes = rng.standard_normal(COLUMNS) + 0.7 * rng.standard_normal((CLIENTS, COLUMNS))
    margins = np.vecdot(features, planes[owner]) + rng.standard_normal(len(owner))
    table = Table(features, (margins > 0).astype(int), tuple("abcd"), ("no", "yes"))
    return assign(table, owner, CLIENTS), table


def simulation(algorithm: Any, epsilon: float = EPSILON, **changes: Any) -> Simulation:
    """Whole shards and everybody, unless told otherwise."""
    shards, table = uneven_problem()
    plan = PublishedPlan(epsilon, DELTA, WHOLE_SHARD, 1, np.asarray(shards.sizes), algorithm.law)
    usual = {"batch_size": None, "participants": CLIENTS, "rounds": ROUNDS, "seed": 5}
    return Simulation(shards, table, algorithm, plan, **(usual | changes))


def in_batches(run: Simulation, batch_size: int) -> Simulation:
    plan = replace(run.plan, sampling=WITHOUT_REPLACEMENT, drawn=run.algorithm.local_steps * batch_size)  # pyright: ignore
    return replace(run, plan=plan, batch_size=batch_size)


def played(run: Simulation) -> tuple[np.ndarray, list[Round]]:
    """The models of all rounds, and every draw in the plain implementations' words: no rows that fill up a batch."""
    rounds: list[Round] = []

    def recorded(round: int, chosen: np.ndarray) -> Draws:
        drawn = draw_round(run, round, chosen)
        told: Round = {}
        for place, client in enumerate(chosen.tolist()):
            flat = [run.shards.offsets[client] + batch[batch != NOBODY] for batch in drawn.records[place]]
            nominal = run.batch_size or SIZES[client] / len(flat)  # where a shard is dealt out batches differ by one
            x, y = run.shards.features, run.shards.labels
            batches = [Records(x[rows].tolist(), y[rows].tolist(), nominal) for rows in flat]
            told[client] = Participation(batches, list(drawn.noise[place].reshape(-1, *SHAPE)))
        rounds.append(told)
        return drawn

    return simulate(run, drawn=recorded).models, rounds


def assert_agree(models: np.ndarray, expected: list[plain.Point], tolerance: float) -> None:
    np.testing.assert_allclose(models, expected, rtol=0, atol=tolerance)
    steps = np.linalg.norm(np.diff(models, axis=0, prepend=0), axis=(1, 2))
    assert steps.min() > 0.02, "a run that does not move would agree with anything"


# --- second implementations ----------------------------------------------------------------------------------

PENALTY, ETA = 0.6, 0.6 / (2 * (CLIENTS - 1))
STAR = Network(CLIENTS)


def test_dvp_and_its_plain_implementation_agree_on_the_same_draws() -> None:
    models, rounds = played(simulation(DDPADMMDual(SMOOTH, STAR, PENALTY, ROW_NORM)))
    assert_agree(models, plain.dvp(rounds, EVERYBODY, SHAPE, ETA, STRENGTH, BOUND, EPSILON), 1e-8)


@pytest.mark.parametrize("hidden", [True, False])
def test_pvp_and_its_plain_implementation_agree_on_the_same_draws(hidden: bool) -> None:
    epsilon = 200.0 if hidden else EPSILON  # as published the noise is (ρ + 2ηV)/ρ = 31 times as large
    released = DDPADMMPrimal(SMOOTH, STAR, PENALTY, ROW_NORM)
    method = DDPADMMPrimalPublished(SMOOTH, STAR, PENALTY) if hidden else released
    models, rounds = played(simulation(method, epsilon))
    assert_agree(models, plain.pvp(rounds, EVERYBODY, SHAPE, ETA, STRENGTH, BOUND, epsilon, hidden), 1e-8)


@pytest.mark.parametrize("growth", [1.0, 1.2])
def test_madmm_and_its_plain_implementation_agree_on_the_same_draws(growth: float) -> None:
    models, rounds = played(simulation(DPMADMM(SMOOTH, STAR, PENALTY, Geometric(PENALTY, growth), ROW_NORM)))
    assert_agree(models, plain.madmm(rounds, EVERYBODY, SHAPE, ETA, growth, STRENGTH, BOUND, EPSILON), 1e-8)


def test_radmm_and_its_plain_implementation_agree_on_the_same_draws() -> None:
    models, rounds = played(simulation(DPRADMM(SMOOTH, STAR, PENALTY, 0.3, ROW_NORM)))
    assert_agree(models, plain.radmm(rounds, EVERYBODY, SHAPE, ETA, 0.3, STRENGTH, BOUND, EPSILON), 1e-8)


@pytest.mark.parametrize("label_epsilon", [0.5, 3.0])
@pytest.mark.parametrize("tilting", [pytest.param(0.0, marks=pytest.mark.slow), 1.5])
def test_lr_admm_and_its_plain_implementation_agree_on_the_same_draws(label_epsilon: float, tilting: float) -> None:
    objective = replace(SMOOTH, loss=FlippedLabels(1 / (1 + np.exp(label_epsilon))))
    run = simulation(DPLRADMM(objective, STAR, PENALTY, ROW_NORM, tilting), 20 * EPSILON)
    models, rounds = played(run)

    def deviation(records: float) -> float:
        return (1 + LEFT) * sqrt(2 * log(1.25 / DELTA)) / (20 * EPSILON) * 2 * BOUND / (records * (STRENGTH + PENALTY))

    expected = plain.lr_admm(
        rounds, EVERYBODY, SHAPE, ETA, STRENGTH, BOUND, tilting, label_epsilon, deviation
    )  # fmt: skip
    assert_agree(models, expected, 1e-8)


@pytest.mark.parametrize(("arrivals", "most_stale"), [(CLIENTS, None), (2, 4)])
def test_aadmm_and_its_plain_implementation_agree_on_the_same_draws(arrivals: int, most_stale: int | None) -> None:
    run = simulation(DPAADMM(SPARSE, CLIENTS, 0.7, arrivals), participants=arrivals, most_stale=most_stale)
    models, rounds = played(run)
    assert most_stale is None or len(set().union(*rounds[:most_stale])) == CLIENTS
    expected = plain.aadmm(rounds, CLIENTS, SHAPE, 0.7, BOUND, STRENGTH, arrivals, EPSILON, DELTA)
    assert_agree(models, expected, 1e-8)


@pytest.mark.parametrize("batch_size", [None, 3])
def test_ps_admm_and_its_plain_implementation_agree_on_the_same_draws(batch_size: int | None) -> None:
    run = simulation(PSADMM(SPARSE, CLIENTS, 0.5, SquareRoot(0.4)))
    models, rounds = played(run if batch_size is None else in_batches(run, batch_size))
    expected = plain.multi_step(
        rounds, CLIENTS, SHAPE, 0.5, lambda k: 1 / (0.4 * sqrt(k)), BOUND, STRENGTH, EPSILON, DELTA
    )
    assert_agree(models, expected, 1e-10)


@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_multi_step_dp_admm_and_its_plain_implementation_agree_on_the_same_draws(
    batch_size: int | None, local_steps: int
) -> None:
    run = simulation(MultiStepDPADMM(SPARSE, CLIENTS, 0.5, local_steps, SquareRoot(0.4)))
    models, rounds = played(run if batch_size is None else in_batches(run, batch_size))
    assert len(rounds[0][0].noises) == local_steps
    expected = plain.multi_step(
        rounds, CLIENTS, SHAPE, 0.5, lambda k: 1 / (0.4 * sqrt(k)), BOUND, STRENGTH, EPSILON, DELTA
    )
    assert_agree(models, expected, 1e-10)


# --- without noise they reach the optimum --------------------------------------------------------------------

OPEN, OPEN_SPARSE = replace(SMOOTH, clip_norm=inf), replace(SPARSE, clip_norm=inf)
UNFLIPPED = replace(OPEN, loss=FlippedLabels(0.0))
REACHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "DVP": (DDPADMMDual(OPEN, STAR, 0.3, ROW_NORM), {}),
    "PVP": (DDPADMMPrimal(OPEN, STAR, 0.3, ROW_NORM), {}),
    "PVP as published": (DDPADMMPrimalPublished(OPEN, STAR, 0.3), {}),
    "MADMM of mild growth": (DPMADMM(OPEN, STAR, 0.3, Geometric(0.3, 1.01), ROW_NORM), {}),
    "RADMM": (DPRADMM(OPEN, STAR, 0.3, 1.0, ROW_NORM), {}),
    "LR-ADMM": (DPLRADMM(UNFLIPPED, STAR, 0.3, ROW_NORM, tilting=0.0), {}),
    "AADMM": (DPAADMM(OPEN_SPARSE, CLIENTS, 0.3, CLIENTS), {}),
    "AADMM, 2 of 6 at a time": (DPAADMM(OPEN_SPARSE, CLIENTS, 0.3, 2), {"participants": 2, "most_stale": 4}),
    "PS-ADMM": (PSADMM(OPEN, CLIENTS, 0.3, Constant(2.5)), {}),
    "DP-ADMM": (DPADMM(OPEN, CLIENTS, 0.3, Constant(2.5)), {}),
    "FedSPD-DP": (FedSPD(OPEN_SPARSE, CLIENTS, 0.3, 1, 2.5, ROW_NORM), {}),
}


def gaps(run: Simulation, drawn: GivenDraws | None = None) -> np.ndarray:
    """Objective above scikit-learn's optimum after every round."""
    objective = replace(run.algorithm.objective, loss=Softmax(2))
    best = known_optimum(replace(run, algorithm=DPSGD(objective, Constant(1.0))))
    models = simulate(replace(run, objective_every=0, lagrangian=False), drawn=drawn).models
    at_zero, least, *values = objectives(objective, run.shards, np.stack([0 * best, best, *models]))
    assert at_zero - least > 1, "the start must not be the optimum already"
    assert np.any(np.abs(best) < 1e-12) == (objective.regularizer == L1(STRENGTH)), "l1 must matter where it is used"
    return np.array(values) - least


@pytest.mark.parametrize("name", REACHES)
def test_without_noise_a_method_reaches_the_optimum_of_clients_that_disagree(name: str) -> None:
    algorithm, changes = REACHES[name]
    assert abs(gaps(simulation(algorithm, inf, rounds=200, **changes))[-1]) < 1e-8


def in_copies(run: Simulation) -> tuple[Simulation, GivenDraws]:
    """As many copies of every record as there are local steps, and draws by which every batch has one of each.

    Batches that differ would leave a floor: local steps without noise, but with other records each, do not settle.
    """
    steps, shards = run.algorithm.local_steps, run.shards
    owner = np.repeat(np.repeat(np.arange(CLIENTS), SIZES), steps)
    features = np.repeat(np.asarray(shards.features, np.float64), steps, axis=0)
    copied = Table(features, np.repeat(shards.labels, steps), tuple("abcd"), ("no", "yes"))
    run = replace(run, shards=assign(copied, owner, CLIENTS))

    def drawn(round: int, chosen: np.ndarray) -> Draws:
        found = draw_round(run, round, chosen)
        records = np.full_like(found.records, NOBODY)
        for place, client in enumerate(chosen.tolist()):
            records[place, :, : SIZES[client]] = np.arange(SIZES[client] * steps).reshape(-1, steps).T
        return found._replace(records=records)

    return run, drawn


def test_without_noise_several_steps_on_all_records_reach_the_optimum_too() -> None:
    run, drawn = in_copies(simulation(MultiStepDPADMM(OPEN, CLIENTS, 0.3, 3, Constant(2.5)), inf, rounds=150))
    assert abs(gaps(run, drawn)[-1]) < 1e-8


def test_madmm_of_strong_growth_stalls_on_its_way() -> None:
    """A step is a slope over 2ηV at most, so with η = θ q^t all steps together, however many, have a finite length.

    The published theorem has penalties that stay bounded.
    """
    strong = gaps(simulation(DPMADMM(OPEN, STAR, 1.0, Geometric(1.0, 1.1), ROW_NORM), inf, rounds=200))
    assert strong[-1] == pytest.approx(strong[99], rel=0.01)
    assert strong[-1] > 5e-3
    assert gaps(simulation(DPMADMM(OPEN, STAR, 1.0, Geometric(1.0, 1.01), ROW_NORM), inf, rounds=200))[-1] < 1e-8


# --- what is the same as what ---------------------------------------------------------------------------------


def test_multi_step_dp_admm_of_one_step_is_ps_admm() -> None:
    many, one = (
        simulate(in_batches(simulation(method), 3)).models
        for method in (
            MultiStepDPADMM(SPARSE, CLIENTS, 0.5, 1, SquareRoot(0.4)),
            PSADMM(SPARSE, CLIENTS, 0.5, SquareRoot(0.4)),
        )
    )
    np.testing.assert_array_equal(many, one)


def test_madmm_without_growth_is_dvp() -> None:
    growing, still = (
        simulate(simulation(method)).models
        for method in (
            DPMADMM(SMOOTH, STAR, PENALTY, Geometric(PENALTY, 1.0), ROW_NORM),
            DDPADMMDual(SMOOTH, STAR, PENALTY, ROW_NORM),
        )
    )
    np.testing.assert_array_equal(growing, still)


def test_ps_admm_on_whole_shards_is_dp_admm_with_the_noise_reversed() -> None:
    """Noise on the gradient is divided by ρ + 1/η and subtracted: of the same law and, calibrated, of the same size."""
    theirs = simulation(DPADMM(SPARSE, CLIENTS, 0.5, SquareRoot(0.4)))

    def reversed_noise(round: int, chosen: np.ndarray) -> Draws:
        drawn = draw_round(theirs, round, chosen)
        return drawn._replace(noise=-drawn.noise)

    models = simulate(simulation(PSADMM(SPARSE, CLIENTS, 0.5, SquareRoot(0.4)))).models
    np.testing.assert_allclose(models, simulate(theirs, drawn=reversed_noise).models, rtol=0, atol=1e-12)
    assert np.abs(models - simulate(theirs).models).max() > 0.1, "noise must matter"
