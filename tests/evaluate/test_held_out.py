"""Records that are held out: which they are, what one record can move, and who may know."""

from dataclasses import replace

import numpy as np
import pytest

from fedspd.data import Category, Table, assign
from fedspd.data.holding.held_out import hold_out_by_key, planned_holdings
from fedspd.errors import InputError
from tests.support.held_out import KEY, broken_sides, small_table, units


@pytest.mark.parametrize("persons", [False, True])
def test_swapping_one_unit_replaces_at_most_one_on_each_side_and_none_of_another_client(persons: bool) -> None:
    assert not broken_sides(hold_out_by_key, persons)


@pytest.mark.parametrize("persons", [False, True])
def test_the_order_and_the_encoding_of_a_table_do_not_matter(persons: bool) -> None:
    rng = np.random.default_rng(2)
    table, owner = small_table(rng, 60, persons), np.zeros(60, int)
    _, first = hold_out_by_key(table, assign(table, owner, 1), 0.3, KEY)
    order = rng.permutation(60)
    sorted_otherwise = table.rows(order).with_features(-3.0 * table.features[order])
    sorted_otherwise = replace(sorted_otherwise, cells={"x": table.cells["x"][order]})
    _, second = hold_out_by_key(sorted_otherwise, assign(sorted_otherwise, owner, 1), 0.3, KEY)
    assert second.digest == first.digest
    assert sorted(units(table, first.rows)) == sorted(units(table, order[second.rows]))


def test_another_key_holds_out_others_and_the_same_key_the_same() -> None:
    table = small_table(np.random.default_rng(3), 200)
    dealt = assign(table, np.arange(200) % 2, 2)
    one, same, other = (hold_out_by_key(table, dealt, 0.5, key)[1] for key in (KEY, KEY, b"o" * 32))
    assert (one.rows == same.rows).all()
    assert one.digest == same.digest != other.digest
    assert 0.3 < np.isin(one.rows, other.rows).mean() < 0.7


def test_a_larger_share_keeps_those_that_a_smaller_one_held_out() -> None:
    table = small_table(np.random.default_rng(4), 100)
    dealt = assign(table, np.zeros(100, int), 1)
    few, many = (hold_out_by_key(table, dealt, share, KEY)[1] for share in (0.1, 0.4))
    assert set(few.rows) < set(many.rows)


def test_equal_records_are_held_out_one_by_one_and_not_all_together() -> None:
    table = small_table(np.random.default_rng(5), 1000)
    table = replace(table, labels=np.zeros(1000, int), cells={"x": np.zeros(1000)})
    trained, held = hold_out_by_key(table, assign(table, np.zeros(1000, int), 1), 0.2, KEY)
    assert (len(trained.labels), held.units) == (800, 200)


def test_the_records_of_a_person_weigh_one_together_and_never_more() -> None:
    table = small_table(np.random.default_rng(6), 90, persons=True)
    assert table.persons is not None
    _, held = hold_out_by_key(table, assign(table, table.persons.codes % 3, 3), 0.5, KEY)
    codes = table.persons.codes[held.rows]
    sums = np.bincount(codes, held.weights)[np.unique(codes)]
    assert held.units == len(sums)
    assert ((sums <= 1) & (sums > 1 - 1e-8)).all()


def test_one_record_of_a_named_person_may_move_all_records_of_another_which_is_why_records_of_persons_are_refused() -> (
    None
):
    moved = 0
    for seed in range(20):
        table = small_table(np.random.default_rng(seed), 30, persons=True)
        assert table.persons is not None
        codes = table.persons.codes.copy()
        codes[0] = codes.max() + 1  # one record is about somebody else
        other = replace(table, persons=Category(codes, table.persons.levels))
        changed = held_of(table) != held_of(other)
        strangers = changed & (table.persons.codes != table.persons.codes[0]) & (codes != codes[0])
        moved = max(moved, int(strangers.sum()))
    assert moved > 2, "of a claim for one record"


def test_an_empty_record_may_send_another_to_the_other_side_which_is_why_poisson_batches_of_records_are_refused() -> (
    None
):
    found = False
    for seed in range(20):
        values = np.random.default_rng(seed).permutation(30) + 1.0
        table = replace(small_table(np.random.default_rng(seed), 30), cells={"x": values})
        empty = replace(table, cells={"x": np.where(np.arange(30) == 0, 0.0, values)})
        found = found or bool((held_of(table) != held_of(empty))[1:].any())
    assert found


def held_of(table: Table) -> np.ndarray:
    """Which rows one client holds out."""
    _, held = hold_out_by_key(table, assign(table, np.zeros(len(table), int), 1), 0.4, KEY)
    return np.isin(np.arange(len(table)), held.rows)


def test_plans_know_the_sizes_before_anybody_looks_at_a_record() -> None:
    table = small_table(np.random.default_rng(7), 57)
    dealt = assign(table, np.arange(57) % 5, 5)
    trained, _ = hold_out_by_key(table, dealt, 0.35, KEY)
    assert (planned_holdings(dealt.holdings, 0.35).sizes == trained.sizes).all()


def test_a_share_of_nothing_is_refused() -> None:
    table = replace(small_table(np.random.default_rng(8), 6), persons=Category(np.arange(6), tuple("abcdef")))
    with pytest.raises(InputError, match=r"evaluation\.held_out must leave some records to measure on, got 0\.1"):
        hold_out_by_key(table, assign(table, np.arange(6) % 3, 3), 0.1, KEY)
