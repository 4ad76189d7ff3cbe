"""Rivals beyond Table 1 against plain implementations on the same draws, the optimum, and each other."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms.methods.dp_aadmm import DPAADMM
from fedspd.algorithms.methods.dp_ftrl import DPFTRL
from fedspd.algorithms.methods.dp_scaffold import DPSCAFFOLD
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.noisy_prox_gd import NoisyProximalGradient
from fedspd.algorithms.methods.one_shot import OneShot
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.parts.step_sizes import Constant, SquareRoot
from fedspd.engine import simulate
from fedspd.problem import L1, SquaredL2, Unregularized, reference_optimum
from tests.algorithms.test_table_one import (
    BOUND,
    CLIENTS,
    DELTA,
    EPSILON,
    OPEN,
    OPEN_SPARSE,
    ROW_NORM,
    SHAPE,
    SMOOTH,
    SPARSE,
    STRENGTH,
    assert_agree,
    gaps,
    in_batches,
    in_copies,
    played,
    simulation,
)
from tests.support.algorithms import plain_rivals as plain

some_or_all = pytest.mark.parametrize("participants", [2, CLIENTS])


@some_or_all
@pytest.mark.parametrize("relaxation", [0.5, 0.9])
@pytest.mark.parametrize("strength", [0.0, STRENGTH])
def test_private_admm_and_its_plain_implementation_agree_on_the_same_draws(
    strength: float, relaxation: float, participants: int
) -> None:
    """Without a regularizer what the plain server keeps is z itself, as in the published code."""
    objective = SPARSE if strength else replace(SPARSE, regularizer=Unregularized())
    run = simulation(PrivateADMM(objective, CLIENTS, 0.7, ROW_NORM, relaxation), participants=participants)
    models, rounds = played(run)
    expected = plain.private_admm(rounds, CLIENTS, SHAPE, 0.7, relaxation, BOUND, strength, EPSILON, DELTA)
    assert_agree(models, expected, 1e-8)


@some_or_all
@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("local_steps", [1, 3])
@pytest.mark.parametrize("strength", [0.0, STRENGTH])
def test_dp_scaffold_and_its_plain_implementation_agree_on_the_same_draws(
    strength: float, local_steps: int, batch_size: int | None, participants: int
) -> None:
    objective = replace(SPARSE, regularizer=L1(strength))
    run = simulation(DPSCAFFOLD(objective, CLIENTS, local_steps, Constant(2.0)), participants=participants)
    models, rounds = played(run if batch_size is None else in_batches(run, batch_size))
    expected = plain.scaffold(rounds, CLIENTS, SHAPE, 0.5, BOUND, strength, EPSILON, DELTA)
    assert_agree(models, expected, 1e-10)


@some_or_all
@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_noisy_proximal_gradient_and_its_plain_implementation_agree_on_the_same_draws(
    momentum: float, participants: int
) -> None:
    run = simulation(NoisyProximalGradient(SPARSE, Constant(1.0), momentum), participants=participants)
    models, rounds = played(run)
    assert_agree(models, plain.noisy_prox_gd(rounds, SHAPE, 1.0, momentum, BOUND, STRENGTH, EPSILON, DELTA), 1e-10)


@some_or_all
@pytest.mark.parametrize("bands", [1, 2, 3])
def test_dp_ftrl_and_its_plain_implementation_agree_on_the_same_draws(bands: int, participants: int) -> None:
    models, rounds = played(simulation(DPFTRL(SPARSE, 1.5, bands), participants=participants, rounds=12))
    expected = plain.ftrl(rounds, CLIENTS, SHAPE, 1.5, bands, BOUND, STRENGTH, EPSILON, DELTA)
    assert_agree(models, expected, 1e-10)


@some_or_all
def test_one_shot_and_its_plain_implementation_agree_on_the_same_draws(participants: int) -> None:
    models, rounds = played(simulation(OneShot(SMOOTH, 0.1, ROW_NORM), participants=participants, rounds=1))
    assert_agree(models, plain.one_shot(rounds, SHAPE, 0.1, STRENGTH, BOUND, EPSILON), 1e-8)


# --- without noise they reach the optimum --------------------------------------------------------------------

REACHES: dict[str, tuple[Any, dict[str, Any]]] = {
    "private ADMM": (PrivateADMM(OPEN_SPARSE, CLIENTS, 0.3, ROW_NORM), {}),
    "private ADMM, relaxed less": (PrivateADMM(OPEN_SPARSE, CLIENTS, 0.3, ROW_NORM, 0.9), {}),
    "private ADMM, 2 of 6 at a time": (PrivateADMM(OPEN_SPARSE, CLIENTS, 0.3, ROW_NORM), {"participants": 2}),
    "DP-SCAFFOLD": (DPSCAFFOLD(OPEN_SPARSE, CLIENTS, 1, Constant(1.0)), {}),
    "DP-SCAFFOLD, 2 of 6 at a time": (DPSCAFFOLD(OPEN_SPARSE, CLIENTS, 1, Constant(2.5)), {"participants": 2}),
    "noisy proximal gradient": (NoisyProximalGradient(OPEN_SPARSE, Constant(1.0)), {}),
    "noisy proximal gradient with momentum": (NoisyProximalGradient(OPEN_SPARSE, Constant(2.5), 0.5), {}),
    "DP-FTRL": (DPFTRL(OPEN, 1.0, 1), {}),
    "DP-FTRL with l1": (DPFTRL(OPEN_SPARSE, 1.0, 1), {}),
}


@pytest.mark.parametrize("name", REACHES)
def test_without_noise_a_rival_reaches_the_optimum_of_clients_that_disagree(name: str) -> None:
    algorithm, changes = REACHES[name]
    assert abs(gaps(simulation(algorithm, inf, rounds=200, **changes))[-1]) < 1e-8


@pytest.mark.parametrize("regularizer", [Unregularized(), SquaredL2(STRENGTH), L1(STRENGTH)])
@pytest.mark.parametrize("participants", [3, CLIENTS])
def test_without_noise_control_variates_lead_several_steps_on_all_records_to_the_optimum(
    participants: int, regularizer: Any
) -> None:
    """Without them clients that disagree would drift apart; without a proximal step in each, all of them, along ∂R."""
    algorithm = DPSCAFFOLD(replace(OPEN, regularizer=regularizer), CLIENTS, 3, Constant(4.0))
    run, drawn = in_copies(simulation(algorithm, inf, rounds=200, participants=participants))
    assert abs(gaps(run, drawn)[-1]) < 1e-8


def test_dp_ftrl_goes_round_the_optimum_with_its_blocks_the_closer_the_shorter_its_steps() -> None:
    """Gradients of one block are not those of the shard: a cycle of radius 1/γ, 1/γ² above the least objective."""
    near, far = (gaps(simulation(DPFTRL(OPEN_SPARSE, gamma, 3), inf, rounds=600)) for gamma in (10.0, 2.5))
    assert near[-1] < 2e-4
    assert far[-3:] == pytest.approx(far[-6:-3], rel=1e-6), "it does not settle but repeats itself"
    assert near[-9:].mean() < far[-9:].mean() / 8


def test_one_shot_reaches_the_mean_of_the_clients_own_optima() -> None:
    run = simulation(OneShot(OPEN, 0.1, ROW_NORM), inf, rounds=1)
    shards = run.shards
    found = [
        reference_optimum(OPEN.loss, SquaredL2(STRENGTH + 0.1), shards.features[low:high], shards.labels[low:high],
                          np.full(high - low, 1 / (high - low)))
        for low, high in pairwise(shards.offsets)
    ]  # fmt: skip
    own = [optimum for optimum in found if optimum is not None]
    assert len(own) == len(found)
    np.testing.assert_allclose(simulate(run).weights, np.mean(own, axis=0), rtol=0, atol=1e-6)
    assert np.std(own, axis=0).max() > 0.1, "clients must disagree"


# --- what is the same as what ---------------------------------------------------------------------------------


def models_of(algorithm: Any, epsilon: float = EPSILON) -> np.ndarray:
    return simulate(simulation(algorithm, epsilon)).models


def test_noisy_proximal_gradient_without_momentum_is_dp_sgd_on_whole_shards() -> None:
    schedule = SquareRoot(1.0)
    np.testing.assert_array_equal(
        models_of(NoisyProximalGradient(SPARSE, schedule)), models_of(DPSGD(SPARSE, schedule))
    )  # fmt: skip


def test_private_admm_of_relaxation_one_half_is_consensus_admm() -> None:
    models, rounds = played(simulation(PrivateADMM(SPARSE, CLIENTS, 0.7, ROW_NORM, 0.5), inf))
    assert_agree(models, plain.consensus_admm(rounds, CLIENTS, SHAPE, 0.7, BOUND, STRENGTH), 1e-8)


def test_aadmm_is_a_step_ahead_of_private_admm_of_relaxation_one_half() -> None:
    """The one takes its dual step before the server's, the other after: Douglas-Rachford with its halves swapped.

    Without a regularizer the server's half R is a reflection, so (1 + RF)/2 R = R (1 + FR)/2, and the server's points
    are related by z' = 2z - z of the round before.
    """
    objective = replace(SPARSE, regularizer=Unregularized())
    ahead = models_of(DPAADMM(objective, CLIENTS, 0.7, CLIENTS), inf)
    after = models_of(PrivateADMM(objective, CLIENTS, 0.7, ROW_NORM, 0.5), inf)
    before = np.concatenate([np.zeros((1, *SHAPE)), after[:-1]])
    np.testing.assert_allclose(ahead, 2 * after - before, rtol=0, atol=1e-9)
    assert np.abs(ahead - after).max() > 0.1
