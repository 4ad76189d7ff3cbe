"""One run held against Gaussian DP: valid at its confidence, exact for one canary, sharper than any one epsilon."""

import numpy as np
import pytest
from scipy import stats

from fedspd.audit.canaries import GUESSED, one_run_bound
from fedspd.audit.gaussian_run import gaussian_run_bound, unlikely
from fedspd.privacy.accounting import Gaussian, calibrate

DELTA = 1e-5


def played(canaries: int, mu: float, seed: int, share: float = GUESSED) -> tuple[int, int]:
    """Guesses about canaries of which each is seen with unit noise, its two labels mu apart."""
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, canaries)
    scores = mu * (coins - 0.5) + rng.standard_normal(canaries)
    surest = np.argsort(-np.abs(scores))[: int(share * canaries)]
    return len(surest), int(np.sum((scores[surest] > 0) == coins[surest]))


def test_of_one_canary_the_bound_is_exact() -> None:
    """It is guessed right with a chance of Phi(mu / 2), by the best attacker there is."""
    chance = float(stats.norm.cdf(0.5))
    assert unlikely(1, 1, 1, 1.0, chance + 1e-9)
    assert not unlikely(1, 1, 1, 1.0, chance - 1e-9)


@pytest.mark.parametrize(("canaries", "mu"), [(5, 1.0), (20, 1.0), (100, 0.5), (100, 2.0)])
def test_no_chance_that_independent_canaries_have_is_called_unlikely(canaries: int, mu: float) -> None:
    each = stats.norm.cdf(mu / 2)
    for right in range(1, canaries + 1):
        assert not unlikely(canaries, canaries, right, mu, float(stats.binom.sf(right - 1, canaries, each)))


def test_true_claims_are_refuted_no_more_often_than_the_confidence_says() -> None:
    mu, wrong = 1.0, 0
    for seed in range(200):
        guesses, right = played(200, mu, seed)
        wrong += gaussian_run_bound(200, guesses, right, DELTA, confidence=0.9)[0] > mu
    assert wrong <= stats.binom.isf(0.001, 200, 0.1)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_it_proves_more_of_a_gaussian_than_the_bound_for_any_profile_and_less_than_the_truth(epsilon: float) -> None:
    mu = 1 / calibrate(Gaussian, 1, epsilon, DELTA)
    guesses, right = played(4000, mu, 1)
    least, sharper = gaussian_run_bound(4000, guesses, right, DELTA)
    assert one_run_bound(4000, guesses, right, DELTA) + 0.1 < sharper < epsilon
    assert 0.3 * mu < least < mu


def test_a_run_with_a_quarter_of_its_noise_is_refuted() -> None:
    guesses, right = played(4000, 4.0, 2)
    assert gaussian_run_bound(4000, guesses, right, DELTA)[0] > 1.0


def test_guesses_that_are_right_half_of_the_time_prove_nothing() -> None:
    assert gaussian_run_bound(1000, 200, 103, DELTA) == (0.0, 0.0)
