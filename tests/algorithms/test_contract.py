"""All methods side by side: none claims more than it may, and what is not proved shows why."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms import METHODS as REGISTRY
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.audit.replay import Shard, hides_state, releases, replay, stirred
from fedspd.engine import simulate
from fedspd.engine.round import play
from fedspd.privacy import plan_proved
from fedspd.privacy.mechanism import MECHANISMS
from fedspd.problem import LeastSquares, Loss, Objective, Unregularized
from fedspd.typing import Release
from tests.algorithms.test_contract_legs import Inputs
from tests.algorithms.test_fedspd import bounded, random_shard
from tests.algorithms.test_fedspd_published import small_problem
from tests.support.algorithms.contract_methods import (
    CLAIMS,
    HIDING,
    LOSSES,
    METHODS,
    PROVED,
    REGULARIZERS,
    Setting,
    every_method,
    small_run,
    whole_shard,
)

COLUMNS, RECORDS, ROUNDS = 3, 24, 5


def test_the_table_holds_every_method_of_the_package() -> None:
    kinds = {method.kind for method in REGISTRY.values()} | {SPDOnSums}  # what FedSPD-DP is on sums
    assert {type(make(Setting())) for make in METHODS.values()} == kinds


@every_method
def test_a_method_claims_what_this_table_says_and_no_more(name: str) -> None:
    assert METHODS[name](Setting(local_steps=5)).guarantee == CLAIMS[name]


def one_round(name: str, setting: Setting | None = None) -> tuple[Any, Any, Any]:
    """State before, what is kept beside the query, state after."""
    algorithm = METHODS[name](setting or Setting())
    inputs = Inputs.random(algorithm, 0)
    told = algorithm.broadcast(inputs.server, 1)
    step, draws = next(releases(algorithm, inputs.draws))
    client, noise = stirred(algorithm, inputs.client, draws)
    query, kept = algorithm.query(told, client, inputs.batches.steps(step))
    client, _ = algorithm.settle(told, client, MECHANISMS[algorithm.law](query, 0.1, noise), kept)
    return inputs.client, kept, client


@every_method
def test_what_a_method_keeps_un_noised_is_declared_private_and_a_proved_method_keeps_nothing(name: str) -> None:
    before, kept, after = one_round(name)
    assert hides_state(kept) == (name in HIDING)
    assert name not in PROVED or not (kept is not None or hides_state(before) or hides_state(after))


@pytest.mark.parametrize("name", HIDING)
def test_a_record_used_in_one_round_shows_beside_the_releases_of_a_method_that_hides_state(name: str) -> None:
    """The record is the one of median gradient, and it grows: with median clipping all others are clipped otherwise."""
    rows = np.eye(COLUMNS)[[0, 1, 2, 0, 1, 2]] * np.array([0.5, 0.2, 0.9, 0.5, 0.2, 0.9])[:, None]
    shard = Shard(rows, np.array([0, 1, 0, 1, 0, 1]))
    neighbor = shard.with_record(0, 1.2 * rows[0], 0)
    draws = [np.array([[0, 1, 2]])] + [np.array([[3, 4, 5]])] * 3
    still = np.zeros((4, COLUMNS, 2))
    assert replay(METHODS[name](Setting()), shard, neighbor, draws, still, still[:, None]).state_differs


def test_with_median_clipping_one_record_moves_the_query_further_than_a_clipped_sum_may() -> None:
    """Three gradients in one direction, two of them short. One short one turns into a long one the other way: the
    median rises, so the other short one no longer counts in full."""
    rows = np.outer([1e-3, 1e-3, 1.0], np.eye(COLUMNS)[0])
    shard = Shard(rows, np.zeros(3, int))
    still = np.zeros((1, COLUMNS, 2))
    neighbor = shard.with_record(0, -rows[2], 0)
    algorithm = METHODS["DP-SGD with median clipping"](Setting())
    found = replay(algorithm, shard, neighbor, [np.array([[0, 1, 2]])], still, still[None])
    assert found.worst_ratio == pytest.approx((2 + 1 - 1e-3) / 2, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), local_steps=st.sampled_from([1, 2, 5]), loss=st.sampled_from(LOSSES))
def test_the_bound_of_dp_fedavg_as_published_holds_for_any_batches_and_any_step_size(
    seed: int, local_steps: int, loss: Loss
) -> None:
    """It is what the triangle inequality gives, for records drawn again and again; its total is what has no proof."""
    rng = np.random.default_rng(seed)
    objective = Objective(loss, REGULARIZERS[seed % len(REGULARIZERS)], 0.7)
    algorithm = METHODS["DP-FedAvg as published"](Setting(objective, local_steps, rng.uniform(0.001, 1.0)))
    shard = random_shard(rng, RECORDS)
    neighbor = shard.with_record(0, bounded(rng.standard_normal((1, COLUMNS)) * 3, 1.0)[0], int(rng.integers(2)))
    draws = [rng.integers(0, 3, (local_steps, 2)) for _ in range(ROUNDS)]
    servers = rng.standard_normal((ROUNDS, COLUMNS, loss.outputs)) * rng.uniform(0, 3)
    found = replay(algorithm, shard, neighbor, draws, servers, rng.standard_normal((ROUNDS, 1, COLUMNS, loss.outputs)))
    assert found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs


@pytest.mark.parametrize("local_steps", [1, 5])
def test_a_record_alone_in_every_batch_attains_the_bound_of_dp_fedavg_as_published(local_steps: int) -> None:
    """Labels so far away that the clipped gradient never changes."""
    objective = Objective(LeastSquares(), Unregularized(), 0.7)
    algorithm = METHODS["DP-FedAvg as published"](Setting(objective, local_steps, 0.1))
    shard = Shard(np.eye(COLUMNS)[:1], np.array([10**6]))
    neighbor = shard.with_record(0, np.eye(COLUMNS)[0], -(10**6))
    still = np.zeros((1, COLUMNS, 1))
    found = replay(algorithm, shard, neighbor, [np.zeros((local_steps, 1), int)], still, still[None])
    assert found.worst_ratio == pytest.approx(1.0, rel=1e-9)


@every_method
def test_under_a_proved_plan_the_engine_runs_what_is_proved_and_refuses_the_rest(name: str) -> None:
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    algorithm = METHODS[name](Setting(clients=5))
    run = small_run(algorithm, plan_proved(2.0, 1e-5, whole_shard(algorithm, sizes), sizes, 2))
    if name in PROVED:
        assert np.isfinite(simulate(run).weights).all()
    else:
        with pytest.raises(RuntimeError, match="its plan cannot be 'proved'"):
            simulate(run)


@pytest.mark.parametrize("name", HIDING)
def test_a_round_refuses_a_method_that_hides_state_and_calls_itself_proved(name: str) -> None:
    honest = METHODS[name](Setting())
    values = {field.name: getattr(honest, field.name) for field in fields(honest)}
    liar: Any = type("Liar", (type(honest),), {"guarantee": "proved"})(**values)
    inputs = Inputs.random(honest, 0)
    told = honest.broadcast(inputs.server, 1)

    def perturb(query: Any, draws: Any) -> Release:
        return MECHANISMS[honest.law](query, 0.1, draws)

    play(honest, told, inputs.client, inputs.batches, perturb, inputs.draws)
    with pytest.raises(RuntimeError, match="its guarantee cannot be 'proved'"):
        play(liar, told, inputs.client, inputs.batches, perturb, inputs.draws)


@every_method
def test_a_round_is_free_for_all_clients_or_for_none(name: str) -> None:
    sizes = np.array([1.0, 3.0, 1000.0])
    for round in (1, 2, 3, 4):
        costs = np.broadcast_to(METHODS[name](Setting()).sensitivity(round, sizes), 3) > 0
        assert costs.all() or not costs.any()
        assert costs.all() != (name == "DP-RADMM" and round % 2 == 0)
