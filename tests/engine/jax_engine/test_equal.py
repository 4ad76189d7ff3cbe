"""The compiled engine is the NumPy engine: given the same draws, every method gives the same numbers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedspd import InputError
from fedspd.algorithms.parts.network import Network
from fedspd.algorithms.parts.topology import make_topology
from fedspd.engine import Outcome, Simulation, simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.engine.numpy_engine import draw_round
from fedspd.privacy import (
    POISSON,
    WHOLE_SHARD,
    WITH_REPLACEMENT,
    WITHOUT_REPLACEMENT,
    RecordSampling,
    plan_as_published,
    plan_proved,
)
from tests.algorithms.test_fedspd_published import small_problem
from tests.engine.test_budgets import proved
from tests.support.algorithms.contract_methods import CONSENSUS, EXACT, METHODS, PROVED, WHOLE, Setting

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")


def compiled(run: Simulation, kind: Any = np.float64, own_draws: bool = False) -> Outcome:
    from fedspd.engine.jax_engine.batch import simulate_batch

    handed_in = None if own_draws else lambda round, chosen: draw_round(run, round, chosen)
    ((_, outcome),) = simulate_batch([run], kind=kind, drawn=handed_in)
    return outcome


def batched(
    name: str, sampling: str = WITHOUT_REPLACEMENT, relation: str = "replace-one", **changes: Any
) -> Simulation:
    """Three of five clients in each of four rounds; two batches of three where the method takes several steps.

    Methods of whole shards take those, and methods of all clients all five.
    """
    shards, table = small_problem(seed=3, clients=5)
    shards = replace(shards, features=shards.features / np.linalg.norm(shards.features, axis=1).max())
    algorithm = METHODS[name](Setting(local_steps=2, clients=5, relation=relation))
    sizes, sampling = np.asarray(shards.sizes), WHOLE_SHARD if name in WHOLE else sampling
    plan: Any = plan_as_published(3.0, "round", 1e-4, sampling, 3 * algorithm.local_steps, sizes, 2.0, algorithm.law)
    if algorithm.guarantee == "none":
        plan = replace(plan, epsilon_per_round=np.inf)
    settings: dict[str, Any] = {
        "batch_size": None if name in WHOLE else 3, "participants": 5 if name in CONSENSUS else 3, "rounds": 4,
        "seed": 1,
    }  # fmt: skip
    return Simulation(shards, table, algorithm, plan, **(settings | changes))


def on_a_ring(name: str) -> Simulation:
    star = batched(name)
    ring = Network(5, make_topology("ring", 5, 0.0, np.random.default_rng(0)))
    return replace(star, algorithm=replace(star.algorithm, network=ring))  # pyright: ignore[reportArgumentType]


QUICK = ("FedSPD-DP", "FedSPD-DP as published", "DP-SGD", "DP-FedAvg", "DP-SCAFFOLD", "DP-FTRL", "DP-MADMM")


def compiled_quickly(name: str) -> Any:
    """Each program takes a second to compile, or three with an exact sub-problem; some are enough for a quick look."""
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)


def assert_same(one: Outcome, two: Outcome, tolerance: float) -> None:
    np.testing.assert_allclose(one.models, two.models, rtol=tolerance, atol=tolerance)
    for name, column in one.history.columns.items():
        np.testing.assert_allclose(column, two.history[name], rtol=tolerance, atol=tolerance, err_msg=name)
    np.testing.assert_array_equal(one.participations, two.participations)


@pytest.mark.parametrize("name", [compiled_quickly(name) for name in METHODS])
def test_given_the_same_draws_a_method_gives_the_same_numbers(name: str) -> None:
    """Exact sub-problems are solved until their gradients are as good as zero."""
    run = batched(name)
    assert_same(simulate(run), compiled(run), 1e-8 if name in EXACT else 1e-10)


@pytest.mark.parametrize("name", ["FedSPD-DP", pytest.param("DP-SGD", marks=pytest.mark.slow)])
def test_the_mean_of_all_rounds_is_the_same_too_and_another_model_than_the_last(name: str) -> None:
    last = batched(name)
    run = replace(last, algorithm=replace(last.algorithm, averaging=1.0))  # pyright: ignore[reportArgumentType]
    assert_same(simulate(run), compiled(run), 1e-10)
    assert not np.allclose(simulate(run).weights, simulate(last).weights)


@pytest.mark.parametrize("name", [compiled_quickly(name) for name in CONSENSUS])
def test_on_a_ring_a_method_gives_the_same_numbers_too_and_others_than_on_a_star(name: str) -> None:
    run = on_a_ring(name)
    assert_same(simulate(run), compiled(run), 1e-8)
    assert not np.allclose(simulate(run).weights, simulate(batched(name)).weights)


def test_in_single_precision_the_numbers_differ_by_rounding_alone() -> None:
    run = batched("FedSPD-DP as published")
    assert_same(simulate(run), compiled(run, np.float32), 3e-6)
    with pytest.raises(AssertionError):
        assert_same(simulate(run), compiled(run, np.float32), 1e-12)


@pytest.mark.parametrize("local_steps", [1, 3])
def test_whole_shards_of_unequal_size_and_clients_without_budget_make_no_difference(local_steps: int) -> None:
    run = proved(cap=2, participants=4, rounds=9)
    run = replace(run, algorithm=replace(run.algorithm, local_steps=local_steps))  # pyright: ignore[reportArgumentType]
    one, two = simulate(run), compiled(run)
    assert one.history["participants"].min() < 4, "rounds with empty places are what this test is about"
    assert len(one.models) < 9, "so are rounds that are not played at all"
    assert_same(one, two, 1e-10)


@pytest.mark.parametrize("name", ["DP-SGD", "DP-FedAvg", "FedSPD-DP"])
def test_empty_places_do_not_count_in_any_average(name: str) -> None:
    run = proved(cap=2, participants=4, rounds=9)
    algorithm = METHODS[name](Setting(clients=6))
    assert name in PROVED
    run = replace(run, algorithm=algorithm)
    assert_same(simulate(run), compiled(run), 1e-10)


def test_without_the_lagrangian_everything_else_stays_the_same() -> None:
    run = batched("FedSPD-DP", lagrangian=False)
    one, two = simulate(run), compiled(run)
    assert_same(one, two, 1e-10)
    np.testing.assert_array_equal(one.models, simulate(replace(run, lagrangian=True)).models)
    assert np.isnan(one.history["alfv"]).all()
    with pytest.raises(RuntimeError, match="did not follow"):
        _ = two.lagrangian


@pytest.mark.slow
def test_runs_side_by_side_are_the_runs_alone_whatever_their_numbers() -> None:
    from fedspd.engine.jax_engine.batch import simulate_batch

    runs = [batched("FedSPD-DP", seed=seed) for seed in (1, 2, 3)]
    weaker = replace(runs[2].algorithm, penalty=0.9, inverse_step=2.0)  # pyright: ignore[reportArgumentType]
    runs[2] = replace(runs[2], algorithm=weaker)
    longer = batched("FedSPD-DP", rounds=6)
    together = dict(simulate_batch([*runs, longer], kind=np.float64))
    for number, run in enumerate([*runs, longer]):
        assert_same(together[number], compiled(run, own_draws=True), 1e-10)
    assert not np.allclose(together[0].weights, together[1].weights)
    assert len(together[3].models) == 6


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    run = batched("FedSPD-DP")
    one, again, other = (compiled(r, own_draws=True).models for r in (run, run, replace(run, seed=2)))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


def test_poisson_batches_are_refused_with_a_remedy() -> None:
    run = batched("FedSPD-DP", relation="zero-out")
    plan = plan_proved(2.0, 1e-5, RecordSampling(POISSON, 3), np.asarray(run.shards.sizes), 6)
    with pytest.raises(InputError, match="--engine numpy"):
        compiled(replace(run, plan=plan), own_draws=True)


def test_what_the_numpy_engine_refuses_is_refused_here_too() -> None:
    with pytest.raises(InputError, match="local_steps x batch_size"):
        compiled(batched("FedSPD-DP", batch_size=100))
    run = proved(cap=2, participants=4, rounds=2)
    with pytest.raises(RuntimeError, match="its plan cannot be 'proved'"):
        compiled(replace(run, algorithm=METHODS["FedPD"](Setting(clients=6))))


def test_draws_with_replacement_run_too() -> None:
    run = batched("FedSPD-DP as published", WITH_REPLACEMENT)
    assert_same(simulate(run), compiled(run), 1e-10)
    assert np.isfinite(compiled(run, own_draws=True).weights).all()


def test_between_runs_the_callers_own_settings_of_jax_hold() -> None:
    import jax.numpy as jnp

    from fedspd.engine.jax_engine.batch import simulate_batch

    for _ in simulate_batch([batched("FedSPD-DP", seed=seed) for seed in (1, 2)]):
        assert jnp.zeros(1).dtype == jnp.float32


def test_a_run_in_which_nobody_has_budget_is_refused() -> None:
    class Closed:
        def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
            return np.zeros(len(clients), bool)

    from fedspd.engine.jax_engine.batch import simulate_batch

    with pytest.raises(InputError, match="no client had budget"):
        list(simulate_batch([batched("FedSPD-DP")], Closed()))
