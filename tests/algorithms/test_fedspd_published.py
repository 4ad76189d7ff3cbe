"""The published method against a second, plain implementation on the same draws."""

from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.data import Shards, Table, assign
from fedspd.engine import Simulation, simulate
from fedspd.engine.batches import gather_batches
from fedspd.engine.numpy_engine import draw_round as drawn_by_the_engine
from fedspd.engine.participation import choose
from fedspd.engine.spending import Spending
from fedspd.privacy import WITH_REPLACEMENT, WITHOUT_REPLACEMENT, PaperFormulas, PublishedPlan
from fedspd.problem import L1, Objective, Softmax
from fedspd.results import History
from fedspd.typing import Batches, Private
from tests.support.algorithms.plain import fedspd

COLUMNS, BATCH, ROUNDS = 4, 3, 12


def small_problem(seed: int = 0, clients: int = 6) -> tuple[Shards, Table]:
    """Unequal shards of random records, some rows long enough to be clipped."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), rng.integers(15, 22, clients))
    features = rng.standard_normal((len(owner), COLUMNS)) * rng.uniform(0.1, 3, (len(owner), 1))
    labels = (features @ rng.standard_normal(COLUMNS) > 0).astype(int)
    table = Table(features, labels, tuple("abcd"), ("no", "yes"))
    return assign(table, owner, clients), table


def published(run: Simulation) -> FedSPDPublished:
    assert isinstance(run.algorithm, FedSPDPublished)
    return run.algorithm


def simulation(sampling: str, participants: int, local_steps: int, **changes: Any) -> Simulation:
    shards, table = small_problem()
    plan = PublishedPlan(3.0, 1e-4, sampling, local_steps * BATCH, np.asarray(shards.sizes))
    formulas = PaperFormulas(
        epsilon=3.0, delta=1e-4, penalty=0.7, local_steps=local_steps, batch_size=BATCH, dimension=2 * COLUMNS,
        participation=participants / shards.clients, diameter=40.0,
    )  # fmt: skip
    algorithm = FedSPDPublished(Objective(Softmax(2), L1(0.02), 1.0), shards.clients, 0.7, local_steps, formulas)
    settings = {
        "shards": shards, "test": table, "algorithm": algorithm, "plan": plan, "batch_size": BATCH,
        "participants": participants, "rounds": ROUNDS, "seed": 5,
    }  # fmt: skip
    return Simulation(**(settings | changes))


def draw_round(run: Simulation, round: int) -> tuple[np.ndarray, Batches, np.ndarray]:
    chosen = choose(run, round, Spending(run.plan, run.shards.clients, None))
    records, normals = drawn_by_the_engine(run, round, chosen)
    return chosen, gather_batches(run.shards, chosen, records, run.batch_sizes(chosen)), normals


def drawn_rounds(run: Simulation, history: History) -> list[dict]:
    """Every draw of the run, in the plain implementation's words."""
    rounds = []
    for round in range(1, run.rounds + 1):
        chosen, batches, normals = draw_round(run, round)
        features, labels = np.asarray(batches.features), np.asarray(batches.labels)
        clients = {
            int(i): {
                "batches": [(features[k, q].tolist(), labels[k, q].tolist()) for q in range(features.shape[1])],
                "normals": normals[k].tolist(),
            }
            for k, i in enumerate(chosen)
        }
        gamma, sigma = history["inverse_step"][round - 1], history["noise_scale"][round - 1]
        rounds.append({"clients": clients, "gamma": gamma, "sigma": sigma})
    return rounds


@pytest.mark.parametrize("local_steps", [1, 5])
@pytest.mark.parametrize("participants", [2, 6])
@pytest.mark.parametrize("sampling", [WITHOUT_REPLACEMENT, WITH_REPLACEMENT])
def test_engine_and_plain_implementation_agree_on_the_same_draws(
    sampling: str, participants: int, local_steps: int
) -> None:
    run = simulation(sampling, participants, local_steps)
    outcome = simulate(run)
    rounds = drawn_rounds(run, outcome.history)
    plain = fedspd(rounds, run.shards.clients, COLUMNS, rho=0.7, strength=0.02, bound=1.0)
    np.testing.assert_allclose(outcome.models, plain, rtol=0, atol=1e-10)
    assert np.abs(outcome.weights).max() > 0.1, "a run that does not move would agree with anything"


def test_without_replacement_no_record_is_drawn_twice_in_a_round() -> None:
    run = simulation(WITHOUT_REPLACEMENT, 6, 5)
    for round in range(1, 50):
        features = np.asarray(draw_round(run, round)[1].features)
        for rows in features.reshape(6, 15, COLUMNS):
            assert len(np.unique(rows, axis=0)) == 15


def test_with_replacement_records_are_drawn_twice_as_often_as_chance_has_it() -> None:
    run = simulation(WITH_REPLACEMENT, 6, 5)
    distinct = [
        len(np.unique(rows, axis=0)) / (size * (1 - (1 - 1 / size) ** 15))
        for round in range(1, 200)
        for rows, size in zip(
            np.asarray(draw_round(run, round)[1].features).reshape(6, 15, COLUMNS), run.shards.sizes, strict=True
        )
    ]
    assert abs(np.mean(distinct) - 1) < 4 * np.std(distinct) / np.sqrt(len(distinct))


def test_the_state_kept_between_rounds_is_declared_private() -> None:
    run = simulation(WITHOUT_REPLACEMENT, 2, 1)
    _, clients, _ = run.algorithm.start(np.zeros((6, COLUMNS, 2)))
    assert isinstance(clients, Private)
    assert run.algorithm.guarantee == "as published"
