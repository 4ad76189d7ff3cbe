"""A mean over seeds comes with its standard error."""

import numpy as np
import pytest

from fedspd.results import mean_over_seeds


def test_the_error_is_that_of_a_mean_with_one_degree_of_freedom_less() -> None:
    mean = mean_over_seeds(np.array([1.0, 2.0, 6.0]))
    assert mean == pytest.approx((3.0, np.sqrt((4 + 1 + 9) / 2 / 3)))
    assert type(mean.value) is type(mean.error) is float


def test_of_many_rounds_each_has_its_own_mean_over_the_seeds() -> None:
    values = np.array([[1.0, 5.0], [3.0, 5.0]])
    mean, error = mean_over_seeds(values)
    np.testing.assert_allclose(mean, [2.0, 5.0])
    np.testing.assert_allclose(error, [1.0, 0.0])


def test_one_seed_has_no_error() -> None:
    assert mean_over_seeds(np.array([4.0])).value == 4.0
    assert np.isnan(mean_over_seeds(np.array([4.0])).error)
    assert np.isnan(mean_over_seeds(np.array([[4, 5]])).error).all()
