"""A member's part of a secure sum: whole numbers with exact noise, through the one door."""

from collections.abc import Callable
from math import inf, nan, sqrt

import numpy as np
import pytest
from scipy import stats

from fedspd.engine.release import Whole, release
from fedspd.errors import InputError
from fedspd.privacy.discrete import on_grid
from fedspd.privacy.exact import whole_gaussian
from fedspd.typing import Argmin, Query
from tests.privacy.test_exact import RARE, discrete, matches, rounded

pytest.importorskip("opendp")

Sampler = Callable[[np.ndarray, float], np.ndarray]
QUIET = 1e-3
"""Steps of noise of which none is ever seen: exp(-500,000)."""


def steps(value: np.ndarray | list[float], scale: float, grid: float = 1.0, reach: float = 2.0**40) -> np.ndarray:
    """What one member sends, as signed whole numbers."""
    sent = release(
        Query(np.atleast_2d(np.asarray(value, np.float64)), np.array([0.7])), Whole(scale, grid, reach)
    ).value
    return np.asarray(sent).view(np.int64)[0]


def noise(scale: float, draws: int) -> np.ndarray:
    return steps(np.zeros(draws), scale)


def rounded_at_each_site(value: np.ndarray, scale: float) -> np.ndarray:
    """A planted bug: a continuous Gaussian, rounded."""
    return np.rint(value + scale * np.random.default_rng(0).standard_normal(value.shape))


def is_not_discrete(sampler: Sampler, scale: float, draws: int = 100_000) -> bool:
    """Whether a sampler's noise on zero is found out."""
    numbers, probabilities = discrete(scale)
    return not matches(sampler(np.zeros(draws), scale), probabilities, numbers)


def sum_of_members(sampler: Sampler, scale: float, members: int, draws: int) -> np.ndarray:
    return np.sum([sampler(np.zeros(draws), scale) for _ in range(members)], axis=0)


def deviation_is(found: np.ndarray, scale: float) -> bool:
    """A test on the sum of squares that is wrong once in a million times."""
    total, law = float(np.sum(np.square(found.astype(float)))), stats.chi2(found.size)
    return law.ppf(RARE / 2) < total / scale**2 < law.ppf(1 - RARE / 2)


def moves_further(enlarged: Callable[[float, int, float], float]) -> bool:
    """Do neighbors that a grid drives apart move further than their sensitivity says?"""
    grid, dimension = 2.0**-4, 100
    value = np.full(dimension, 0.499 * grid)
    neighbor = value + 0.002 * grid
    apart = grid * float(np.linalg.norm(steps(value, QUIET * grid, grid) - steps(neighbor, QUIET * grid, grid)))
    return apart > enlarged(float(np.linalg.norm(value - neighbor)), dimension, grid)


CHECKS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    # what was planted: (the check on the truth, the check on the bug); a check says whether it is red
    "continuous noise is rounded at each site": (
        lambda: is_not_discrete(steps, 0.8),
        lambda: is_not_discrete(rounded_at_each_site, 0.8),
    ),
    "continuous noise is rounded at each site, with the variance of a rounding less": (
        lambda: is_not_discrete(steps, 0.4),
        lambda: is_not_discrete(lambda value, scale: rounded_at_each_site(value, sqrt(scale**2 - 1 / 12)), 0.4),
    ),
    "sqrt(d) g is forgotten": (
        lambda: moves_further(on_grid),
        lambda: moves_further(lambda sensitivity, dimension, grid: sensitivity),
    ),
    "a step is added for the whole vector, not for each coordinate": (
        lambda: moves_further(on_grid),
        lambda: moves_further(lambda sensitivity, dimension, grid: sensitivity + grid),
    ),
}


@pytest.mark.parametrize("bug", CHECKS)
def test_the_truth_is_green_and_the_planted_bug_is_red(bug: str) -> None:
    on_truth, on_bug = CHECKS[bug]
    assert not on_truth()
    assert on_bug()


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.3])
def test_noise_is_a_discrete_gaussian_and_neither_a_rounded_one_nor_five_percent_wider(scale: float) -> None:
    numbers, probabilities = discrete(scale)
    wider, its_probabilities = discrete(1.05 * scale)
    found = steps(np.full(100_000, 5.0), scale) - 5
    assert matches(found, probabilities, numbers)
    assert not matches(found, its_probabilities, wider)
    if scale <= 1:
        assert not matches(found, rounded(scale), numbers)


@pytest.mark.parametrize("scale", [3.0, 4096.7, 2.0**30, 2.0**50])
def test_the_deviation_is_right_to_one_percent_and_five_percent_are_found_out(scale: float) -> None:
    found = noise(scale, 130_000)
    assert np.std(found) == pytest.approx(scale, rel=0.01)
    assert deviation_is(found, scale)
    assert not deviation_is(found, 1.05 * scale)
    assert not deviation_is(found, 0.95 * scale)


