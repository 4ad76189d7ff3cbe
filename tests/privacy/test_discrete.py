"""Theorems S1 and S2 against sums of forty digits: they hold, and are not loose beyond what is said."""

from collections.abc import Iterable
from math import exp, inf, log, nan, pi, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf

from fedspd.errors import InputError
from fedspd.privacy.discrete import (
    FINENESS,
    LEAST_STEPS,
    gap,
    grid_for,
    member_noise,
    on_grid,
    rounding_gap,
    sum_gap,
    theta,
)
from fedspd.privacy.shared_noise import SharedNoise

Law = dict[int, mpf]


@pytest.fixture(autouse=True)
def forty_digits() -> Iterable[None]:
    with mp.workdps(40):
        yield


def discrete(variance: mpf, reach: int) -> Law:
    """N_Z(0, variance)."""
    weights = {k: mp.exp(-(mpf(k) ** 2) / (2 * variance)) for k in range(-reach, reach + 1)}
    total = mp.fsum(weights.values())
    return {k: weight / total for k, weight in weights.items()}


def convolved(first: Law, second: Law) -> Law:
    found: Law = {}
    for k, chance in first.items():
        for j, other in second.items():
            found[k + j] = found.get(k + j, mpf(0)) + chance * other
    return found


def widest_gap(law: Law, reference: Law, reach: int) -> float:
    """Largest |ln ratio| up to `reach` on either side of zero."""
    return float(max(abs(mpmath.log(law[k] / reference[k])) for k in range(-reach, reach + 1)))


def real_sum_gap(scale: float, members: int) -> float:
    variance = mpf(scale) ** 2
    one = discrete(variance, int(14 * scale) + 8)
    total = one
    for _ in range(members - 1):
        total = convolved(total, one)
    reach = int(4 * scale * sqrt(members)) + members
    return widest_gap(total, discrete(mpf(members) * variance, 20 * reach), reach)


def real_rounding_gap(narrow: float, wide: float) -> float:
    """Of the law that Theorem S2 speaks of, by the trapezoid rule, which is exact here to forty digits and more."""
    inner, outer, rest, fine = mpf(narrow) ** 2, mpf(wide) ** 2, mpf(wide) ** 2 - mpf(narrow) ** 2, 48
    reach = int(16 * wide) + 2
    law = dict.fromkeys(range(-reach, reach + 1), mpf(0))
    for place in range(-fine * reach, fine * reach + 1):
        y = mpf(place) / fine
        density = mp.exp(-(y**2) / (2 * rest)) / mp.sqrt(2 * mp.pi * rest) / fine
        near = range(round(y) - int(14 * narrow) - 2, round(y) + int(14 * narrow) + 3)
        weights = {k: mp.exp(-((k - y) ** 2) / (2 * inner)) for k in near}
        total = mp.fsum(weights.values())
        for k in weights.keys() & law.keys():
            law[k] += density * weights[k] / total
    return widest_gap(law, discrete(outer, reach), int(4 * wide) + 1)


@pytest.mark.parametrize("variance", [0.05, 0.3, 1.0])
def test_theta_bounds_a_sum_of_a_gaussian_over_whole_numbers_and_is_reached(variance: float) -> None:
    sums = [
        float(mpmath.nsum(lambda k, y=y: mpmath.npdf(k - y, 0, mp.sqrt(variance)), [-mp.inf, mp.inf]))
        for y in (0.0, 0.2, 0.5)
    ]
    assert max(sums) - 1 == pytest.approx(theta(variance), rel=1e-6)
    assert min(sums) >= 1 - theta(variance) - 1e-15


def test_theta_of_a_wide_gaussian_is_its_first_term() -> None:
    assert theta(4.0) == pytest.approx(2 * exp(-8 * pi**2), rel=1e-12)
    assert theta(1e6) == 0, "below the least float64"


@pytest.mark.parametrize("variance", [0.0, -1.0, inf, nan])
def test_a_variance_that_is_not_positive_and_finite_is_refused(variance: float) -> None:
    with pytest.raises(InputError, match="variance must be positive and finite"):
        theta(variance)


@pytest.mark.parametrize("members", [2, 3, 5, 10])
@pytest.mark.parametrize("scale", [0.3, 0.4, 0.5, 0.7, 1.0])
def test_a_sum_of_discrete_gaussians_is_as_near_to_one_as_theorem_s_says(scale: float, members: int) -> None:
    assert 0 < real_sum_gap(scale, members) <= sum_gap(scale, members)


@pytest.mark.parametrize(
    ("scale", "members", "factor"),
    [(0.3, 2, 2), (0.5, 2, 2), (0.7, 2, 2), (1.0, 2, 2.001), (0.3, 10, 2), (0.5, 10, 3), (0.7, 10, 11)],
)
def test_theorem_s_is_within_a_stated_factor_of_the_truth(scale: float, members: int, factor: float) -> None:
    assert sum_gap(scale, members) <= factor * real_sum_gap(scale, members)


def test_the_half_of_the_bound_of_theorem_s_would_be_exceeded() -> None:
    """The first test is sharp: ln(1 + theta) alone, without the lower side, is too small."""
    assert real_sum_gap(0.4, 2) > sum(log(1 + theta(0.4**2 * k / (k + 1))) for k in range(1, 2))


@pytest.mark.parametrize("wide", [1.0, 2.5])
@pytest.mark.parametrize("narrow", [0.3, 0.4, 0.5, 0.7])
def test_a_gaussian_that_is_made_whole_is_as_near_as_theorem_r_says_and_not_much_nearer_than_its_square(
    narrow: float, wide: float
) -> None:
    """The truth is of the order of exp(-4 pi^2 r^2), the bound 4 exp(-2 pi^2 r^2)."""
    assert 0.5 * exp(-4 * pi**2 * narrow**2) < real_rounding_gap(narrow, wide) <= rounding_gap(narrow**2)


