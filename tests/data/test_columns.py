"""How a declared column becomes features: by public numbers alone, and never outside of what the moments rest on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.data import Categorical, Numeric, Schema, parse_schema
from fedspd.data.features.columns import Column, Product
from fedspd.data.tabular import encode, on_ranges
from fedspd.errors import InputError
from fedspd.target import Classes

TARGET = Classes("outcome", ("home", "died"))


def encoded(column: Column, cells: list[float]) -> np.ndarray:
    return encode({column.name: np.array(cells)}, Schema((column,), TARGET))


def test_bins_have_equal_widths_between_public_bounds_and_hold_each_value_once() -> None:
    age = Numeric("age", 0, 100, missing=50, bins=4)
    assert age.features == ("age 0 to 25", "age 25 to 50", "age 50 to 75", "age 75 to 100")
    values = [-5, 0, 24.9, 25, 60, 75, 100, 400, np.nan]
    assert encoded(age, values).argmax(axis=1).tolist() == [0, 0, 0, 1, 2, 3, 3, 3, 2]
    assert (encoded(age, values).sum(axis=1) == 1).all()


def test_logarithmic_bins_are_narrow_where_values_are_small() -> None:
    gain = Numeric("gain", 0, 99_999, missing=0, log_bins=5)
    np.testing.assert_allclose(gain.edges, [0, 9, 99, 999, 9999, 99_999], rtol=1e-12)
    assert encoded(gain, [0, 8, 10, 5000, 1e9]).argmax(axis=1).tolist() == [0, 0, 1, 3, 4]


def test_zero_and_missing_have_bins_of_their_own_where_that_is_declared() -> None:
    gain = Numeric("gain", 0, 100, missing=None, bins=2, zero=True)
    assert gain.features == ("gain missing", "gain zero", "gain 0 to 50", "gain 50 to 100")
    assert encoded(gain, [np.nan, 0, 1, 99]).argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_the_functions_of_a_spline_can_draw_any_straight_line() -> None:
    age = Numeric("age", 20, 80, missing=50, spline=6)
    values = np.linspace(20, 80, 50)
    basis = encoded(age, values.tolist())
    fitted = basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    np.testing.assert_allclose(fitted, values, rtol=1e-10)
    np.testing.assert_allclose(encoded(age, [np.nan, 1e9]), encoded(age, [50, 80]))


def test_an_ordinal_column_is_one_number_at_equal_distances() -> None:
    school = Categorical("school", ("none", "some", "all"), ordinal=True)
    schema = Schema((school,), TARGET)
    features = on_ranges(encode({"school": np.array([0, 1, 2, -1])}, schema), schema)
    assert features.tolist() == [[-1], [0], [1], [0]], "an entry that is no level stands in the middle"
    assert schema.numeric.tolist() == [True]


def test_levels_of_a_group_share_a_feature_at_the_place_of_the_first_of_them() -> None:
    ward = Categorical("ward", ("a", "b", "c", "d"), groups=(("late", ("b", "d")),))
    assert ward.features == ("ward=a", "ward=late", "ward=c")
    assert encoded(ward, [0, 1, 2, 3, -1]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_a_product_has_every_pair_of_features_on_their_public_ranges() -> None:
    age, sex = Numeric("age", 0, 10, missing=5), Categorical("sex", ("F", "M"))
    schema = Schema((age, sex), TARGET, (Product(age, sex),))
    assert schema.columns == ("age", "sex=F", "sex=M", "age × sex=F", "age × sex=M")
    features = on_ranges(encode({"age": np.array([10.0, 2.5]), "sex": np.array([1, 0])}, schema), schema)
    assert features.tolist() == [[1, 0, 1, 0, 1], [-0.5, 1, 0, -0.5, 0]]
    assert schema.categorical == 1


def test_a_product_of_two_blocks_is_a_block() -> None:
    sex, bins = Categorical("sex", ("F", "M")), Numeric("age", 0, 10, missing=5, bins=3)
    schema = Schema((sex, bins), TARGET, (Product(sex, bins),))
    assert schema.categorical == 3
    assert not schema.numeric.any()


@st.composite
def columns(draw: st.DrawFn) -> Column:
    kind = draw(st.sampled_from(["bins", "log_bins", "spline", "levels", "groups", "ordinal", "linear", "log"]))
    if kind in ("levels", "groups", "ordinal"):
        groups = (("g", ("b", "c")),) if kind == "groups" else ()
        missing = draw(st.sampled_from([None, "a"]))
        return Categorical("x", ("a", "b", "c", "d"), missing, ordinal=kind == "ordinal", groups=groups)
    lower = draw(st.floats(0, 1e3))
    upper = lower + draw(st.floats(1e-2, 1e6))
    if kind in ("linear", "log"):
        return Numeric("x", lower, upper, lower, log=kind == "log")
    own = kind != "spline" and draw(st.booleans())
    lower = 0.0 if own else lower
    ways = {kind: draw(st.integers(4, 30))}
    return Numeric("x", lower, upper, None if own else upper, zero=own, **ways)  # pyright: ignore[reportArgumentType]


@given(columns(), columns(), st.data())
def test_whatever_records_hold_numbers_keep_to_their_range_and_blocks_add_up_to_at_most_one(
    one: Column, other: Column, data: st.DataObject
) -> None:
    """What the sensitivity of the moments rests on."""
    from dataclasses import replace

    other = replace(other, name="y")
    schema = Schema((one, other), TARGET, (Product(one, other),))
    anything = st.floats() | st.sampled_from([0.0, -0.0, 1e308, -1e308, np.nan])
    cells = {
        column.name: np.array(
            data.draw(st.lists(anything if isinstance(column, Numeric) else st.integers(-1, 3), min_size=5, max_size=5))
        )
        for column in schema.inputs
    }
    features, place = on_ranges(encode(cells, schema), schema), 0
    assert np.isfinite(features).all()
    for part in schema.parts:
        block = features[:, place : place + len(part.features)]
        place += len(part.features)
        if part.is_number:
            assert (np.abs(block) <= 1 + 1e-12).all()
        else:
            assert (block >= 0).all()
            assert (block.sum(axis=1) <= 1 + 1e-12).all()


COLUMNS = {"target": {"column": "y", "classes": ["a", "b"]}, "columns": [{"name": "x", "bounds": [0, 1]}]}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bins": 4, "spline": 5}, "column 'x' must become features in one way, got bins and spline; keep one"),
        ({"log": True, "bins": 5}, "in one way, got log and bins"),
        ({"bins": 1}, "bins of column 'x' must be from 2 to 10000, got 1"),
        ({"bins": 10**6}, "got 1000000"),
        ({"spline": 3}, "spline of column 'x' must be from 4 to 10000, got 3"),
        ({"zero": True}, "zero = true of column 'x' needs bins or log-bins, got neither"),
        ({"zero": True, "bins": 3, "bounds": [1, 2]}, "zero = true of column 'x' needs zero within its bounds, got 1"),
        ({"missing": "bin"}, "missing = 'bin' of column 'x' needs bins or log-bins"),
        ({"missing": "bin", "spline": 5}, "needs bins or log-bins"),
        ({"missing": "none"}, "missing of column 'x' must be a number, got 'none'"),
        ({"bins": 2.5}, "bins of column 'x' must be a whole number, got 2.5"),
        ({"bounds": [-1, 1], "log-bins": 4}, "at least 0 for a logarithm"),
        ({"ordinal": True}, "which is numeric, has an unknown key 'ordinal'"),
        ({"confirmed": "yes"}, "confirmed of column 'x' must be true or false"),
    ],
)
def test_an_encoding_that_cannot_be_is_refused_with_its_column(keys: dict, message: str) -> None:
    values = COLUMNS | {"columns": [COLUMNS["columns"][0] | keys]}
    with pytest.raises(InputError, match=message):
        parse_schema(values)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"ordinal": True, "drop_first": True}, "column 'x' is ordinal, .* got drop_first or groups beside it"),
        ({"groups": {"g": ["a", "z"]}}, "a group of column 'x' must hold its levels, got 'z'"),
        ({"groups": {"g": ["a"], "h": ["a"]}}, "levels in groups of column 'x' must all be different, got 'a'"),
        ({"groups": {"b": ["a"]}}, None),
        ({"groups": ["a"]}, "groups of column 'x' must be a table of keys"),
        ({"bins": 3}, "which is categorical, has an unknown key 'bins'"),
    ],
)
def test_levels_that_cannot_be_are_refused_with_their_column(keys: dict, message: str | None) -> None:
    values = COLUMNS | {"columns": [{"name": "x", "levels": ["a", "b", "c"]} | keys]}
    if message is None:
        assert parse_schema(values).columns == ("x=b", "x=c"), "a group may have the name of a level it joins"
        return
    with pytest.raises(InputError, match=message):
        parse_schema(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": [{"columns": ["x"]}]}, "a product must be of two different columns, got x"),
        ({"products": [{"columns": ["x", "x"]}]}, "two different columns"),
        ({"products": [{"columns": ["x", "z"]}]}, "a product must be of declared columns, got 'z'"),
        ({"products": {"columns": ["x", "z"]}}, "must be a list of tables"),
        ({"target": {"column": "y"}}, "must have one of classes, bounds .* got none"),
        ({"target": {"column": "y", "classes": ["a", "b"], "most": 3}}, "got classes and most"),
        ({"target": {"column": "y", "bounds": [3, 1]}}, "the lower one first, got 3 and 1"),
        ({"target": {"column": "y", "most": 0}}, "must be at least 1, got 0"),
        ({"target": {"column": "y", "most": 5, "typical": 6}}, "at most 5, got 6"),
        ({"target": {"column": "y", "bounds": [0, 1], "typical": 6}}, "typical belongs to a count"),
        ({"target": {"column": "x", "bounds": [0, 1]}}, "must all be different, got 'x' more than once"),
        ({"client": "x"}, "must all be different, got 'x' more than once"),
        ({"client": 3}, "client must be a string, got 3"),
        ({"most_unreadable": 2}, "must be a share from 0 to 1, got 2"),
        ({"missing_markers": "NA"}, "must be a list of strings"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_in_a_sentence(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_schema(COLUMNS | changes)


@pytest.mark.parametrize(
    "column",
    [
        Numeric("x", 0.0, 99.0, 0.0, log_bins=4),
        Numeric("x", 0.0, 1e300, 0.0, log_bins=7),
        Numeric("x", -1.0, 0.7, 0.0, bins=10),
    ],
    ids=["logarithms", "very long", "plain"],
)
def test_a_bin_begins_at_its_threshold_to_the_last_digit(column: Numeric) -> None:
    at, below = column.thresholds, np.nextafter(column.thresholds, -np.inf)
    for values, first in ((at, 1), (below, 0)):
        features = np.zeros((len(values), len(column.features)))
        column.write(values, features)
        assert features.argmax(axis=1).tolist() == [first + number for number in range(len(values))]
