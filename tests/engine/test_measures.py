"""Models of many runs, measured together on one test set, have the numbers of each alone."""

import numpy as np
import pytest

from fedspd.data import Table
from fedspd.engine.measuring.measures import measures_of_many, measures_on
from fedspd.problem import Softmax


@pytest.mark.parametrize("classes", [2, 3])
def test_runs_that_share_a_test_set_are_measured_as_each_alone(classes: int) -> None:
    rng = np.random.default_rng(0)
    names = ("no", "yes", "perhaps")[:classes]
    table = Table(rng.standard_normal((50, 4)), rng.integers(0, classes, 50), tuple("abcd"), names)
    weights, averages = rng.standard_normal((2, 5, 4, classes))
    weights[3] = np.nan  # one that diverged
    together = measures_of_many(table, Softmax(classes), weights, averages)
    for found, *models in zip(together, weights, averages, strict=True):
        expected = measures_on(table, Softmax(classes), *models)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-12, nan_ok=True), name


def test_without_a_test_set_nothing_is_measured() -> None:
    (found,) = measures_of_many(None, Softmax(2), np.zeros((1, 4, 2)), np.zeros((1, 4, 2)))
    assert np.isnan(list(found.values())).all()
