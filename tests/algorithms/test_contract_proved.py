"""What is claimed as proved is attacked: replays on neighboring shards, and worst cases that attain the bound."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.base import PerturbsObjective, SolvesExactly
from fedspd.audit.replay import Found, Shard, replay, unit_draws
from fedspd.engine import draws
from fedspd.privacy.accounting.events import relative_distances
from fedspd.problem import LEFT, Loss, Objective, Regularizer, Softmax, Unregularized
from tests.algorithms.test_fedspd import random_shard
from tests.support.algorithms.contract_methods import (
    LOSSES,
    METHODS,
    PROVED,
    REGULARIZERS,
    WHOLE,
    Setting,
    relations,
)

COLUMNS, RECORDS, ROUNDS = 3, 24, 5
random_neighbors = given(
    seed=st.integers(0, 2**32),
    local_steps=st.sampled_from([1, 2, 5]),
    loss=st.sampled_from(LOSSES),
    regularizer=st.sampled_from(REGULARIZERS),
    sampling=st.sampled_from(["without-replacement", "whole-shard", "poisson"]),
    penalty=st.sampled_from([0.01, 0.3, 5.0]),
)


def drawn_without_replacement(rng: np.random.Generator, steps: int, batch: int) -> np.ndarray:
    return rng.permutation(RECORDS)[: steps * batch].reshape(steps, batch)


def drawn_whole(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Every record once, dealt out to batches whose lengths differ by one where they must."""
    return draws.whole_shards(rng, np.array([RECORDS]), steps)[0]


def drawn_by_poisson(rng: np.random.Generator, steps: int, largest: int) -> np.ndarray:
    """Batches of any length up to the largest that the proof allows for, the empty one included."""
    drawn, order, begin = np.full((steps, largest), -1), rng.permutation(RECORDS), 0
    for step in range(steps):
        count = int(rng.integers(0, min(largest, RECORDS - begin) + 1))
        drawn[step, :count], begin = order[begin : begin + count], begin + count
    return drawn


