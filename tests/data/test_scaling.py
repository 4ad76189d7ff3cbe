"""Features are scaled in one order: columns, logarithm, scaling, bias, row norm."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspd.data import AdultSettings, clip_rows, prepare, read_adult
from fedspd.data.adult import Columns
from fedspd.data.features.scaling import min_max, moments, z_score
from fedspd.errors import InputError
from tests.support.tables import known

ADULT = read_adult(AdultSettings())
MATRICES = arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=st.floats(-1e6, 1e6))


def test_z_scores_have_mean_0_and_deviation_1_over_the_training_records() -> None:
    train, test = prepare(ADULT)
    assert train.features.shape == (32_561, 81)
    np.testing.assert_allclose(train.features.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.features.std(axis=0), 1, atol=1e-12)
    assert abs(known(test).features.mean(axis=0)).max() > 1e-3  # the test records are not fitted


def test_a_constant_column_becomes_0_even_where_its_mean_is_rounded() -> None:
    features = np.column_stack([np.full(10, 0.1), np.arange(10.0)])
    mean, deviation = moments(features)
    assert deviation[0] == 0
    np.testing.assert_array_equal(z_score(features, mean, deviation)[:, 0], 0)
    np.testing.assert_array_equal(z_score(features + 1, mean, deviation)[:, 0], 0)


@pytest.mark.parametrize("log_capital", [False, True])
@pytest.mark.parametrize("columns", ["published", "all"])
def test_min_max_lies_in_the_unit_interval_and_leaves_levels_alone(columns: Columns, log_capital: bool) -> None:
    scaled = prepare(read_adult(AdultSettings(columns, log_capital)), "min-max")
    plain = prepare(read_adult(AdultSettings(columns, log_capital)), "none")
    for after, before in zip(map(known, scaled), map(known, plain), strict=True):
        assert after.features.min() == 0
        assert after.features.max() == 1
        levels = ["=" in column for column in after.columns]
        np.testing.assert_array_equal(after.features[:, levels], before.features[:, levels])


def test_min_max_moves_values_outside_the_bounds_onto_them() -> None:
    features = np.array([[-5.0], [10.0], [15.0], [99.0]])
    scaled = min_max(features, np.array([10.0]), np.array([20.0]))
    assert scaled.ravel().tolist() == [0, 0, 0.5, 1]


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_bounds_that_bound_nothing_are_refused(lower: float, upper: float) -> None:
    with pytest.raises(InputError, match="for column 1; declare the range"):
        min_max(np.zeros((1, 2)), np.array([0.0, lower]), np.array([1.0, upper]))


def test_the_bias_is_the_last_of_82_columns_and_survives_the_scaling() -> None:
    for table in map(known, prepare(ADULT, bias=0.5)):
        assert table.columns[-1] == "bias"
        assert table.features.shape[1] == 82
        np.testing.assert_array_equal(table.features[:, -1], 0.5)


def test_the_row_norm_covers_the_bias() -> None:
    for table in map(known, prepare(ADULT, "min-max", 1.0, 1.0)):
        lengths = np.linalg.norm(table.features, axis=1)
        assert lengths.max() <= 1 + 1e-12
        assert table.features[:, -1].max() < 1


@given(MATRICES, st.floats(1e-3, 1e3))
def test_long_rows_get_the_norm_and_short_ones_are_untouched(features: np.ndarray, norm: float) -> None:
    clipped = clip_rows(features, norm)
    before, after = np.linalg.norm(features, axis=1), np.linalg.norm(clipped, axis=1)
    np.testing.assert_allclose(after, np.minimum(before, norm), rtol=1e-12)
    np.testing.assert_array_equal(clipped[before <= norm], features[before <= norm])


@pytest.mark.parametrize("norm", [0.0, -1.0, np.inf, np.nan])
def test_a_row_norm_that_is_no_length_is_refused(norm: float) -> None:
    with pytest.raises(InputError, match="row norm must be positive and finite"):
        clip_rows(np.zeros((1, 1)), norm)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scaling": "robust"}, "scaling must be one of z-score, min-max, none, got 'robust'"),
        ({"bias": np.inf}, "bias must be finite"),
        ({"row_norm": 0.0}, "row norm must be positive"),
    ],
)
def test_a_pipeline_that_cannot_be_built_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(ADULT, **options)
