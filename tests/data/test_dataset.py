"""Tables and shards refuse what cannot be learned from, and shards share one table."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.data import Category, Shards, Table, assign
from fedspd.errors import InputError
from fedspd.target import Classes, Count, Number


def table(rows: int = 4, **changes: Any) -> Table:
    fields: dict[str, Any] = {
        "features": np.arange(2.0 * rows).reshape(rows, 2),
        "labels": np.arange(rows) % 2,
        "columns": ("a", "b"),
        "classes": ("no", "yes"),
    }
    return Table(**{**fields, **changes})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_counted_and_the_first_is_named(bad: float) -> None:
    features = np.zeros((4, 2))
    features[2, 1] = features[3, 0] = bad
    with pytest.raises(InputError, match=r"got 2 values that are not, the first in row 2, column 'b'"):
        table(features=features)


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_outside_the_classes_are_refused(label: int) -> None:
    with pytest.raises(InputError, match=rf"from 0 to 1 for 2 classes, got {label} in row 3"):
        table(labels=np.array([0, 1, 1, label]))


def test_labels_of_classes_must_be_integers() -> None:
    with pytest.raises(InputError, match="labels must be integers, got float64"):
        table(labels=np.zeros(4))


def test_a_target_keeps_labels_to_its_bounds_and_the_table_to_its_classes() -> None:
    number, count = Number("y", 0.0, 9.0), Count("y", 3.0)
    assert table().predicted == Classes("", ("no", "yes"))
    assert table(labels=number.labels(np.array([0, 3, 9, 12])), classes=(), target=number).predicted == number
    assert table(labels=count.labels(np.arange(4)), classes=(), target=count).rows(np.array([1])).target == count
    for target, labels, bounds in (
        (number, [0.0, 0.5, -1.0, 1.5], "-1 and 1"),
        (count, [0.0, 1.0, 2.0, 4.0], "0 and 3"),
    ):
        with pytest.raises(
            InputError, match=rf"^labels must be within {bounds}, got .* to .*; make them with the targ"
        ):
            table(labels=np.array(labels), classes=(), target=target)
    with pytest.raises(InputError, match=r"^classes must be those of the target, none, got no, yes; build the table"):
        table(target=number)


def test_a_table_without_classes_has_finite_numbers_as_labels() -> None:
    assert table(labels=np.array([0.5, -1.5, 2.0, 3.0]), classes=()).classes == ()
    with pytest.raises(InputError, match="labels must be finite, got 1 that are not, the first in row 1"):
        table(labels=np.array([0.5, np.nan, 2.0, 3.0]), classes=())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros(3, dtype=int)}, "one entry for each of the 4 records"),
        ({"columns": ("a",)}, "different name for each of the 2 feature columns"),
        ({"columns": ("a", "a")}, "1 of them different"),
        ({"features": np.zeros(4)}, "must be a float64 matrix"),
        ({"features": np.zeros((4, 2), dtype=int)}, "must be a float64 matrix"),
        ({"features": np.zeros((0, 2))}, "at least one row"),
        (
            {"attributes": {"c": Category(np.zeros(3, dtype=int), ("x",))}},
            "attribute 'c' must have one entry",
        ),
    ],
)
def test_shapes_that_disagree_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        table(**changes)


def test_replacing_the_features_keeps_the_records_and_checks_again() -> None:
    original = table()
    scaled = original.with_features(original.features / 2)
    assert scaled.labels is original.labels
    assert scaled.columns == original.columns
    with pytest.raises(InputError, match="finite"):
        original.with_features(np.full((4, 2), np.nan))


def test_a_category_is_coded_from_strings_and_refuses_codes_without_a_level() -> None:
    category = Category.of(np.array(["red", "blue", "red"]))
    assert category.levels == ("blue", "red")
    assert category.codes.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="from 0 to 0 for 1 levels, got 1 in row 2"):
        Category(np.array([0, 0, 1]), ("red",))


@given(st.data())
def test_assign_puts_every_record_on_its_owner_and_keeps_the_tables_order(data: st.DataObject) -> None:
    clients = data.draw(st.integers(1, 8))
    more = data.draw(st.lists(st.integers(0, clients - 1), max_size=30))
    owner = np.array(data.draw(st.permutations([*range(clients), *more])))
    whole = table(owner.size)
    shards = assign(whole, owner, clients)
    assert shards.clients == clients
    assert shards.sizes.tolist() == np.bincount(owner, minlength=clients).tolist()
    np.testing.assert_array_equal(shards.features, whole.features[shards.order])
    for client in range(clients):
        features, labels = shards.shard(client)
        np.testing.assert_array_equal(features, whole.features[owner == client])
        np.testing.assert_array_equal(labels, whole.labels[owner == client])


def test_a_shard_is_a_view() -> None:
    shards = assign(table(), np.array([1, 0, 1, 0]), 2)
    features, labels = shards.shard(1)
    assert np.shares_memory(features, shards.features)
    assert np.shares_memory(labels, shards.labels)


def test_a_client_that_does_not_exist_has_no_shard() -> None:
    with pytest.raises(IndexError, match="from 0 to 1, got -1"):
        assign(table(), np.array([1, 0, 1, 0]), 2).shard(-1)


def test_clients_without_a_record_are_named() -> None:
    with pytest.raises(InputError, match=r"got none on 2 of 4 clients \(1, 3\); use fewer clients"):
        assign(table(), np.array([0, 2, 0, 2]), 4)


@pytest.mark.parametrize("owner", [[0, 1, 2, 0], [0, -1, 1, 0], [0, 1, 0], [0.0, 1.0, 0.0, 1.0]])
def test_a_record_without_a_client_is_refused(owner: list[float]) -> None:
    with pytest.raises(InputError, match="owner must"):
        assign(table(), np.array(owner), 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": np.array([0, 1, 1, 3])}, "name each of the 4 records once, got 3"),
        ({"order": np.array([0, 1, 2, 4])}, "name each of the 4 records once, got 3"),
        ({"order": np.array([0, 1, 2])}, "one row for each of the 4 records"),
        ({"offsets": np.array([0, 3])}, "from 0 to the 4 records"),
        ({"offsets": np.array([0, 3, 3, 4])}, r"none on 1 of 3 clients \(1\)"),
    ],
)
def test_shards_hold_every_record_exactly_once(changes: dict[str, np.ndarray], message: str) -> None:
    whole = table()
    fields = {"offsets": np.array([0, 2, 4]), "order": np.arange(4)}
    with pytest.raises(InputError, match=message):
        Shards(whole.features, whole.labels, **{**fields, **changes})


def colored(rows: int) -> Table:
    kind = Category(np.arange(rows) % 3, ("red", "green", "blue"))
    return table(rows, attributes={"color": kind})


@given(st.lists(st.integers(0, 11), min_size=1, max_size=30))
@settings(deadline=None)
def test_some_rows_keep_features_labels_and_attributes_together_in_the_order_asked_for(numbers: list[int]) -> None:
    whole, chosen = colored(12), np.array(numbers)
    some = whole.rows(chosen)
    assert len(some) == len(numbers)
    np.testing.assert_array_equal(some.features, whole.features[chosen])
    np.testing.assert_array_equal(some.labels, whole.labels[chosen])
    np.testing.assert_array_equal(some.attributes["color"].codes, whole.attributes["color"].codes[chosen])
    assert some.attributes["color"].levels == ("red", "green", "blue")
    assert (some.columns, some.classes) == (whole.columns, whole.classes)


def test_no_rows_are_no_table() -> None:
    with pytest.raises(InputError, match="at least one row"):
        colored(12).rows(np.array([], dtype=int))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8))
@settings(deadline=None)
def test_a_client_divides_by_its_own_size_or_all_by_the_mean_size(sizes: list[int]) -> None:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    shards = assign(table(len(owner)), owner, len(sizes))
    assert shards.counts == "clients"
    assert shards.divisors.tolist() == sizes
    alike = replace(shards, counts="records")
    assert alike.divisors.tolist() == [float(np.mean(sizes))] * len(sizes)
    assert (shards.sizes / alike.divisors).sum() == pytest.approx(len(sizes))
    assert alike.divisors.dtype == np.float64