@pytest.mark.parametrize(("narrow", "wide", "factor"), [(0.3, 0.4, 3), (0.3, 1.0, 6), (0.5, 0.51, 10)])
def test_theorem_r_is_within_a_stated_factor_of_the_truth(narrow: float, wide: float, factor: float) -> None:
    assert rounding_gap(narrow**2) <= factor * real_rounding_gap(narrow, wide)


def test_the_gap_at_the_least_scale_that_the_rule_allows_is_nothing_beside_rounding_to_whole_numbers() -> None:
    assert sum_gap(5.0, 67) < 1e-106
    assert sum_gap(LEAST_STEPS, 10_000) == 0
    assert rounding_gap() == pytest.approx(4 * exp(-8 * pi**2), rel=1e-9)
    assert gap(LEAST_STEPS, 67, coordinates=50 * 162) < 2e-30
    assert gap(5.0, 67, coordinates=10**9) < 3e-25


def test_one_member_has_no_sum_and_the_gap_grows_with_members_and_coordinates() -> None:
    assert sum_gap(0.5, 1) == 0
    assert sum_gap(0.5, 2) < sum_gap(0.5, 3) < sum_gap(0.5, 30)
    assert gap(0.5, 3, 20) == pytest.approx(20 * gap(0.5, 3, 1))


def test_noise_too_narrow_for_the_theorem_and_sums_of_nobody_are_refused() -> None:
    with pytest.raises(InputError, match=r"0\.3 steps or more"):
        sum_gap(0.25, 2)
    with pytest.raises(InputError, match="at least one member, got 0"):
        sum_gap(1.0, 0)


@given(st.floats(1e-9, 1e9), st.integers(1, 10**7), st.floats(1e-3, 1e4), st.integers(1, 1000))
def test_the_grid_is_the_largest_power_of_two_that_both_rules_allow(
    sensitivity: float, dimension: int, multiplier: float, honest: int
) -> None:
    noise = multiplier * sensitivity / sqrt(honest)
    grid = grid_for(sensitivity, dimension, noise)

    def allowed(step: float) -> bool:
        return on_grid(0.0, dimension, step) <= FINENESS * sensitivity and LEAST_STEPS * step <= noise

    assert np.log2(grid) == round(np.log2(grid))
    assert allowed(grid * (1 - 1e-12))
    assert not allowed(2.001 * grid)


def test_a_hundredth_of_the_sensitivity_alone_may_leave_a_member_less_noise_than_a_step() -> None:
    """Why the grid has two rules: with many members and few coordinates the second number would not exist."""
    share = SharedNoise(1000, 1000, 0)
    noise = share.member_scale(0.2, 1.0)
    coarse = FINENESS * 1.0
    assert share.member_scale(0.2, on_grid(1.0, 1, coarse), coarse) < coarse
    with pytest.raises(InputError, match="finer than a member's noise"):
        share.alone(0.2, on_grid(1.0, 1, coarse), coarse)
    grid = grid_for(1.0, 1, noise)
    assert share.alone(0.2, on_grid(1.0, 1, grid), grid) == pytest.approx(0.2 / sqrt(1000), rel=0.02)


@given(st.floats(0.05, 1e4), st.floats(1e-6, 1e3), st.integers(1, 10**6), st.sampled_from([(100, 80, 13), (3, 3, 2)]))
def test_a_member_sends_with_the_noise_that_its_sensitivity_on_the_grid_asks_for(
    multiplier: float, sensitivity: float, dimension: int, cohort: tuple[int, int, int]
) -> None:
    share = SharedNoise(*cohort)
    found = member_noise(share, multiplier, sensitivity, dimension)
    assert found.sensitivity == sensitivity + sqrt(dimension) * found.grid
    left = share.honest * found.scale**2 - 4 * found.grid**2
    assert left == pytest.approx((multiplier * found.sensitivity) ** 2)
    assert found.alone * found.sensitivity == pytest.approx(sqrt(found.scale**2 - 4 * found.grid**2))
    assert found.scale <= 1.02 * share.member_scale(multiplier, sensitivity), "what integers cost"


@pytest.mark.parametrize(("sensitivity", "dimension", "noise"), [(0.0, 1, 1.0), (1.0, 0, 1.0), (1.0, 1, inf)])
def test_a_grid_for_nothing_is_refused(sensitivity: float, dimension: int, noise: float) -> None:
    with pytest.raises(InputError, match="positive and finite"):
        grid_for(sensitivity, dimension, noise)


@given(st.integers(1, 6), st.floats(0.0, 3.0), st.integers(0, 2**32))
def test_rounding_to_the_grid_moves_two_neighbors_apart_by_no_more_than_is_added(
    dimension: int, distance: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    value, way = rng.uniform(-9, 9, dimension), rng.standard_normal(dimension)
    neighbor = value + distance * way / np.linalg.norm(way)
    assert np.linalg.norm(np.rint(value) - np.rint(neighbor)) <= on_grid(distance, dimension, 1.0) + 1e-12


def test_what_is_added_for_the_grid_is_reached() -> None:
    value = np.full(9, 0.4999)
    neighbor = value + 0.0002
    apart = float(np.linalg.norm(np.rint(value) - np.rint(neighbor)))
    assert apart == 3
    assert apart > 0.999 * on_grid(float(np.linalg.norm(value - neighbor)), 9, 1.0)