def attacked(
    name: str, seed: int, local_steps: int, loss: Loss, regularizer: Regularizer, sampling: str, penalty: float
) -> Found:
    """The server sends what it likes; one record is replaced, or made null where sampling is Poisson."""
    rng = np.random.default_rng(seed)
    steps = METHODS[name](Setting(local_steps=local_steps)).local_steps  # some methods take one step only
    batch = int(rng.integers(1, RECORDS // steps // 2 + 1))
    divisor = RECORDS / steps if sampling == "whole-shard" else float(batch)
    draw, crowding = {
        "without-replacement": (lambda: drawn_without_replacement(rng, steps, batch), 1.0),
        "whole-shard": (lambda: drawn_whole(rng, steps), -(-RECORDS // steps) / divisor),
        "poisson": (lambda: drawn_by_poisson(rng, steps, 2 * batch), 2.0),
    }[sampling]
    gamma = crowding * loss.curvature / 2 * rng.uniform(1.0, 4.0) if steps > 1 else rng.uniform(0.001, 2.0)
    relation = "zero-out" if sampling == "poisson" else "replace-one"
    algorithm = METHODS[name](Setting(Objective(loss, regularizer, 0.7), steps, gamma, penalty, relation, crowding))
    drawn = [draw() for _ in range(ROUNDS)]
    shard = random_shard(rng, RECORDS)
    swapped = int(max(0, *drawn[0][:, :1].flat))
    others = [random_shard(rng, 1).features[0], -shard.features[swapped]]
    row = np.zeros(COLUMNS) if relation == "zero-out" else others[rng.integers(2)]
    neighbor = shard.with_record(swapped, row, int(rng.integers(2)))
    servers = rng.standard_normal((ROUNDS, COLUMNS, loss.outputs)) * rng.uniform(0, 3)
    return replay(
        algorithm, shard, neighbor, drawn, servers, unit_draws(rng, algorithm, ROUNDS, COLUMNS), divisor=divisor
    )


def assert_survived(found: Found) -> None:
    assert found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs
    assert found.most_moved <= 1, "a record is in one batch of a round"
    assert found.miss <= 1, "a minimizer that is farther off than its second noise counts on tells more"


@pytest.mark.parametrize("name", [name for name in PROVED if name not in WHOLE])
@settings(max_examples=200, deadline=None)
@random_neighbors
def test_a_proved_method_survives_the_replay_on_random_neighbors(name: str, sampling: str, **drawn: Any) -> None:
    assert_survived(attacked(name, sampling=sampling, **drawn))


@pytest.mark.parametrize("name", [name for name in PROVED if name in WHOLE])
@settings(max_examples=60, deadline=None)
@random_neighbors
def test_a_proved_method_of_whole_shards_survives_the_replay_on_random_neighbors(
    name: str, sampling: str, **drawn: Any
) -> None:
    assert_survived(attacked(name, sampling="whole-shard", **drawn))


def attained(name: str) -> float:
    """What the worst record reaches: all, but for what computed minimizers are allowed to be off by."""
    algorithm = METHODS[name](Setting())
    on_minimizers = isinstance(algorithm, SolvesExactly) and not isinstance(algorithm, PerturbsObjective)
    return 1 / (1 + LEFT) if on_minimizers else 1.0


def ratio_in_each_step(
    name: str, local_steps: int, batch: int = 4, relation: str = "replace-one", gamma: float = 0.4, rho: float = 0.2
) -> np.ndarray:
    """How far the worst record moves the query from each step, over the sensitivity.

    A row of norm 1 has gradients far longer than they may be, also at an exact minimizer, opposite for the two
    labels; all other rows are zero, without gradient.
    """
    objective = Objective(Softmax(2), Unregularized(), 0.05)
    algorithm = METHODS[name](Setting(objective, local_steps, gamma, rho, relation))
    steps, rounds = algorithm.local_steps, getattr(algorithm, "bands", 1)  # until every block had its turn
    blank = Shard(np.zeros((steps * batch, COLUMNS)), np.zeros(steps * batch, int))
    unit, still = np.eye(COLUMNS)[0], np.zeros((rounds, COLUMNS, 2))
    drawn = np.arange(steps * batch).reshape(steps, batch)
    ratios = []
    for record in drawn[:, -1]:
        first = blank.with_record(record, unit, 0)
        second = first.with_record(record, unit if relation == "replace-one" else 0 * unit, 1)
        silent = 0 * unit_draws(np.random.default_rng(0), algorithm, rounds, COLUMNS)
        ratios.append(replay(algorithm, first, second, [drawn] * rounds, still, silent).worst_ratio)
    return np.array(ratios)


@pytest.mark.parametrize(("name", "relation"), [(name, relation) for name in PROVED for relation in relations(name)])
@pytest.mark.parametrize("local_steps", [1, 2, 5])
@pytest.mark.parametrize("batch", [1, 4])
def test_the_sensitivity_of_a_proved_method_is_attained(name: str, local_steps: int, batch: int, relation: str) -> None:
    assert ratio_in_each_step(name, local_steps, batch, relation).max() == pytest.approx(attained(name), abs=1e-9)


@pytest.mark.parametrize("name", PROVED)
def test_no_step_weighs_more_than_the_accountant_assumes_for_it(name: str) -> None:
    """An average counts early steps most, a last iterate late ones: for it every step is charged like the worst."""
    steps, gamma, rho = 5, 0.4, 0.2
    c = gamma / (gamma + rho)
    measured = ratio_in_each_step(name, steps, gamma=gamma, rho=rho)
    left = steps - np.arange(len(measured)) - 1  # steps that follow
    averaged = ((1 - c ** (left + 1)) / (1 - c**steps), c)
    expected, assumed = {
        "FedSPD-DP": averaged,
        "FedSPD-DP from the client's own point": averaged,
        "DP-FedProx": (c**left, 0.0),
    }.get(name, (np.full(len(measured), attained(name)), 0.0))
    np.testing.assert_allclose(measured, expected, rtol=1e-9)
    assert np.all(measured <= np.array(relative_distances(len(measured), assumed)) * (1 + 1e-9))
