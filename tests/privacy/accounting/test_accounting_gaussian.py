"""Gaussian releases without subsampling: exact composition, exact formula."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedspd.privacy.accounting import FixedSize, Gaussian, Poisson, calibrate, delta_at, spent
from fedspd.privacy.accounting.closed_form.gaussian import gaussian_delta, gaussian_epsilon

# From an independent prototype; the analytic formula gives 3.185703, 24.508106, 1.223157,
# 3.730632, 30.749566, 1.390593, so the third and the last two of these are rounded up, the others down.
GOLDEN = [
    (1.0, 1e-4, 3.1857),
    (0.1, 1e-4, 24.508),
    (3.0, 1e-4, 1.2232),
    (1.0, 1e-5, 3.7306),
    (0.1, 1e-5, 30.750),
    (3.0, 1e-5, 1.3906),
]


@pytest.mark.parametrize(("epsilon", "delta", "multiplier"), GOLDEN)
def test_one_release_needs_the_multiplier_of_the_analytic_formula(
    epsilon: float, delta: float, multiplier: float
) -> None:
    found = calibrate(Gaussian, 1, epsilon, delta)
    assert multiplier <= found <= multiplier * 1.00005
    assert spent({Gaussian(found): 1}, delta).epsilon <= epsilon


@pytest.mark.parametrize("rounds", [4, 20, 100])
def test_n_releases_need_the_square_root_of_n_times_as_much(rounds: int) -> None:
    once, often = calibrate(Gaussian, 1, 1.0, 1e-5), calibrate(Gaussian, rounds, 1.0, 1e-5)
    assert often == pytest.approx(math.sqrt(rounds) * once, rel=1e-4)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 3.1857, 50.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_delta_is_the_hockey_stick_divergence_of_two_gaussians(multiplier: float, epsilon: float) -> None:
    crossing = multiplier**2 * epsilon + 0.5

    def difference(output: float) -> float:
        first, second = norm.pdf(output, 1.0, multiplier), norm.pdf(output, 0.0, multiplier)
        return float(first - math.exp(epsilon) * second)

    ends = crossing, crossing + multiplier, crossing + 40 * multiplier
    expected = sum(quad(difference, *end, epsabs=0, epsrel=1e-11, limit=500)[0] for end in pairwise(ends))
    if expected > 1e-12:
        assert gaussian_delta(multiplier, epsilon) == pytest.approx(expected, rel=1e-8)


def test_different_releases_compose_to_the_sum_of_their_precisions() -> None:
    history = [(Gaussian(3.0), 2), (Gaussian(7.0), 5), (FixedSize(9.0, 40, 40), 3), (Gaussian(3.0), 1)]
    total = (3 / 9.0 + 5 / 49.0 + 3 / 81.0) ** -0.5
    bound = spent(history, 1e-5)
    assert bound.epsilon == pytest.approx(gaussian_epsilon(total, 1e-5), rel=1e-9)
    assert (bound.accountant, bound.relation) == ("gaussian", "replace-one")
    assert spent({Poisson(total, 1.0): 1}, 1e-5).epsilon == pytest.approx(bound.epsilon, rel=1e-9)


def test_the_lower_bound_of_an_exact_composition_is_the_composition() -> None:
    bound = spent({Gaussian(3.1857): 1}, 1e-4)
    assert bound.lower_bound == pytest.approx(bound.epsilon, rel=1e-8)
    assert bound.lower_bound is not None
    assert bound.lower_bound <= bound.epsilon


@settings(max_examples=50, deadline=None)
@given(st.floats(0.05, 1e4), st.floats(1e-12, 0.3), st.floats(1.001, 3.0))
def test_epsilon_falls_with_noise_and_inverts_delta(multiplier: float, delta: float, factor: float) -> None:
    epsilon = gaussian_epsilon(multiplier, delta)
    assert gaussian_epsilon(multiplier * factor, delta) <= epsilon
    assert gaussian_delta(multiplier, epsilon) <= delta
    if epsilon > 1e-6:
        assert gaussian_delta(multiplier, epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


def test_an_empty_history_costs_nothing_under_any_relation() -> None:
    bound = spent({}, 1e-5)
    assert (bound.epsilon, bound.lower_bound, bound.relation) == (0.0, 0.0, None)
    assert delta_at({}, 0.0) == 0.0
