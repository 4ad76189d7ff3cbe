"""Encoding by budget: as fine as noise and records allow, within what is declared, and within what proofs need."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.data import Categorical, Numeric, Schema, parse_schema
from fedspd.data.features.columns import Column, Product
from fedspd.data.features.encoding import encoding_for, fineness
from fedspd.data.schema import schema_text, text_schema
from fedspd.data.tabular import encode, on_ranges
from fedspd.errors import InputError
from fedspd.target import Classes, Count

TARGET = Classes("outcome", ("home", "died"))
AGE, GAIN = Numeric("age", 0, 100, 50), Numeric("gain", 0, 99_999, 0, log=True)
PAIN = Categorical("pain", tuple("abcdefghijkl"), drop_first=True, ordered=True)
WARD = Categorical("ward", ("surgery", "medicine"))
MANY = 10**9
NOISES = st.floats(1e-9, 1e3)


def chosen(column: Column, noise: float, records: int = MANY) -> Column:
    return encoding_for(Schema((column, WARD), TARGET), noise, records).inputs[0]


def test_a_number_is_left_alone_where_noise_is_large_and_bends_ever_more_where_it_is_small() -> None:
    """With two columns b pieces fit where 8 b^2 noise is at most 1."""
    assert chosen(AGE, 0.0079) == replace(AGE, linear=True)
    assert chosen(AGE, 0.0078) == replace(AGE, spline=4)
    assert chosen(AGE, 0.00195) == replace(AGE, spline=8)
    assert chosen(AGE, 0.0) == replace(AGE, spline=8)


def test_an_amount_on_a_logarithmic_scale_is_cut_on_that_scale() -> None:
    assert chosen(GAIN, 1.0) == replace(GAIN, linear=True)
    assert chosen(GAIN, 0.005) == replace(GAIN, log=False, log_bins=4)
    assert chosen(GAIN, 1e-6) == replace(GAIN, log=False, log_bins=16)


def test_levels_in_an_order_are_a_number_then_groups_of_neighbors_then_levels() -> None:
    assert chosen(PAIN, 1.0).features == ("pain",)
    grouped = chosen(PAIN, 0.005)
    assert grouped.features == ("pain=d to f", "pain=g to i", "pain=j to l")
    cells = {"pain": np.arange(-1, 12), "ward": np.zeros(13)}
    schema = encoding_for(Schema((PAIN, WARD), TARGET), 0.005, MANY)
    assert encode(cells, schema)[:, :3].argmax(axis=1)[4:].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert chosen(PAIN, 1e-4) == replace(PAIN, ordered=False)


def test_a_weight_needs_records_to_be_learned_however_little_noise_there_is() -> None:
    assert chosen(AGE, 0.0, records=399).is_number
    assert chosen(AGE, 0.0, records=400) == replace(AGE, spline=4)


def test_more_columns_share_a_row_and_counts_that_are_rare_say_less() -> None:
    few, many = (Schema((AGE, *(replace(WARD, name=f"w{n}") for n in range(k))), TARGET) for k in (1, 7))
    assert fineness(few, 1e-4, MANY) == pytest.approx(2 * fineness(many, 1e-4, MANY))
    rare = replace(few, target=Count("visits", 100, typical=4))
    assert fineness(rare, 1e-4, MANY) == pytest.approx(fineness(few, 1e-4, MANY) / 5)


@pytest.mark.parametrize(
    "declared",
    [
        replace(AGE, bins=3), replace(AGE, spline=5), replace(AGE, linear=True), replace(GAIN, linear=True),
        replace(PAIN, ordered=False), replace(PAIN, ordered=False, drop_first=False, ordinal=True), WARD,
    ],
)  # fmt: skip
def test_an_encoding_that_somebody_declared_is_kept(declared: Column) -> None:
    other = Numeric("other", 0, 1, 0)
    for noise in (0.0, 1e-6, 1.0):
        assert encoding_for(Schema((declared, other), TARGET), noise, MANY).inputs[0] == declared


def test_columns_that_are_multiplied_are_kept_too() -> None:
    schema = Schema((AGE, WARD), TARGET, (Product(AGE, WARD),))
    assert encoding_for(schema, 0.0, MANY) == schema


@given(NOISES, NOISES, st.integers(1, 10**7))
def test_less_noise_never_cuts_coarser_and_nothing_is_left_open(one: float, other: float, records: int) -> None:
    schema = Schema((AGE, GAIN, PAIN, WARD), TARGET)
    coarse, fine = (encoding_for(schema, noise, records) for noise in sorted((one, other), reverse=True))
    assert all(len(a.features) <= len(b.features) for a, b in zip(coarse.inputs, fine.inputs, strict=True))
    assert encoding_for(coarse, 0.0, MANY) == coarse
    assert text_schema(schema_text(coarse)) == coarse


@settings(deadline=None)  # splines import SciPy when they are first used
@given(NOISES, st.lists(st.floats() | st.sampled_from([0.0, -0.0, 1e308, np.nan]), min_size=4, max_size=4), st.data())
def test_whatever_is_chosen_numbers_keep_to_their_range_and_blocks_add_up_to_at_most_one(
    noise: float, numbers: list[float], data: st.DataObject
) -> None:
    """What the sensitivity of the moments rests on."""
    schema = encoding_for(Schema((AGE, GAIN, PAIN, WARD), TARGET), noise, MANY)
    codes = {name: data.draw(st.lists(st.integers(-1, most), min_size=4, max_size=4)) for name, most in LEVELS.items()}
    cells = {"age": np.array(numbers), "gain": np.array(numbers)} | {name: np.array(one) for name, one in codes.items()}
    features, place = on_ranges(encode(cells, schema), schema), 0
    for part in schema.parts:
        block = features[:, place : place + len(part.features)]
        place += len(part.features)
        if part.is_number:
            assert (np.abs(block) <= 1 + 1e-12).all()
        else:
            assert (block >= 0).all()
            assert (block.sum(axis=1) <= 1 + 1e-12).all()


LEVELS = {"pain": 11, "ward": 1}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"bounds": [0, 1], "linear": True, "bins": 3}, "in one way, got bins and linear"),
        ({"levels": ["a", "b"], "ordered": True, "ordinal": True}, "is ordered, which leaves its encoding open, got"),
        ({"levels": ["a", "b"], "ordered": True, "groups": {"g": ["a"]}}, "is ordered, which leaves its encoding open"),
    ],
)
def test_a_column_is_left_open_or_declared_but_not_both(keys: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_schema({"target": {"column": "y", "classes": ["0", "1"]}, "columns": [{"name": "x", **keys}]})
