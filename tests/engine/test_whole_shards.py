"""Whole shards of unequal size are played in parts of similar size, which changes nothing but the time it takes."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.data import Table, assign
from fedspd.engine import Simulation, simulate
from fedspd.engine.batches import gather_batches
from fedspd.engine.draws import NOBODY
from fedspd.engine.numpy_engine import ALIKE, PART, Draws, WholeShards, alike, draw_round, whole_parts
from fedspd.engine.participation import choose
from fedspd.engine.spending import Spending
from fedspd.privacy import POISSON, WHOLE_SHARD, RecordSampling, plan_proved
from fedspd.problem import L1, Objective, Softmax
from fedspd.typing import Batches

COLUMNS = 4
OBJECTIVE = Objective(Softmax(2), L1(0.01), 0.5)


def unequal(clients: int, seed: int = 0) -> tuple[Table, np.ndarray]:
    """Records of bounded norm, and owners of between one and sixty of them."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(clients), rng.integers(8, 60, clients))
    features = rng.standard_normal((len(owner), COLUMNS))
    features /= np.linalg.norm(features, axis=1).max()
    labels = (features @ rng.standard_normal(COLUMNS) > 0).astype(int)
    return Table(features, labels, tuple("abcd"), ("no", "yes")), owner


def without_noise(given: Draws) -> Draws:
    """The same records."""
    return given._replace(noise=0 * given.noise)


def whole(clients: int, participants: int, local_steps: int, counts: str = "clients") -> Simulation:
    table, owner = unequal(clients)
    shards = replace(assign(table, owner, clients), counts=counts)  # pyright: ignore[reportArgumentType]
    plan = plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD), np.asarray(shards.sizes), 6)
    crowding = float((-(-shards.sizes // local_steps) * local_steps / shards.divisors).max())
    algorithm = FedSPD(OBJECTIVE, clients, 0.5, local_steps, 2.0, 1.0, crowding=crowding)
    return Simulation(shards, table, algorithm, plan, None, participants, 6, seed=4)


def gathered(simulation: Simulation, clients: np.ndarray, records: np.ndarray) -> Batches:
    """The named records of each client."""
    return gather_batches(simulation.shards, clients, records, simulation.batch_sizes(clients))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60))
@settings(deadline=None)
def test_parts_hold_everyone_once_and_only_shards_of_similar_size(sizes: list[int]) -> None:
    parts = alike(np.array(sizes))
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(sizes)))
    for part in parts:
        among = np.array(sizes)[part]
        assert len(part) <= PART
        assert among.min() >= ALIKE * among.max()


def test_a_part_never_holds_more_than_a_thread_plays_at_a_time() -> None:
    parts = alike(np.full(3 * PART + 1, 7))
    assert [len(part) for part in parts] == [PART, PART, PART, 1]


