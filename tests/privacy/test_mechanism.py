"""Statistics of the noise: thresholds accept the truth and reject a 5 % error."""

import numpy as np
import pytest
from scipy import stats

from fedspd.engine import stream
from fedspd.privacy import gaussian
from fedspd.typing import Query

DRAWS = 200_000


def rejected(noise: np.ndarray, scale: float) -> bool:
    """Two-sided chi-square test of the standard deviation, at one in a million."""
    statistic = float(np.sum((noise / scale) ** 2))
    tail = stats.chi2(noise.size)
    return not tail.ppf(5e-7) < statistic < tail.ppf(1 - 5e-7)


def noise_of(scale: float) -> np.ndarray:
    value = np.full((2, DRAWS // 4, 2), 3.0)
    normals = stream(0, "noise").standard_normal(value.shape)
    return np.asarray(gaussian(Query(value, np.zeros(2)), scale, normals).value) - value


@pytest.mark.parametrize("scale", [0.058749, 1.0, 30.0])
def test_noise_has_the_standard_deviation_it_is_given_and_not_five_percent_more_or_less(scale: float) -> None:
    noise = noise_of(scale)
    assert not rejected(noise, scale)
    assert rejected(noise, 1.05 * scale)
    assert rejected(noise, 0.95 * scale)
    assert scale == 1.0 or rejected(noise, scale**2), "the scale is a deviation, not a variance"


def test_noise_is_gaussian() -> None:
    assert stats.kstest(noise_of(1.0).ravel(), "norm").pvalue > 1e-4


def test_stacked_clients_may_have_their_own_scales() -> None:
    scales = np.array([1.0, 10.0])[:, None, None]
    value = np.zeros((2, 5000, 2))
    released = np.asarray(
        gaussian(Query(value, np.zeros(2)), scales, stream(1, "noise").standard_normal(value.shape)).value
    )
    assert not rejected(released[0], 1.0)
    assert not rejected(released[1], 10.0)


def test_a_release_carries_nothing_of_the_query_but_its_noised_value() -> None:
    release = gaussian(Query(np.zeros((1, 2, 2)), np.array([0.7])), 1.0, np.ones((1, 2, 2)))
    assert release._fields == ("value",)
    np.testing.assert_array_equal(np.asarray(release.value), np.ones((1, 2, 2)))
