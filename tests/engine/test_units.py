"""Persons as what is protected: their rows count as one, stay in one batch, and move no more than one record does."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms import Moments
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.audit.replay import Shard, attack
from fedspd.data import Category, Shards, Table, assign
from fedspd.data.holding.units import NOBODY, Units
from fedspd.engine import Simulation, simulate
from fedspd.engine.batches import draw_records, gather_batches, nominal_sizes
from fedspd.privacy import WHOLE_SHARD, RecordSampling, plan_proved
from fedspd.problem import L1, Objective, Softmax, Unregularized
from tests.support.algorithms.contract_methods import METHODS, PROVED, Setting, relations

BY_PERSON = [name for name in PROVED if not (made := METHODS[name](Setting())).exact and not hasattr(made, "blocks")]
"""Methods that take persons; what the others say is tested with the command line's refusals."""


def dealt(counts: list[int], clients: int = 2) -> Shards:
    """Persons with so many rows each, by turns at the clients, in no order."""
    rng = np.random.default_rng(0)
    person = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    rows = rng.standard_normal((len(person), 3))
    features = rows / np.linalg.norm(rows, axis=1, keepdims=True) * rng.uniform(0.2, 1, (len(rows), 1))
    names = tuple(map(str, range(len(counts))))
    table = Table(features, rng.integers(0, 2, len(person)), ("a", "b", "c"), ("no", "yes"),
                  persons=Category(person, names))  # fmt: skip
    return assign(table, person % clients, clients, "person")


def test_sizes_and_divisors_count_persons() -> None:
    shards = dealt([1, 2, 3, 4, 5, 6])
    assert shards.sizes.tolist() == [3, 3]
    assert shards.rows.tolist() == [9, 12]
    assert shards.divisors.tolist() == [3.0, 3.0]
    assert replace(shards, counts="records").divisors.tolist() == [3.0, 3.0]


counts = st.lists(st.integers(1, 7), min_size=8, max_size=30)


@given(counts, st.integers(1, 4), st.integers(0, 99), st.sampled_from(["", "poisson", "without-replacement"]))
@settings(deadline=None, max_examples=60)
def test_all_rows_of_a_person_that_is_drawn_are_in_one_batch_and_weigh_one(
    counts: list[int], steps: int, seed: int, sampling: str
) -> None:
    shards, clients = dealt(counts), np.array([1, 0])
    batch = None if not sampling or steps * 1 > shards.sizes.min() else 1
    drawn = draw_records(np.random.default_rng(seed), shards.sizes[clients], sampling, batch, steps)
    assert shards.units is not None
    rows = shards.units.spread(clients, drawn)
    whose = np.repeat(np.arange(len(counts)), shards.units.rows)
    for at, client in enumerate(clients.tolist()):
        for step in range(steps):
            expected = sorted(shards.units.offsets[client] + drawn[at, step][drawn[at, step] != NOBODY])
            found = rows[at, step][rows[at, step] != NOBODY]
            assert sorted(set(whose[found].tolist())) == expected
            assert len(found) == sum(shards.units.rows[person] for person in expected)
    batches = gather_batches(shards, clients, drawn, nominal_sizes(shards.holdings, clients, batch, steps))
    weight = np.where(rows == NOBODY, 0, np.asarray(batches.shares)).sum(axis=-1)
    np.testing.assert_allclose(weight, (drawn != NOBODY).sum(axis=-1), rtol=1e-12)


def run_of(shards: Shards, unit: str, local_steps: int = 1, rounds: int = 3) -> np.ndarray:
    """Final weights of FedSPD-DP on whole shards."""
    algorithm = FedSPD(Objective(Softmax(2), L1(0.01), 0.5), shards.clients, 0.3, local_steps, 1.0, 1.0)
    sampling = RecordSampling(WHOLE_SHARD, None, local_steps, algorithm.contraction, unit=unit)
    plan = plan_proved(5.0, 1e-3, sampling, shards.sizes, rounds)
    test = Table(np.asarray(shards.features, float), shards.labels, ("a", "b", "c"), ("no", "yes"))
    return simulate(Simulation(shards, test, algorithm, plan, None, shards.clients, rounds, seed=1)).weights


