"""DP-FTRL: its noise is that of a banded matrix, and a record's uses move what it hides by no more than is charged."""

from dataclasses import replace
from math import ceil, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.base import at_weights
from fedspd.algorithms.methods.dp_ftrl import DPFTRL
from fedspd.algorithms.methods.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.audit.replay import Shard
from fedspd.engine import Simulation, simulate
from fedspd.engine.spending import Spending
from fedspd.privacy import WHOLE_SHARD, RecordSampling, plan_proved
from fedspd.privacy.accounting import Gaussian, spent
from fedspd.problem import L1, Objective, Softmax, Unregularized
from tests.algorithms.test_fedspd import random_shard
from tests.algorithms.test_fedspd_published import small_problem
from tests.support.algorithms.contract_methods import small_run

COLUMNS = 3
BANDS = [1, 2, 4, 7]
every_width = pytest.mark.parametrize("bands", BANDS)


def method(bands: int, clip_norm: float = 0.7) -> DPFTRL:
    return DPFTRL(Objective(Softmax(2), L1(0.02), clip_norm), 1.0, bands)


def banded(bands: int, turns: int) -> np.ndarray:
    """C: the first coefficients of 1/sqrt(1 - x) on its diagonals, columns as long as 1 where they are whole."""
    coefficients = [1.0]
    for place in range(1, bands):
        coefficients.append(coefficients[-1] * (2 * place - 1) / (2 * place))
    lag = np.subtract.outer(np.arange(turns), np.arange(turns))
    first = np.append(coefficients, 0.0)[np.where((lag >= 0) & (lag < bands), lag, -1)]
    return first / np.linalg.norm(coefficients)


def stirred(algorithm: DPFTRL, draws: np.ndarray) -> np.ndarray:
    """Unit noises of as many participations, (turns, clients, columns, outputs)."""
    _, client, _ = algorithm.start(np.zeros(draws.shape[1:]))
    noises = []
    for fresh in draws:
        client, noise = algorithm.stir(client, fresh)
        noises.append(noise)
    return np.array(noises)


def differences(algorithm: DPFTRL, shard: Shard, neighbor: Shard, servers: np.ndarray) -> np.ndarray:
    """Of the queries on two shards, in each of many participations whose releases are the same."""
    server, client, _ = algorithm.start(np.zeros((1, COLUMNS, 2)))
    everyone, found = np.arange(len(shard.labels))[None], []
    for round, weights in enumerate(servers, start=1):
        told = algorithm.broadcast(at_weights(server, weights), round)
        one, other = (algorithm.query(told, client, side.batches(everyone))[0] for side in (shard, neighbor))
        found.append(np.ravel(np.asarray(one.value) - np.asarray(other.value)))
        client, _ = algorithm.settle(told, client, one, None)  # pyright: ignore[reportArgumentType]
    return np.array(found)


@every_width
def test_what_is_stirred_solves_the_banded_system_whose_columns_are_as_long_as_1(bands: int) -> None:
    draws = np.random.default_rng(0).standard_normal((20, 2, COLUMNS, 2))
    matrix = banded(bands, 20)
    assert np.linalg.norm(matrix, axis=0)[: 21 - bands] == pytest.approx(1.0)
    expected = np.linalg.solve(matrix, draws.reshape(20, -1)).reshape(draws.shape)
    np.testing.assert_allclose(stirred(method(bands), draws), expected, rtol=1e-12, atol=1e-12)


@every_width
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), turns=st.integers(1, 20), record=st.integers(0, 11))
def test_the_uses_of_a_record_move_what_the_noise_hides_by_at_most_the_root_of_their_number(
    bands: int, seed: int, turns: int, record: int
) -> None:
    """Whatever the server sends in between: each use counts as one Gaussian release."""
    rng = np.random.default_rng(seed)
    algorithm, shard = method(bands), random_shard(rng, 12)
    neighbor = shard.with_record(record, random_shard(rng, 1).features[0], int(rng.integers(2)))
    moved = differences(algorithm, shard, neighbor, rng.standard_normal((turns, COLUMNS, 2)) * rng.uniform(0, 3))
    uses = len(range(record % bands, turns, bands))
    assert np.count_nonzero(moved.any(axis=1)) <= uses <= ceil(turns / bands)
    hidden = banded(bands, turns) @ moved
    assert np.linalg.norm(hidden) <= sqrt(uses) * algorithm.sensitivity(1, 12.0) * (1 + 1e-9)


@every_width
def test_a_record_whose_gradient_is_always_clipped_attains_that(bands: int) -> None:
    """Of opposite sign on the two shards; the last use must be long enough ago for all of its column to count."""
    algorithm = method(bands, clip_norm=0.05)
    blank = Shard(np.zeros((9, COLUMNS)), np.zeros(9, int))
    first, second = (blank.with_record(0, np.eye(COLUMNS)[0], label) for label in (0, 1))
    moved = differences(algorithm, first, second, np.zeros((3 * bands, COLUMNS, 2)))
    expected = sqrt(3) * algorithm.sensitivity(1, 9.0)
    assert np.linalg.norm(banded(bands, 3 * bands) @ moved) == pytest.approx(expected, rel=1e-9)


def prefix_variances(bands: int, turns: int) -> np.ndarray:
    """Of the noise in the sum of the first 1, 2, ... gradients, exactly."""
    sums = np.tri(turns) @ np.linalg.inv(banded(bands, turns))
    return (sums**2).sum(axis=1)


