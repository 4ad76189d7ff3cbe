"""Bounds from scores hold with their confidence, and are close where the truth is known."""

from math import exp, log

import numpy as np
import pytest
from scipy import stats

from fedspd.audit.bounds import Claim, Rates, clopper_pearson, lower_bound
from fedspd.privacy.accounting import FixedSize, Gaussian, Laplace, spent

RUNS = 20_000


def gaussian_scores(mu: float, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of one release whose worlds are mu deviations apart."""
    normals = np.random.default_rng(seed).standard_normal((2, runs))
    return normals[0], normals[1] + mu


def gaussian_claim(mu: float, delta: float = 1e-5) -> Claim:
    history = ((Gaussian(1 / mu), 1),)
    return Claim(spent(history, delta).epsilon, delta, history)


@pytest.mark.parametrize(("count", "runs"), [(0, 50), (7, 100), (99, 100)])
def test_a_limit_of_clopper_and_pearson_is_where_so_few_become_unlikely(count: int, runs: int) -> None:
    assert stats.binom.cdf(count, runs, clopper_pearson(count, runs, 0.001)) == pytest.approx(0.001)


def test_nothing_is_said_of_an_attacker_who_is_always_wrong() -> None:
    assert clopper_pearson(5, 5, 0.001) == 1.0
    assert Rates(1.0, 1.0).epsilon(1e-5) == 0.0


def test_rates_of_randomized_response_give_its_epsilon() -> None:
    wrong = 1 / (1 + exp(1.5))
    assert Rates(wrong, wrong).epsilon(0.0) == pytest.approx(1.5)
    assert Rates(wrong, wrong).epsilon(0.1) == pytest.approx(log((0.9 - wrong) / wrong))


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_a_gaussian_release_is_found_to_leak_most_of_what_it_leaks(mu: float) -> None:
    claim = gaussian_claim(mu)
    lower = lower_bound(*gaussian_scores(mu, 200_000, 1), claim)
    assert lower.family is not None
    assert 0.8 * claim.epsilon < lower.family <= claim.epsilon
    assert 0 < lower.direct <= claim.epsilon


def test_a_claim_of_a_fifth_too_little_is_refuted_by_its_family() -> None:
    claim = gaussian_claim(1.0)
    assert lower_bound(*gaussian_scores(1.25, RUNS, 2), claim).epsilon > claim.epsilon


def test_true_claims_are_refuted_no_more_often_than_the_confidence_says() -> None:
    """At 90 %: of 300 audits at most 46 may be wrong, but with a chance of 0.1 %; scores at the very claim."""
    claim = gaussian_claim(1.0)
    wrong = sum(
        lower_bound(*gaussian_scores(1.0, 400, seed), claim, confidence=0.9).epsilon > claim.epsilon
        for seed in range(300)
    )
    assert wrong <= stats.binom.isf(0.001, 300, 0.1)


def test_the_direct_bound_needs_no_family() -> None:
    lower = lower_bound(*gaussian_scores(3.0, RUNS, 3), Claim(1.0, 1e-5))
    assert lower.family is None
    assert 3 < lower.epsilon < gaussian_claim(3.0).epsilon


def test_scores_that_say_nothing_prove_nothing() -> None:
    lower = lower_bound(*gaussian_scores(0.0, RUNS, 4), gaussian_claim(1.0))
    assert lower.direct < 0.2
    assert lower.family == pytest.approx(0.0, abs=0.2)


def test_the_family_of_a_subsampled_release_is_its_own() -> None:
    """The pair that is known to be worst: a mixture against one of its parts."""
    event = FixedSize(1.0, 100, 30)
    claim = Claim(spent([(event, 1)], 1e-5).epsilon, 1e-5, ((event, 1),))
    rng = np.random.default_rng(5)
    drawn, normals = rng.random(200_000) < 0.3, rng.standard_normal((2, 200_000))
    lower = lower_bound(normals[0], normals[1] + drawn, claim)
    assert lower.family is not None
    assert 0.7 * claim.epsilon < lower.family <= claim.epsilon


def test_a_family_of_minimizers_reaches_from_nothing_to_the_claim() -> None:
    """With the Jacobian left as it is, no amount of noise would be too much for rates that say a little."""
    event = Laplace(0.16, jacobian=0.23, relation="replace-one", dimension=194, directions=2)
    claim = Claim(spent([(event, 2)], 1e-5).epsilon, 1e-5, ((event, 2),))
    assert claim.with_noise(1.0).epsilon == pytest.approx(claim.epsilon)
    assert claim.with_noise(32.0).epsilon < 0.1 < claim.epsilon
