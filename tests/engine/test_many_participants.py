"""Rounds of more participants than share a stream of draws: who computes them changes nothing."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.data import Table, assign
from fedspd.engine import Simulation, draws, simulate
from fedspd.engine.draws import BLOCK
from fedspd.engine.numpy_engine import PART, draw_round, drawn_parts
from fedspd.engine.parallel import ParallelMap
from fedspd.privacy import POISSON, WHOLE_SHARD, WITHOUT_REPLACEMENT, plan_as_published
from fedspd.problem import L1, Objective, Softmax, fast
from tests.soak.checks import plain_models

CLIENTS, MANY, COLUMNS, STEPS, BATCH = 1300, 1200, 4, 2, 3
ENGINE = import_module("fedspd.engine.numpy_engine")
SAMPLINGS = pytest.mark.parametrize("sampling", [WITHOUT_REPLACEMENT, POISSON, WHOLE_SHARD])


def many(sampling: str = WITHOUT_REPLACEMENT, kind: Any = np.float64) -> Simulation:
    """1200 participants with shards of unequal size in each of three rounds: two blocks and a part of one."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(CLIENTS), rng.integers(8, 24, CLIENTS))
    features = rng.normal(size=(len(owner), COLUMNS))
    features /= np.linalg.norm(features, axis=1).max()
    labels = (features[:, 0] > 0).astype(np.int64)
    table = Table(features, labels, tuple("abcd"), ("no", "yes"))
    shards = assign(table, owner, CLIENTS)
    shards = replace(shards, features=shards.features.astype(kind))
    method = FedSPD(Objective(Softmax(2), L1(0.01), 0.5), CLIENTS, 0.5, STEPS, 2.0, 1.0, crowding=3.0)
    plan = plan_as_published(3.0, "round", 1e-4, sampling, STEPS * BATCH, np.asarray(shards.sizes), 2.0, "gaussian")
    batch = None if sampling == WHOLE_SHARD else BATCH
    return Simulation(shards, table, method, plan, batch, MANY, 3, seed=1)


def on_threads(run: Simulation, threads: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """All that a run ends with."""

    @contextmanager
    def cores() -> Iterator[ParallelMap]:
        with ThreadPoolExecutor(threads) as pool:
            yield pool.map

    monkeypatch.setattr(ENGINE, "cores", cores)
    outcome = simulate(run)
    trace = outcome.lagrangian
    return {"models": outcome.models, "weights": trace.weights, "dual": trace.dual, **outcome.history.columns}


@SAMPLINGS
@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "text"])
def test_a_round_of_many_is_the_same_to_the_bit_on_any_number_of_threads(
    sampling: str, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels:
        monkeypatch.setattr(fast, "library", lambda: None)
    alone = on_threads(many(sampling, np.float32), 1, monkeypatch)
    assert np.abs(alone["models"][-1]).max() > 1e-3, "a run that does not move would agree with anything"
    for threads in (2, 7):
        for name, found in on_threads(many(sampling, np.float32), threads, monkeypatch).items():
            np.testing.assert_array_equal(found, alone[name], name)


@SAMPLINGS
def test_a_round_of_many_is_that_of_its_clients_one_by_one(sampling: str) -> None:
    run = many(sampling)
    np.testing.assert_allclose(simulate(run).models, plain_models(run), rtol=0, atol=1e-13)


@SAMPLINGS
def test_those_of_the_first_block_draw_as_if_nobody_else_took_part(sampling: str) -> None:
    run, chosen = many(sampling), np.arange(MANY)
    few, all_of_them = draw_round(run, 2, chosen[:BLOCK]), draw_round(run, 2, chosen)
    np.testing.assert_array_equal(all_of_them.noise[:BLOCK], few.noise)
    width = few.records.shape[2]
    np.testing.assert_array_equal(all_of_them.records[:BLOCK, :, :width], few.records)
    assert (all_of_them.records[:BLOCK, :, width:] == draws.NOBODY).all()
    normals = draws.stream(run.seed, "noise", 2).standard_normal(few.noise.shape)
    np.testing.assert_array_equal(few.noise, normals, "the stream of the round, from which all drew once")


def require_blocks_of_their_own() -> None:
    """Noise and records of all blocks and rounds have nothing in common."""
    run, chosen = many(), np.arange(2 * BLOCK)
    noise = []
    for round in (1, 2, 3):
        drawn = draw_round(run, round, chosen)
        noise += np.split(drawn.noise.ravel(), 2)
        assert (drawn.records[:BLOCK] != drawn.records[BLOCK:]).any()
    assert len(np.unique(noise)) == np.size(noise), "normals of 53 bits that meet again are one draw"
    assert abs(np.corrcoef(noise) - np.eye(6)).max() < 0.08, "five deviations of what chance makes of 4096 pairs"


def test_no_two_blocks_share_noise_or_records_in_any_round() -> None:
    require_blocks_of_their_own()


@pytest.mark.parametrize("bug", ["one stream for all blocks", "the next round's"])
def test_blocks_that_shared_a_stream_would_be_found_out(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference of two clients' uploads would be free of noise, or that of one client's in two rounds."""

    def shared(self: draws.Block, seed: int, name: Any, round: int) -> np.random.Generator:
        return draws.stream(seed, name, round + (self.number if bug == "the next round's" else 0))

    monkeypatch.setattr(draws.Block, "stream", shared)
    with pytest.raises(AssertionError):
        require_blocks_of_their_own()


def test_a_block_draws_the_same_whoever_comes_before_it() -> None:
    run, chosen = many(), np.arange(MANY)
    other = np.concatenate([chosen[:BLOCK][::-1], chosen[BLOCK:]])
    one, two = draw_round(run, 1, chosen), draw_round(run, 1, other)
    np.testing.assert_array_equal(one.records[BLOCK:], two.records[BLOCK:])
    np.testing.assert_array_equal(one.noise, two.noise)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "text"])
def test_a_round_of_many_is_the_same_to_the_bit_in_larger_and_smaller_parts(
    kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernels:
        monkeypatch.setattr(fast, "library", lambda: None)
    usual = simulate(many())
    for size in (50, 2 * PART):
        monkeypatch.setattr(ENGINE, "PART", size)
        found = simulate(many())
        np.testing.assert_array_equal(found.models, usual.models)
        np.testing.assert_array_equal(found.lagrangian.dual, usual.lagrangian.dual)


@given(st.integers(1, 100_000))
def test_parts_hold_everyone_once_and_are_few_and_even(participants: int) -> None:
    numbers = np.arange(participants)
    parts = [numbers[part] for part in drawn_parts(participants)]
    np.testing.assert_array_equal(np.concatenate(parts), numbers)
    assert max(map(len, parts)) <= PART
    assert len(parts) == -(-participants // PART)
    assert len(parts[-1]) > len(parts[0]) - len(parts)
