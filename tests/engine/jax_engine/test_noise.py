"""The compiled engine adds the plan's noise: of its deviation, to every release, fresh every time."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fedspd.engine import Simulation
from fedspd.engine.jax_engine.session import installed
from tests.engine.test_budgets import proved

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")


def silent(rounds: int, seed: int) -> Simulation:
    """Records without any effect, so that a first release is nothing but noise."""
    run = proved(cap=2, participants=6, rounds=rounds, seed=seed)
    return replace(run, shards=replace(run.shards, features=np.zeros_like(run.shards.features)))


def released(rounds: int, seeds: int) -> np.ndarray:
    """(seeds, clients, numbers): what clients released last, over the deviation that the plan asks of it."""
    from fedspd.engine.jax_engine.batch import simulate_batch

    runs = [silent(rounds, seed) for seed in range(seeds)]
    everyone = np.arange(runs[0].shards.clients)
    sensitivity = runs[0].algorithm.sensitivity(1, runs[0].batch_sizes(everyone))
    scale = np.broadcast_to(runs[0].plan.noise_scale(everyone, sensitivity), everyone.shape)
    outcomes = dict(simulate_batch(runs))
    weights = np.array([outcomes[number].lagrangian.weights for number in range(seeds)])
    return weights.reshape(seeds, len(everyone), -1) / scale[:, None]


@pytest.fixture(scope="module")
def first_round() -> np.ndarray:
    return released(rounds=1, seeds=400)


def test_a_release_carries_noise_of_the_plans_deviation_and_not_three_percent_more_or_less(
    first_round: np.ndarray,
) -> None:
    noise = first_round
    law, squares = stats.chi2(noise.size), float((noise**2).sum())
    assert 1e-4 < law.cdf(squares) < 1 - 1e-4
    assert law.cdf(squares * 1.03**2) > 1 - 1e-4
    assert law.cdf(squares / 1.03**2) < 1e-4
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4


@pytest.mark.slow
def test_noise_is_fresh_for_every_number_client_run_and_round(first_round: np.ndarray) -> None:
    first, second = first_round[:200], released(rounds=2, seeds=200)
    flat = first.reshape(-1)
    assert len(np.unique(flat)) > 0.99 * flat.size, "more than single precision repeats by chance"
    for one, other in (
        (first[:, 0], first[:, 1]), (first[:-1], first[1:]), (first[..., 0], first[..., 1]), (first, second),
    ):  # fmt: skip
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 4.5 / np.sqrt(one.size), "a noise draw is used once"