@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("counts", ["clients", "records"])
@pytest.mark.parametrize("likeness", [0.0, 0.95, 2.0])
def test_playing_all_together_in_parts_or_each_alone_gives_the_same_run(
    likeness: float, counts: str, local_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0: never in parts; 2: every client is a part of its own."""
    run = whole(12, 7, local_steps, counts)
    usual = simulate(run)
    monkeypatch.setattr(import_module("fedspd.engine.numpy_engine"), "ALIKE", likeness)
    other = simulate(run)
    np.testing.assert_allclose(other.models, usual.models, rtol=0, atol=1e-12)
    for column in ("clipped_share", "alfv", "consensus_error"):
        np.testing.assert_allclose(other.history[column], usual.history[column], rtol=0, atol=1e-11)
    assert np.abs(usual.weights).max() > 0.05, "a run that does not move would agree with anything"


def test_the_parts_of_these_runs_are_more_than_one_and_fewer_than_the_participants() -> None:
    run = whole(12, 7, 1)
    sizes = run.shards.sizes[choose(run, 1, Spending(run.plan, 12, None))]
    assert 1 < len(alike(sizes)) < 7


@pytest.mark.parametrize("local_steps", [1, 3])
def test_every_client_of_a_round_is_queried_on_exactly_its_own_records(local_steps: int) -> None:
    run = whole(12, 7, local_steps)
    chosen = choose(run, 1, Spending(run.plan, 12, None))
    records = draw_round(run, 1, chosen).records
    for client, batches in zip(chosen, np.asarray(gathered(run, chosen, records).features), strict=True):
        rows = batches.reshape(-1, COLUMNS)
        rows = rows[np.abs(rows).sum(axis=1) > 0]
        own = run.shards.shard(client)[0]
        np.testing.assert_array_equal(rows[np.lexsort(rows.T)], own[np.lexsort(own.T)])


def test_with_one_step_a_whole_pass_of_fedavg_is_a_step_along_the_mean_gradient_of_the_shard() -> None:
    run = whole(12, 12, 1)
    free = Objective(Softmax(2), L1(0.01), 10.0)
    averaged = replace(run, algorithm=DPFedAvg(FedAvg(free, 1, Constant(2.0)), 1.0), rounds=1)
    silent = replace(averaged, plan=plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD), run.shards.sizes, 6, 0.0, 0.01))
    model = simulate(silent, drawn=lambda *turn: without_noise(draw_round(silent, *turn))).weights
    expected = np.zeros((COLUMNS, 2))
    for client in range(12):
        features, labels = run.shards.shard(client)
        slopes = np.full((len(labels), 2), 0.5) - np.eye(2)[labels]  # of softmax at zero
        moved = -features.T @ slopes / len(labels) / 2.0
        expected += np.sign(moved) * np.maximum(np.abs(moved) - 0.01 / 2.0, 0) / 12
    np.testing.assert_allclose(model, expected, atol=1e-8)


def test_a_round_in_which_nobody_drew_a_record_is_a_round_of_noise() -> None:
    """Poisson sampling at a low rate: half of all rounds of a single participant are empty."""
    table, owner = unequal(6)
    shards = assign(table, owner, 6)
    plan = plan_proved(2.0, 1e-5, RecordSampling(POISSON, 1), np.asarray(shards.sizes), 40)
    algorithm = DPSGD(OBJECTIVE, Constant(2.0), relation="zero-out")
    run = Simulation(shards, table, algorithm, plan, 1, 1, 40, seed=0)
    empty = [bool((draw_round(run, t, np.array([0])).records == NOBODY).all()) for t in range(1, 41)]
    assert 5 < sum(empty) < 35
    outcome = simulate(run)
    assert len(outcome.models) == 40
    assert np.isfinite(outcome.models).all()
    assert np.all(np.diff(outcome.history["round"]) == 1), "an empty round takes place too"


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 40))
def test_every_participant_is_in_one_part_whether_it_is_copied_or_not(data: st.DataObject, count: int) -> None:
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, 60), min_size=count, max_size=count))))
    sizes = np.array(data.draw(st.lists(st.sampled_from([1, 700, 5000]), min_size=count, max_size=count)))
    parts = whole_parts(chosen, sizes, 81)
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    for part in parts:
        assert len(np.unique(sizes[part])) == 1 or sizes[part].min() >= ALIKE * sizes[part].max()


def test_whole_shards_of_neighbors_of_one_size_are_not_copied() -> None:
    simulation = whole(6, 6, 1)
    shards = replace(simulation.shards, offsets=np.array([0, 5, 10, 15, len(simulation.shards.labels)]))
    three, records = np.arange(3), np.broadcast_to(np.arange(5), (3, 1, 5))
    found = gather_batches(shards, three, records, np.full(3, 5.0))
    assert np.shares_memory(found.features, shards.features)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(found.features)[0] = 0.0
    other = gather_batches(shards, three, records[..., ::-1], np.full(3, 5.0))
    assert not np.shares_memory(other.features, shards.features), "in another order they are"
    for one, two in zip(found, other, strict=True):
        if one is not None:
            np.testing.assert_array_equal(np.asarray(one), np.asarray(two)[:, :, ::-1] if len(two.shape) > 1 else two)
    fewer = gather_batches(shards, three, records[..., :4], np.full(3, 5.0))
    assert not np.shares_memory(fewer.features, shards.features)


def test_a_run_is_the_same_whether_its_shards_are_copied_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = whole(12, 12, 1)
    shards = replace(simulation.shards, offsets=np.append(20 * np.arange(12), len(simulation.shards.labels)))
    plan = plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD), np.asarray(shards.sizes), 6)
    simulation = replace(simulation, shards=shards, plan=plan)
    expected = simulate(simulation).models
    monkeypatch.setattr(import_module("fedspd.engine.numpy_engine"), "LARGE", 1)
    np.testing.assert_allclose(simulate(simulation).models, expected, rtol=1e-12, atol=1e-14)


class Refusing:
    """A ledger in which one client has budget for two rounds only."""

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        return (clients != 3) | (round < 3)


def some_left_out(simulation: Simulation, round: int, chosen: np.ndarray) -> Draws:
    """In the third round every client's last places are empty."""
    found = draw_round(simulation, round, chosen)
    if round != 3:
        return found
    records = found.records.copy()
    records[..., 5:] = NOBODY
    return found._replace(records=records)


@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("fixed", [False, True])
def test_what_was_gathered_for_one_round_serves_in_another_only_where_it_is_the_same(
    local_steps: int, fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(whole(12, 7 if fixed else 12, local_steps), same_participants=fixed)

    def played() -> list[np.ndarray]:
        return [
            simulate(run).models,
            simulate(run, gate=Refusing()).models,
            simulate(run, drawn=lambda *turn: some_left_out(run, *turn)).models,
        ]

    kept = played()
    assert len({models.tobytes() for models in kept}) > 1, "who is missing makes another run"
    monkeypatch.setattr(import_module("fedspd.engine.numpy_engine"), "KEPT", 0)
    for one, other in zip(kept, played(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_shards_of_those_who_take_part_in_every_round_are_gathered_once() -> None:
    run, everybody = whole(12, 12, 1), np.arange(12)
    shards = WholeShards(run)

    def asked(chosen: np.ndarray) -> Batches:
        records = draw_round(run, 1, chosen).records
        shards.ask(chosen, records)
        return shards.batches(0, lambda: gathered(run, chosen, records))

    first = asked(everybody)
    assert asked(everybody.copy()) is first
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(first.features)[0] = 0.0
    assert asked(everybody[:11]) is not first