def test_wide_noise_is_gaussian_and_fills_all_its_bits() -> None:
    found = noise(2.0**50, 20_000)
    assert stats.kstest(found / 2.0**50, "norm").pvalue > RARE
    assert stats.binomtest(int(np.sum(found & 1)), found.size).pvalue > RARE


def test_the_sum_of_h_members_has_sqrt_h_times_the_deviation_and_the_law_of_theorem_s() -> None:
    members, scale = 13, 0.9
    found = sum_of_members(steps, scale, members, 20_000)
    assert deviation_is(found, sqrt(members) * scale)
    assert not deviation_is(found, 1.05 * sqrt(members) * scale)
    numbers, probabilities = discrete(sqrt(members) * scale)
    assert matches(found, probabilities, numbers)
    bug = sum_of_members(lambda value, deviation: np.rint(value + deviation * fresh(value)), scale, members, 20_000)
    assert not matches(bug, probabilities, numbers)


def fresh(value: np.ndarray) -> np.ndarray:
    return np.random.default_rng().standard_normal(value.shape)


def test_coordinates_are_rounded_to_the_nearest_step_of_the_grid() -> None:
    grid = 2.0**-5
    assert steps([0.0, 0.49 * grid, 0.51 * grid, -3.2 * grid, 1.0], QUIET * grid, grid).tolist() == [0, 0, 1, -3, 32]


def test_a_coordinate_beyond_the_declared_range_is_moved_to_its_end_before_noise() -> None:
    assert steps([9.0, -9.0, 1e300, 3.9], QUIET, 1.0, reach=4.0).tolist() == [4, -4, 4, 4]
    assert np.max(steps(np.full(1000, 9.0), 2.0, 1.0, reach=4.0)) > 4, "noise is not clipped"


def test_what_is_not_finite_counts_as_zero_and_is_not_refused() -> None:
    assert steps([nan, inf, -inf, 7.0], QUIET).tolist() == [0, 0, 0, 7]


def test_parts_and_their_sum_wrap_around_and_are_never_clamped() -> None:
    """OpenDP alone would stop at the last whole number of 64 bits."""
    longest = 2.0**62
    parts = [
        np.asarray(whole_gaussian(Query(np.full((1, 3), longest), np.zeros(1)), 3.0, 1.0, longest).value)[0]
        for _ in range(5)
    ]
    assert {part.dtype for part in parts} == {np.dtype(np.uint64)}
    far = np.sum(parts, axis=0, dtype=np.uint64)  # 5 x 2^62 = 2^64 + 2^62
    assert np.all(np.abs((far - np.uint64(2**62)).view(np.int64)) < 100)
    assert np.any(parts[0] != parts[1])


def test_noise_does_not_depend_on_what_it_is_added_to() -> None:
    numbers, probabilities = discrete(1.0)
    for value in (0.0, 2.0**39, -(2.0**39)):
        assert matches(steps(np.full(20_000, value), 1.0) - int(value), probabilities, numbers)


def test_a_release_has_the_shape_of_the_query_and_nothing_else_of_it() -> None:
    found = release(Query(np.zeros((1, 4, 2)), np.array([0.7])), Whole(1.0, 0.5, 8.0))
    assert found._fields == ("value",)
    assert np.asarray(found.value).shape == (1, 4, 2)
    assert not np.array_equal(noise(5.0, 20), noise(5.0, 20))


@pytest.mark.parametrize(
    ("scale", "grid", "reach"),
    [
        (1.0, 0.3, 4.0),
        (1.0, 0.0, 4.0),
        (1.0, -0.5, 4.0),
        (1.0, nan, 4.0),
        (2.0**51, 1.0, 4.0),
        (1.0, 1.0, 2.0**63),
        (1.0, 1.0, 0.0),
        (1.0, 1.0, nan),
    ],
)
def test_a_grid_that_is_no_power_of_two_or_too_fine_is_refused_by_public_numbers(
    scale: float, grid: float, reach: float
) -> None:
    with pytest.raises(InputError, match="must be a power of two"):
        release(Query(np.full((1, 2), 0.8125), np.zeros(1)), Whole(scale, grid, reach))


@pytest.mark.parametrize("scale", [0.0, -1.0, inf, nan])
def test_a_scale_that_is_not_positive_and_finite_is_refused(scale: float) -> None:
    with pytest.raises(InputError, match="noise scale must be positive and finite"):
        noise(scale, 2)


def test_only_one_members_float64_is_taken_and_no_sub_problem() -> None:
    with pytest.raises(InputError, match="must be float64, got float32"):
        release(Query(np.zeros((1, 2), np.float32), np.zeros(1)), Whole(1.0, 1.0, 4.0))
    with pytest.raises(InputError, match="a stack of one"):
        release(Query(np.zeros((2, 2)), np.zeros(2)), Whole(1.0, 1.0, 4.0))
    with pytest.raises(RuntimeError, match="refused before"):
        release(Argmin(lambda noise: noise, lambda point: point, 1.0, np.zeros(1)), Whole(1.0, 1.0, 4.0))
