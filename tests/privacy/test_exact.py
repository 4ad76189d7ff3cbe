"""The noise of real clients: a discrete Gaussian to the last bit, whose distance from the accountants' is bounded."""

import subprocess
import sys
from math import inf, nan

import numpy as np
import pytest
from scipy import stats

from fedspd.errors import InputError
from fedspd.privacy.exact import exact_gaussian
from fedspd.privacy.mechanism import gaussian
from fedspd.typing import Query

pytest.importorskip("opendp")

RARE = 1e-6
LEAST = 2.0**-1074
"""The grid: the least positive float64."""


def released(value: float, scale: float, draws: int = 20_000) -> np.ndarray:
    query = Query(np.full((1, draws // 2, 2), value), np.array([0.7]))
    return np.asarray(exact_gaussian(query, scale).value)


def discrete(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers that matter, and their probabilities under the discrete Gaussian."""
    numbers = np.arange(-int(12 * scale) - 2, int(12 * scale) + 3)
    weights = np.exp(-0.5 * (numbers / scale) ** 2)
    return numbers, weights / weights.sum()


def rounded(scale: float) -> np.ndarray:
    """Probabilities of the same numbers under the Gaussian rounded to the nearest."""
    numbers, _ = discrete(scale)
    near, far = np.abs(numbers) - 0.5, np.abs(numbers) + 0.5
    cells = stats.norm.sf(near / scale) - stats.norm.sf(far / scale)
    return np.where(numbers == 0, 1 - 2 * stats.norm.sf(0.5 / scale), cells)


def matches(noise: np.ndarray, probabilities: np.ndarray, numbers: np.ndarray) -> bool:
    """Chi-square test on the numbers that are expected ten times or more; the rest counts as one."""
    often = probabilities * noise.size >= 10
    observed = np.array([np.count_nonzero(noise == number) for number in numbers[often]])
    expected = probabilities[often] * noise.size
    observed = np.append(observed, noise.size - observed.sum())
    return stats.chisquare(observed, np.append(expected, noise.size - expected.sum())).pvalue > RARE


@pytest.mark.parametrize("scale", [0.058749, 1.0, 30.0])
def test_noise_has_the_standard_deviation_it_is_given_and_not_five_percent_more_or_less(scale: float) -> None:
    noise = released(3.0, scale) - 3.0
    tail, total = stats.chi2(noise.size), float(np.sum(noise**2))
    low, high = tail.ppf(RARE / 2), tail.ppf(1 - RARE / 2)
    assert low < total / scale**2 < high
    assert not low < total / (1.05 * scale) ** 2 < high
    assert not low < total / (0.95 * scale) ** 2 < high


def test_noise_is_gaussian() -> None:
    assert stats.kstest(released(0.0, 1.0).ravel(), "norm").pvalue > RARE


def test_noise_of_deviation_scale_is_a_discrete_gaussian_on_the_grid_to_the_last_bit() -> None:
    """At the grid's own size every number can be counted; a rounded continuous Gaussian would be found out."""
    numbers, probabilities = discrete(1.0)
    noise = (released(7 * LEAST, LEAST, 100_000) / LEAST) - 7
    np.testing.assert_array_equal(noise, np.round(noise))
    assert matches(noise, probabilities, numbers)
    assert not matches(noise, rounded(1.0), numbers)
    assert not matches(noise, discrete(1.05)[1], numbers)


def test_a_release_near_zero_has_all_its_bits_whatever_the_query_was() -> None:
    """Added in floating point, noise on 1 leaves multiples of 2^-53 near zero: they tell that the query was not 0."""

    def coarse(values: np.ndarray) -> float:
        near = values[np.abs(values) < 2.0**-5]
        assert near.size > 100
        return float(np.mean(near == np.round(near * 2.0**53) / 2.0**53))

    query = Query(np.ones((1, 10_000, 2)), np.zeros(1))
    naive = gaussian(query, 1.0, np.random.default_rng(0).standard_normal((1, 10_000, 2)))
    assert coarse(np.asarray(naive.value)) == 1
    assert coarse(released(0.0, 1.0)) < 0.3
    assert coarse(released(1.0, 1.0)) < 0.3


@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0, 20.0])
def test_the_distance_from_the_rounded_gaussian_is_at_most_one_sixteenth_over_the_squared_scale(scale: float) -> None:
    variation = 0.5 * np.sum(np.abs(discrete(scale)[1] - rounded(scale)))
    assert 1 / (64 * scale**2) < variation <= 1 / (16 * scale**2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((1, 2, 2), np.float32), "must be float64, got float32"),
        (np.zeros((2, 3, 2)), r"a stack of one, got shape \(2, 3, 2\)"),
        (np.zeros(()), r"a stack of one, got shape \(\)"),
        (np.full((1, 2, 2), inf), "the query is not finite"),
        (np.full((1, 2, 2), nan), "the query is not finite"),
    ],
)
def test_a_query_that_is_not_one_clients_finite_float64_is_refused(value: np.ndarray, text: str) -> None:
    with pytest.raises(InputError, match=text):
        exact_gaussian(Query(value, np.zeros(1)), 1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, inf, nan])
def test_a_scale_that_is_not_positive_and_finite_is_refused(scale: float) -> None:
    with pytest.raises(InputError, match="noise scale must be positive and finite"):
        exact_gaussian(Query(np.zeros((1, 2, 2)), np.zeros(1)), scale)


def test_no_error_text_holds_a_number_that_was_computed_from_records() -> None:
    secret = np.array([[[0.8125, inf]]])
    with pytest.raises(InputError) as refusal:
        exact_gaussian(Query(secret, np.array([0.8125])), 1.0)
    assert str(refusal.value) == "the query is not finite."
    assert refusal.value.__cause__ is None


def test_a_release_carries_nothing_of_the_query_but_its_noised_value() -> None:
    release = exact_gaussian(Query(np.full((1, 2, 3), 5.0), np.array([0.7])), 1e-9)
    assert release._fields == ("value",)
    assert np.asarray(release.value).dtype == np.float64
    np.testing.assert_allclose(np.asarray(release.value), np.full((1, 2, 3), 5.0), atol=1e-7)


def test_no_two_releases_are_the_same() -> None:
    assert not np.array_equal(released(0.0, 1.0, 4), released(0.0, 1.0, 4))


def in_a_new_process(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_a_client_does_not_wait_for_the_parts_of_opendp_that_it_does_not_use() -> None:
    program = (
        "import numpy as np, sys; from fedspd.privacy.exact import exact_gaussian; from fedspd.typing import Query\n"
    )
    program += "assert 'opendp' not in sys.modules\n"
    program += "exact_gaussian(Query(np.zeros((1, 1)), np.zeros(1)), 1.0); print('opendp.extras' in sys.modules)"
    assert in_a_new_process(program) == "False\n"


def test_without_opendp_the_remedy_is_named() -> None:
    program = """
import sys
import numpy as np
from fedspd.errors import InputError
from fedspd.privacy.exact import exact_gaussian
from fedspd.typing import Query

sys.path[:] = [folder for folder in sys.path if "site-packages" not in folder]
try:
    exact_gaussian(Query(np.zeros((1, 1)), np.zeros(1)), 1.0)
except InputError as refusal:
    print(refusal)
"""
    assert 'pip install "fedspd[flower]"' in in_a_new_process(program)
