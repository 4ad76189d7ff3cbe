"""FedSPD-DP with released state: its sensitivity holds, is attained, and nothing else depends on a record."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.audit.replay import Shard, replay
from fedspd.errors import InputError
from fedspd.privacy import PaperFormulas
from fedspd.problem import (
    L1,
    Box,
    GroupL1,
    LeastSquares,
    Objective,
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
)

COLUMNS = 3
REGULARIZERS: list[Regularizer] = [Unregularized(), L1(0.3), SquaredL2(0.5), GroupL1(0.2), Box(0.4)]


def method(local_steps: int = 5, gamma: float = 0.4, rho: float = 0.2, **changes: object) -> FedSPD:
    base = FedSPD(Objective(Softmax(2), Unregularized(), 0.7), 4, rho, local_steps, gamma, row_norm=1.0)
    return replace(base, **changes)  # pyright: ignore[reportArgumentType]


def random_shard(rng: np.random.Generator, records: int, row_norm: float = 1.0) -> Shard:
    rows = rng.standard_normal((records, COLUMNS)) * rng.uniform(0.1, 3.0, (records, 1))
    return Shard(bounded(rows, row_norm), rng.integers(0, 2, records))


def bounded(rows: np.ndarray, norm: float) -> np.ndarray:
    return rows * np.minimum(1.0, norm / np.linalg.norm(rows, axis=-1, keepdims=True))


def random_draws(rng: np.random.Generator, rounds: int, records: int, steps: int, batch: int) -> list[np.ndarray]:
    return [rng.permutation(records)[: steps * batch].reshape(steps, batch) for _ in range(rounds)]


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    local_steps=st.sampled_from([1, 2, 5]),
    regularizer=st.sampled_from(REGULARIZERS),
    loss=st.sampled_from([Softmax(2), LeastSquares(), SquaredHinge()]),
    start=st.sampled_from(["server", "own"]),
    rho=st.sampled_from([0.01, 0.3, 5.0]),
    relation=st.sampled_from(["replace-one", "zero-out"]),
)
def test_the_bound_holds_on_random_neighbors_and_nothing_else_depends_on_the_record(
    seed: int, local_steps: int, regularizer: Regularizer, loss: Softmax, start: str, rho: float, relation: str
) -> None:
    rng = np.random.default_rng(seed)
    batch, records, rounds = int(rng.integers(1, 5)), 24, 6
    gamma = loss.curvature / 2 * rng.uniform(1.0, 4.0) if local_steps > 1 else rng.uniform(0.001, 2.0)
    algorithm = method(
        local_steps, gamma, rho, objective=Objective(loss, regularizer, 0.7), start_at=start, relation=relation
    )
    shard = random_shard(rng, records)
    swapped = int(rng.integers(records))
    row = bounded(rng.standard_normal((1, COLUMNS)) * 3, 1.0)[0] if relation == "replace-one" else np.zeros(COLUMNS)
    neighbor = shard.with_record(swapped, row, int(rng.integers(2)))
    servers = rng.standard_normal((rounds, COLUMNS, loss.outputs)) * rng.uniform(0, 3)
    normals = rng.standard_normal((rounds, 1, COLUMNS, loss.outputs))
    draws = random_draws(rng, rounds, records, local_steps, batch)
    found = replay(algorithm, shard, neighbor, draws, servers, normals)
    assert found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs


@pytest.mark.parametrize("local_steps", [1, 2, 5, 20])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_bound_is_attained_when_one_label_flips_at_zero_weights_and_the_rest_is_flat(
    local_steps: int, batch: int
) -> None:
    """At x = 0 a row of norm 1 has gradients of norm 1/sqrt 2 that are opposite for the two labels; rows of zeros
    have none, so later steps contract by exactly c."""
    algorithm = method(local_steps, objective=Objective(Softmax(2), Unregularized(), sqrt(0.5)))
    shard = Shard(np.zeros((local_steps * batch, COLUMNS)), np.zeros(local_steps * batch, int))
    unit = np.eye(COLUMNS)[0]
    first, second = shard.with_record(0, unit, 0), shard.with_record(0, unit, 1)
    drawn = [np.arange(local_steps * batch).reshape(local_steps, batch)]
    zeros = np.zeros((1, 1, COLUMNS, 2))
    found = replay(algorithm, first, second, drawn, np.zeros((1, COLUMNS, 2)), zeros)
    assert found.worst_ratio == pytest.approx(1.0, abs=1e-12)


def test_an_adversarial_search_over_neighbors_does_not_exceed_the_bound() -> None:
    algorithm = method(3, gamma=0.25, rho=0.05, objective=Objective(Softmax(2), L1(0.05), 0.7))
    drawn = [np.arange(6).reshape(3, 2)]

    def ratio(point: np.ndarray) -> float:
        rows = bounded(point[: 7 * COLUMNS].reshape(7, COLUMNS), 1.0)
        server = point[7 * COLUMNS :].reshape(1, COLUMNS, 2)
        shard = Shard(rows[:6], np.array([0, 1, 0, 1, 0, 1]))
        neighbor = shard.with_record(0, rows[6], 1)
        return replay(algorithm, shard, neighbor, drawn, server, np.zeros((1, 1, COLUMNS, 2))).worst_ratio

    best = 0.0
    for seed in range(6):
        start = np.random.default_rng(seed).standard_normal(7 * COLUMNS + 2 * COLUMNS)
        found = minimize(lambda p: -ratio(p), start, method="Nelder-Mead", options={"maxiter": 600})
        best = max(best, -float(found.fun))
    assert 0.8 < best <= 1 + 1e-9, "a search that finds nothing near the bound attacks nothing"


def test_the_published_method_fails_the_same_replay() -> None:
    """The paper's hidden state: a record drawn in round 1 only still moves later uploads."""
    formulas = PaperFormulas(1.0, 1e-4, 0.05, 1, 2, 6, 1.0, diameter=1e4)
    published = FedSPDPublished(Objective(Softmax(2), Unregularized(), 0.7), 1, 0.05, 1, formulas)
    rng = np.random.default_rng(0)
    shard = random_shard(rng, 8)
    neighbor = shard.with_record(0, shard.features[0], 1 - int(shard.labels[0]))
    draws = [np.array([[0, 1]])] + [np.array([[2, 3]])] * 5
    found = replay(published, shard, neighbor, draws, np.zeros((6, COLUMNS, 2)), np.zeros((6, 1, COLUMNS, 2)))
    assert found.state_differs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inverse_step": 0.1}, r"inverse_step must be at least L/2 = 0.25 for local_steps > 1, got 0.1"),
        ({"inverse_step": 0.4, "row_norm": 2.0}, r"at least L/2 = 1 "),
        ({"inverse_step": 0.4, "crowding": 2.0}, r"at least L/2 = 0.5 "),
        ({"objective": Objective(Softmax(3), Unregularized(), 0.5)}, r"more than two classes is not convex"),
        ({"objective": Objective(LeastSquares(), Unregularized(), inf), "inverse_step": 5.0}, r"must be bounded"),
    ],
)
def test_conditions_of_the_proof_are_checked_before_the_first_round(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        method(5, **changes)


def test_one_local_step_needs_no_condition_and_unclipped_multiclass_is_allowed() -> None:
    assert method(1, gamma=0.001).sensitivity(1, np.array([10.0]))[0] == pytest.approx(2 * 0.7 / (10 * 0.201))
    several = method(5, objective=Objective(Softmax(3), Unregularized(), inf))
    assert several.objective.gradient_bound(1.0) == pytest.approx(sqrt(2))


def test_the_sensitivity_is_the_closed_form_of_the_geometric_series() -> None:
    algorithm = method(5, gamma=0.4, rho=0.2)
    c = 0.4 / 0.6
    assert algorithm.sensitivity(1, np.array([10.0]))[0] == pytest.approx(2 * 0.7 * (1 - c**5) / (10 * 5 * 0.2))
    zero_out = replace(algorithm, relation="zero-out")
    assert zero_out.sensitivity(1, np.array([10.0]))[0] == pytest.approx(0.7 * (1 - c**5) / (10 * 5 * 0.2))
