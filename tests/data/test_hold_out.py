"""The validation split: a fifth of the records, always the same ones, and none of them in the rest."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.data import Category, Table, hold_out
from fedspd.data.adult import load


def numbered(rows: int) -> Table:
    """Every record knows its number."""
    kind = Category(np.arange(rows) % 2, ("even", "odd"))
    return Table(np.arange(float(rows))[:, None], np.arange(rows) % 2, ("row",), ("a", "b"), {"parity": kind})


@given(st.integers(3, 2000))
@settings(deadline=None)
def test_every_record_is_in_one_of_the_two_and_a_fifth_of_them_is_held_out(rows: int) -> None:
    rest, held = hold_out(numbered(rows))
    numbers = [*rest.features[:, 0].tolist(), *held.features[:, 0].tolist()]
    assert sorted(numbers) == list(range(rows))
    assert abs(len(held) - rows / 5) <= 0.5


@given(st.integers(3, 2000))
@settings(deadline=None)
def test_records_keep_their_order_their_labels_and_their_attributes(rows: int) -> None:
    for part in hold_out(numbered(rows)):
        numbers = part.features[:, 0].astype(int)
        assert (np.diff(numbers) > 0).all()
        np.testing.assert_array_equal(part.labels, numbers % 2)
        np.testing.assert_array_equal(part.attributes["parity"].codes, numbers % 2)


def test_it_is_the_same_fifth_whatever_was_drawn_before_and_whatever_the_features_are() -> None:
    _, first = hold_out(numbered(500))
    np.random.default_rng().random(1000)
    _, again = hold_out(numbered(500))
    np.testing.assert_array_equal(first.features, again.features)
    other = numbered(500)
    _, scaled = hold_out(other.with_features(other.features / 7))
    np.testing.assert_array_equal(scaled.features, first.features / 7)


def test_of_adult_6512_records_are_held_out_that_look_like_the_others() -> None:
    train, _ = load()
    rest, held = hold_out(train)
    assert (len(rest), len(held)) == (26049, 6512)
    assert abs(held.labels.mean() - rest.labels.mean()) < 0.02
    assert not np.array_equal(held.features, train.features[-6512:]), "they are drawn, not the last ones"