@pytest.mark.parametrize("bands", [2, 4, 7])
@pytest.mark.parametrize("turns", [14, 28])
def test_sums_of_gradients_have_less_noise_than_with_independent_noise_of_the_same_privacy(
    bands: int, turns: int
) -> None:
    """One band of noise on the same blocks hides a record's uses as well: its matrix has columns of length 1 too."""
    ours, independent = prefix_variances(bands, turns), prefix_variances(1, turns)
    np.testing.assert_allclose(independent, np.arange(1, turns + 1))
    assert ours[-1] < 0.75 * independent[-1]
    assert ours.mean() < 0.85 * independent.mean()
    assert ours[-1] < prefix_variances(bands - 1, turns)[-1], "a wider band takes back more"
    draws = np.random.default_rng(1).standard_normal((turns, 40_000, 1, 1))
    measured = stirred(method(bands), draws).sum(axis=0).var()
    assert measured == pytest.approx(ours[-1], rel=0.03)


@every_width
def test_a_record_is_used_in_every_bth_participation_of_its_client_and_in_no_other(bands: int) -> None:
    records, turns = 9, 15
    blank = Shard(np.zeros((records, COLUMNS)), np.zeros(records, int))
    for record in range(records):
        used = differences(
            method(bands), blank.with_record(record, np.eye(COLUMNS)[0], 0), blank, np.zeros((turns, COLUMNS, 2))
        ).any(axis=1)
        assert np.flatnonzero(used).tolist() == list(range(record % bands, turns, bands))


def test_a_client_that_stayed_away_goes_on_with_the_block_whose_turn_it_is() -> None:
    algorithm = method(3)
    _, clients, _ = algorithm.start(np.zeros((2, COLUMNS, 2)))
    clients = clients._replace(turns=np.array([4.0, 5.0])[:, None, None])
    told = algorithm.broadcast(algorithm.start(np.zeros((2, COLUMNS, 2)))[0], 9)
    rows = np.zeros((6, COLUMNS))
    rows[4] = np.eye(COLUMNS)[0]  # in block 1
    batches = Shard(rows, np.zeros(6, int)).batches(np.arange(6)[None])
    both = type(batches)(*(np.repeat(part, 2, axis=0) for part in (batches.features, *batches[1:3])))
    found = np.asarray(algorithm.query(told, clients, both)[0].value)
    assert found[0].any()
    assert not found[1].any()


# --- what is charged -----------------------------------------------------------------------------------------


class Counted:
    """A gate that lets everybody pass and counts."""

    def __init__(self, clients: int) -> None:
        self.charges = np.zeros(clients, int)

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        self.charges[clients] += 1
        return np.ones(len(clients), bool)


def planned(bands: int, participations: int) -> Any:
    return plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD, blocks=bands), np.array([20, 30]), participations)


@every_width
@pytest.mark.parametrize("participations", [1, 5, 8])
def test_a_client_pays_once_for_every_b_participations_that_it_begins(bands: int, participations: int) -> None:
    plan, gate = planned(bands, participations), Counted(2)
    spending = Spending(plan, 2, gate)
    for round in range(1, participations + 1):
        assert spending.charge(round, np.array([0, 1])).tolist() == [0, 1]
        assert gate.charges.tolist() == [ceil(round / bands)] * 2
        ((event, count),) = plan.history(0, round)
        assert (type(event), count) == (Gaussian, ceil(round / bands))
        assert spending.epsilon[0] == spent([(event, count)], 1e-5).epsilon
    assert not spending.may_take_part.any()
    assert 1.9 < spending.epsilon.max() <= 2.0


@every_width
def test_the_noise_of_a_plan_grows_with_the_uses_of_a_record_and_not_with_participations(bands: int) -> None:
    multipliers = planned(bands, 12).noise_multipliers
    single = planned(1, 1).noise_multipliers
    assert multipliers == pytest.approx(single * sqrt(ceil(12 / bands)), rel=1e-4)


def run(bands: int, blocks: int) -> Simulation:
    sizes = np.asarray(small_problem(seed=3, clients=5)[0].sizes)
    plan = plan_proved(2.0, 1e-5, RecordSampling(WHOLE_SHARD, blocks=blocks), sizes, 6)
    return small_run(method(bands), plan, rounds=6)


def test_a_run_pays_its_ledger_for_every_turn_of_the_blocks() -> None:
    gate = Counted(5)
    outcome = simulate(run(3, 3), gate=gate)
    assert (gate.charges.tolist(), outcome.participations.tolist()) == ([2] * 5, [6] * 5)
    assert 1.9 < outcome.history.last("epsilon_max") <= 2.0


@pytest.mark.parametrize("blocks", [2, 3])
def test_a_plan_that_charges_more_rarely_than_records_are_used_is_refused(blocks: int) -> None:
    with pytest.raises(RuntimeError, match=f"come in turns of 1, its plan charges in turns of {blocks}"):
        simulate(run(1, blocks))
    simulate(run(3, blocks))


def test_with_one_band_noise_and_query_are_those_of_noisy_proximal_gradient() -> None:
    rng = np.random.default_rng(0)
    ftrl, gradient = method(1), NoisyProximalGradient(Objective(Softmax(2), L1(0.02), 0.7), Constant(1.0))
    draws = rng.standard_normal((5, 2, COLUMNS, 2))
    np.testing.assert_array_equal(stirred(ftrl, draws), draws)
    shard, weights = random_shard(rng, 8), rng.standard_normal((COLUMNS, 2))
    queries = []
    one: Any
    for one in (replace(ftrl, objective=replace(ftrl.objective, regularizer=Unregularized())), gradient):
        server, client, _ = one.start(np.zeros((1, COLUMNS, 2)))
        told = one.broadcast(at_weights(server, weights), 1)._replace(weights=weights)
        queries.append(one.query(told, client, shard.batches(np.arange(8)[None]))[0].value)
    np.testing.assert_allclose(*queries, rtol=1e-12)
    assert ftrl.sensitivity(1, 8.0) == gradient.sensitivity(1, 8.0)