@pytest.mark.parametrize("local_steps", [1, 3])
def test_a_run_is_the_same_to_the_bit_where_everybody_has_one_row(local_steps: int) -> None:
    persons = dealt([1] * 20)
    records = replace(persons, units=None)
    np.testing.assert_array_equal(run_of(persons, "person", local_steps), run_of(records, "record", local_steps))


@pytest.mark.parametrize("local_steps", [1, 3])
def test_rows_that_are_repeated_change_nothing(local_steps: int) -> None:
    """Neither weights nor divisors nor noise know how often a person's row is there."""
    shards = dealt([1] * 20)
    assert shards.units is not None
    times = np.random.default_rng(2).integers(1, 6, 20)
    starts = np.concatenate([[0], np.cumsum(times)])
    more = replace(
        shards, features=np.repeat(shards.features, times, axis=0), labels=np.repeat(shards.labels, times),
        offsets=starts[shards.units.offsets], order=None, units=Units("person", starts, shards.units.offsets),
    )  # fmt: skip
    np.testing.assert_allclose(run_of(more, "person", local_steps), run_of(shards, "person", local_steps), rtol=1e-9)


def test_a_plan_for_records_does_not_run_on_persons() -> None:
    with pytest.raises(RuntimeError, match="the records are counted by person, its plan counts by record"):
        run_of(dealt([2, 2, 2, 2]), "record")


def test_moments_count_a_persons_mean() -> None:
    shards = dealt([1, 2, 3, 4, 5, 6])
    moments = Moments(np.array([True, True, True]), 0, 0.3)
    assert shards.units is not None
    found = np.asarray(moments.query(shards.features, shards.offsets, shards.units.shares).value)
    starts = shards.units.starts
    means = [np.mean(np.hstack([rows, rows**2]), axis=0) for rows in np.split(shards.features, starts[1:-1])]
    np.testing.assert_allclose(found, [np.sum(means[:3], axis=0), np.sum(means[3:], axis=0)], rtol=1e-12)


@given(seed=st.integers(0, 999))
@settings(deadline=None, max_examples=50)
def test_a_person_moves_the_moments_by_no_more_than_a_record_may(seed: int) -> None:
    """One-hot levels in columns 0 and 1, a number in column 2; the other person has another number of rows."""
    rng, moments = np.random.default_rng(seed), Moments(np.array([False, False, True]), 1, 0.3)

    def sums(rows: int) -> np.ndarray:
        levels = np.eye(2)[rng.integers(0, 2, rows)]
        features = np.column_stack([levels, rng.choice([-1.0, 1.0, 0.2], rows)])
        return np.asarray(moments.query(features, np.array([0, rows]), np.full(rows, 1 / rows)).value)

    assert np.linalg.norm(sums(int(rng.integers(1, 6))) - sums(int(rng.integers(1, 6)))) <= moments.sensitivity + 1e-12


@pytest.mark.parametrize("name", BY_PERSON)
def test_a_replay_with_a_whole_person_swapped_finds_nothing(name: str) -> None:
    for relation in relations(name):
        for steps in (1, 3):
            algorithm = METHODS[name](Setting(local_steps=steps, relation=relation))
            found = attack(algorithm, 1.0, unit="person")
            assert found.survived, (relation, steps, found)


def test_the_bound_is_attained_by_a_person_with_several_rows() -> None:
    """As for a record, with its row three times against the same with the other label twice."""
    algorithm = FedSPD(Objective(Softmax(2), Unregularized(), sqrt(0.5)), 1, 0.2, 5, 0.4, 1.0)
    starts = np.concatenate([[0], np.arange(3, 23)])
    rows, labels = np.zeros((22, 3)), np.zeros(22, int)
    rows[:3, 0] = 1.0
    shard = Shard(rows, labels, starts)
    neighbor = shard.with_person(0, rows[:2], np.ones(2, int))
    server, client, _ = algorithm.start(np.zeros((1, 3, 2)))
    told, size = algorithm.broadcast(server, 1), np.array([4])
    drawn = np.arange(20).reshape(5, 4)
    one, two = (algorithm.query(told, client, each.batches(drawn))[0].value for each in (shard, neighbor))
    ratio = np.linalg.norm(np.asarray(one) - np.asarray(two)) / algorithm.sensitivity(1, size)[0]
    assert ratio == pytest.approx(1.0, abs=1e-12)
