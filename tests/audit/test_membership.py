"""Curves of membership are what they are called, and claims bound them."""

import numpy as np
import pytest
from scipy.stats import norm

from fedspd.audit.membership import allowed, curve
from fedspd.privacy.accounting import Gaussian, spent


def test_the_curve_of_two_normals_is_known() -> None:
    rng = np.random.default_rng(0)
    found = curve(rng.standard_normal(200_000), rng.standard_normal(200_000) + 1)
    assert found.area == pytest.approx(norm.cdf(1 / np.sqrt(2)), abs=0.005)
    assert found.at(0.01) == pytest.approx(norm.cdf(1 - norm.isf(0.01)), abs=0.005)


def test_scores_that_tie_are_counted_on_both_sides() -> None:
    found = curve(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert found.area == pytest.approx(0.625)
    assert found.at(0.5) == 0.75


def test_a_claim_that_holds_is_above_the_curve() -> None:
    epsilon = spent([(Gaussian(1.0), 1)], 1e-5).epsilon
    rates = np.linspace(0, 1, 200)
    truth = norm.cdf(1 + norm.ppf(rates))
    assert np.all(allowed(epsilon, 1e-5, rates).true_positives >= truth - 1e-12)


def test_randomized_response_reaches_what_its_claim_allows() -> None:
    wrong = 1 / (1 + np.e)
    assert allowed(1.0, 0.0, np.array([wrong])).true_positives[0] == pytest.approx(1 - wrong)
