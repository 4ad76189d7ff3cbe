"""Every way of handing out records puts each on one client, leaves no client empty, and repeats."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.data import KINDS, Category, Table, split
from fedspd.data.adult import load
from fedspd.errors import InputError

OPTIONS: dict[str, dict[str, Any]] = {
    "iid": {},
    "dirichlet": {"alpha": 0.5, "at_least": 1},
    "label-shards": {"shards_per_client": 1},
    "by-column": {"column": "color"},
    "power-law": {"exponent": 1.2},
}


def table(rows: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    color = Category(np.minimum(rng.geometric(0.5, rows) - 1, 3), ("red", "green", "blue", "gray"))
    features = np.arange(rows, dtype=np.float64)[:, None]
    return Table(features, rng.integers(0, 3, rows), ("row",), ("a", "b", "c"), {"color": color})


ADULT, _ = load()


def test_the_options_above_cover_every_way() -> None:
    assert {*OPTIONS, "own"} == KINDS.keys(), "whose clients are not dealt"


def test_clients_of_their_own_keep_their_records() -> None:
    own = Category(np.array([2, 0, 2, 1]), ("a", "b", "c"))
    whole = Table(np.arange(4.0)[:, None], np.zeros(4, int), ("row",), ("no", "yes"), {"client": own})
    shards = split(whole, "own", 3, np.random.default_rng(0))
    assert [shards.shard(client)[0].ravel().tolist() for client in range(3)] == [[1], [3], [0, 2]]


@pytest.mark.parametrize("kind", OPTIONS)
@given(rows=st.integers(4, 200), share=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_every_record_is_on_exactly_one_client_and_no_client_is_empty(
    kind: str, rows: int, share: float, seed: int
) -> None:
    whole = table(rows, seed)
    clients = 4 + int(share * (rows - 4))
    shards = split(whole, kind, clients, np.random.default_rng(seed), **OPTIONS[kind])
    assert shards.clients == clients
    assert shards.sizes.min() >= 1
    assert shards.offsets[0] == 0
    assert shards.offsets[-1] == rows
    assert sorted(np.asarray(shards.order)) == list(range(rows))
    np.testing.assert_array_equal(shards.features[:, 0], shards.order)
    np.testing.assert_array_equal(shards.labels, whole.labels[shards.order])


@pytest.mark.parametrize("kind", OPTIONS)
def test_the_same_seed_gives_the_same_shards_and_another_seed_others(kind: str) -> None:
    first, again, other = (
        split(table(300), kind, 10, np.random.default_rng(seed), **OPTIONS[kind]).order for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_iid_over_100_clients_gives_61_of_them_326_records_and_39_of_them_325() -> None:
    sizes = split(ADULT, "iid", 100, np.random.default_rng(0)).sizes
    assert dict(zip(*np.unique(sizes, return_counts=True), strict=True)) == {325: 39, 326: 61}


@given(rows=st.integers(1, 300), share=st.floats(0, 1))
def test_iid_sizes_differ_by_at_most_one(rows: int, share: float) -> None:
    sizes = split(table(rows), "iid", 1 + int(share * (rows - 1)), np.random.default_rng(0)).sizes
    assert np.ptp(sizes) <= 1


def positives(alpha: float, seed: int) -> np.ndarray:
    """Share of the records with the higher income on each client."""
    shards = split(ADULT, "dirichlet", 20, np.random.default_rng(seed), alpha=alpha, at_least=1)
    return np.add.reduceat(shards.labels, shards.offsets[:-1]) / shards.sizes


@pytest.mark.parametrize("seed", range(5))
def test_a_small_alpha_skews_labels_more_than_a_large_one(seed: int) -> None:
    small, middle, large = (positives(alpha, seed).std() for alpha in (0.1, 1.0, 1_000.0))
    assert small > middle > large
    assert large < 0.02


def test_a_dirichlet_split_that_leaves_clients_empty_is_refused_and_not_redrawn() -> None:
    with pytest.raises(InputError, match=r"of 100 clients .*; use a larger alpha, fewer clients, another seed"):
        split(ADULT, "dirichlet", 100, np.random.default_rng(0), alpha=0.1)


@pytest.mark.parametrize("alpha", [1e-300, 1e-3, 1e6])
def test_at_least_holds_at_every_alpha(alpha: float) -> None:
    shards = split(ADULT, "dirichlet", 100, np.random.default_rng(0), alpha=alpha, at_least=10)
    assert shards.sizes.min() >= 10


def test_with_one_label_shard_each_a_client_sees_one_label_unless_its_shard_spans_two() -> None:
    shards = split(ADULT, "label-shards", 50, np.random.default_rng(0), shards_per_client=1)
    mixed = sum(np.unique(shards.shard(client)[1]).size > 1 for client in range(50))
    assert mixed <= 1
    assert np.ptp(shards.sizes) <= 1


@pytest.mark.parametrize(("column", "clients"), [("sex", 2), ("occupation", 100), ("native-country", 41)])
def test_by_column_gives_each_client_one_level(column: str, clients: int) -> None:
    shards = split(ADULT, "by-column", clients, np.random.default_rng(0), column=column)
    codes = ADULT.attributes[column].codes[shards.order]
    levels = [np.unique(part) for part in np.split(codes, shards.offsets[1:-1])]
    assert all(level.size == 1 for level in levels)
    assert {int(level[0]) for level in levels} == set(codes.tolist())


def test_by_column_allots_clients_in_proportion_to_the_records_of_a_level() -> None:
    # 32,561 training records: 10,771 women and 21,790 men, 33.08 and 66.92 of 100 clients.
    shards = split(ADULT, "by-column", 100, np.random.default_rng(0), column="sex")
    sexes = ADULT.attributes["sex"].codes[shards.order][shards.offsets[:-1]]
    assert np.bincount(sexes).tolist() == [33, 67]


def test_by_column_gives_each_level_one_client_where_there_are_as_many_levels_as_clients() -> None:
    # 49 records of the first level: 49 * (1 / 49) is below 1 in floating point.
    codes = np.repeat([0, 1, 2], [49, 3, 1])
    table = Table(np.zeros((53, 1)), codes, ("x",), ("a", "b", "c"), {"c": Category(codes, ("a", "b", "c"))})
    assert split(table, "by-column", 3, np.random.default_rng(0), column="c").sizes.tolist() == [49, 3, 1]


def test_by_column_refuses_fewer_clients_than_levels() -> None:
    with pytest.raises(InputError, match="at least 5, the levels of 'race' that occur, got 4"):
        split(ADULT, "by-column", 4, np.random.default_rng(0), column="race")


def test_by_column_refuses_a_column_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"categorical column \(.*race.*\), got 'age'"):
        split(ADULT, "by-column", 4, np.random.default_rng(0), column="age")


@given(rows=st.integers(1, 300), share=st.floats(0, 1), exponent=st.floats(0, 50))
def test_power_law_sizes_never_rise_with_the_rank_and_are_never_0(rows: int, share: float, exponent: float) -> None:
    clients = 1 + int(share * (rows - 1))
    sizes = split(table(rows), "power-law", clients, np.random.default_rng(0), exponent=exponent).sizes
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() >= 1


def test_power_law_sizes_follow_the_law_where_no_client_is_raised_to_one_record() -> None:
    sizes = split(ADULT, "power-law", 100, np.random.default_rng(0), exponent=1.0).sizes
    law = 1 / np.arange(1, 101)
    np.testing.assert_allclose(sizes, len(ADULT) * law / law.sum(), atol=1)


@pytest.mark.parametrize(
    ("kind", "clients", "options", "message"),
    [
        ("sorted", 2, {}, "partition must be one of iid, dirichlet"),
        ("iid", 0, {}, "from 1 to the 30 records, got 0"),
        ("iid", 31, {}, "from 1 to the 30 records, got 31"),
        ("iid", 2, {"alpha": 1.0}, "takes the options none, got alpha; remove alpha"),
        ("dirichlet", 2, {}, "got none; add alpha"),
        ("dirichlet", 2, {"alpha": 0.0}, "alpha must be positive"),
        ("dirichlet", 2, {"alpha": np.nan}, "alpha must be positive"),
        ("dirichlet", 2, {"alpha": 1.0, "at_least": 16}, "at_least must be from 0 to 15"),
        ("label-shards", 2, {"shards_per_client": 0}, "shards_per_client must be from 1 to 15"),
        ("label-shards", 2, {"shards_per_client": 16}, "shards_per_client must be from 1 to 15"),
        ("power-law", 2, {"exponent": -1.0}, "exponent must be finite and at least 0"),
    ],
)
def test_what_cannot_be_handed_out_is_refused(kind: str, clients: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(table(30), kind, clients, np.random.default_rng(0), **options)


def test_a_dirichlet_split_needs_classes() -> None:
    numbers = Table(np.zeros((3, 1)), np.arange(3.0), ("a",), ())
    with pytest.raises(InputError, match="needs classes"):
        split(numbers, "dirichlet", 2, np.random.default_rng(0), alpha=1.0)
