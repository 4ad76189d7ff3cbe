"""Statistics of the noise: thresholds accept the truth and reject a 5 % error."""

import numpy as np
import pytest
from scipy import stats

from fedspd.engine import stream
from fedspd.engine.draws import unit_noise
from fedspd.privacy import WHOLE_SHARD, RecordSampling
from fedspd.privacy.accounting import Minimizer
from fedspd.privacy.mechanism import gaussian, laplace, objective, randomized_response
from fedspd.typing import Argmin, Query
from tests.engine.test_draws import spherical

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


@pytest.mark.parametrize("scale", [0.0587, 1.0, 30.0])
def test_the_norm_of_a_clients_noise_has_the_mean_of_scale_times_weights_and_not_five_percent_more_or_less(
    scale: float,
) -> None:
    clients, dimension = 5000, 6
    query = Query(np.full((clients, 3, 2), 3.0), np.zeros(clients))
    released = np.asarray(laplace(query, scale, unit_noise(stream(2, "noise"), "laplace", (clients, 3, 2))).value)
    total = float(np.linalg.norm(released - 3.0, axis=(1, 2)).sum()) / scale
    law = stats.gamma(clients * dimension)  # mean s d for each
    assert law.ppf(1e-6) < total < law.ppf(1 - 1e-6)
    assert not law.ppf(1e-6) < 1.05 * total < law.ppf(1 - 1e-6)
    assert not law.ppf(1e-6) < 0.95 * total < law.ppf(1 - 1e-6)
    assert spherical(released - 3.0, scale)


def half_a_square(clients: int, apart: float) -> Argmin:
    """Whose minimizer under b is -b."""
    return Argmin(lambda noise: -noise, lambda weights: weights, apart, np.full(clients, 0.7))


def test_noise_in_an_objective_goes_into_its_linear_term_and_only_the_minimizer_leaves() -> None:
    draws, scales = stream(3, "noise").standard_normal((2, 2, 3, 1)), np.array([1.0, 10.0])[:, None, None]
    release = objective(half_a_square(2, 0.0), scales, draws)
    assert release._fields == ("value",)
    np.testing.assert_array_equal(np.asarray(release.value), -scales * draws[:, 0])


@pytest.mark.parametrize("apart", [1e-4, 0.3])
def test_on_a_minimizer_there_is_a_gaussian_of_the_multiplier_that_is_charged_and_not_five_percent_more_or_less(
    apart: float,
) -> None:
    """Two minimizers that should be one are `apart` times as far from each other as a record moves the slope."""
    clients, moved, multiplier = 20_000, 0.05, 0.8
    event = RecordSampling(WHOLE_SHARD, law="objective", dimension=6, directions=2).event(325, multiplier)
    assert isinstance(event, Minimizer)
    draws = unit_noise(stream(4, "noise"), "objective", (clients, 2, 3, 2))
    scale = multiplier * moved
    released = np.asarray(objective(half_a_square(clients, apart), scale, draws).value)
    on_top = released + scale * draws[:, 0]
    for factor, truly in ((1.0, True), (1.05, False), (0.95, False)):
        assert rejected(on_top, factor * event.gaussian_multiplier * moved * apart) != truly
    assert spherical(draws[:, 0], 1.0)
    together = np.mean(draws[:, 0] * draws[:, 1]) / np.std(draws[:, 0])
    assert abs(together) < 5 / np.sqrt(draws[:, 0].size), "the second noise is not the first one"


@pytest.mark.parametrize("chance", [0.1, 0.45])
def test_a_label_is_flipped_with_the_chance_that_is_given_whatever_it_was_and_not_five_percent_more_or_less(
    chance: float,
) -> None:
    labels = np.repeat([0, 1], DRAWS)
    found = np.asarray(randomized_response(labels, stream(4, "labels").random(len(labels)), chance))
    assert set(np.unique(found)) == {0, 1}
    for one in (0, 1):
        flips = int(np.count_nonzero(found[labels == one] != one))
        assert stats.binomtest(flips, DRAWS, chance).pvalue > 1e-4
        assert stats.binomtest(flips, DRAWS, 1.05 * chance).pvalue < 1e-6
        assert stats.binomtest(flips, DRAWS, 0.95 * chance).pvalue < 1e-6
