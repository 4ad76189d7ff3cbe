"""Ties are called ties: equals stand in one class, whoever is far ahead stands alone, and places add up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.studies.compare import ADULT, Cell, Ground, cells, compare
from fedspd.studies.compare.classes import class_of, classes, places, ranks, told_apart
from fedspd.studies.compare.tables import leaderboard, summary
from fedspd.studies.lineup import BY_RULE, OURS
from fedspd.studies.testing import holm
from tests.studies.made import CENTRAL, entry

CREDIT = Ground("credit", (("data.name", "credit"),), deals=("iid", "dirichlet"))


def noisy(means: list[float], seeds: int, spread: float, seed: int = 0) -> np.ndarray:
    return np.array(means)[:, None] + spread * np.random.default_rng(seed).standard_normal((len(means), seeds))


@given(st.integers(2, 8), st.lists(st.floats(40, 90), min_size=2, max_size=10))
@settings(deadline=None)
def test_identical_methods_are_always_one_class(count: int, row: list[float]) -> None:
    assert classes(np.tile(row, (count, 1))).tolist() == [1] * count


@given(st.integers(2, 6), st.integers(3, 10), st.integers(0, 999), st.integers(0, 5))
@settings(deadline=None)
def test_a_method_that_is_better_by_far_is_alone_and_the_others_begin_the_second_class(
    count: int, seeds: int, seed: int, winner: int
) -> None:
    means = [50.0] * count
    means[winner % count] = 90.0
    found = classes(noisy(means, seeds, 1e-3, seed))
    assert np.flatnonzero(found == 1).tolist() == [winner % count]
    assert sorted(set(found.tolist()))[:2] == [1, 2]


@given(st.integers(1, 7), st.integers(2, 10), st.integers(0, 999), st.permutations(range(7)))
@settings(deadline=None)
def test_classes_are_numbered_without_gaps_and_do_not_depend_on_the_order_of_methods(
    count: int, seeds: int, seed: int, order: list[int]
) -> None:
    scores = noisy(np.random.default_rng(seed + 1).uniform(70, 80, count).tolist(), seeds, 0.5, seed)
    found, shuffled = classes(scores), [place for place in order if place < count]
    assert set(found.tolist()) == set(range(1, found.max() + 1))
    assert classes(scores[shuffled]).tolist() == found[shuffled].tolist()
    best = int(scores.mean(axis=1).argmax())
    assert found[best] == 1
    assert ranks(found).sum() == pytest.approx(count * (count + 1) / 2)


def test_what_is_told_apart_is_decided_by_differences_within_a_seed() -> None:
    """Seeds differ by ten points, methods by a tenth: without pairs nothing could be seen."""
    seeds = np.linspace(70, 80, 10)
    wiggle = 0.01 * np.sin(np.arange(10))
    assert classes(np.array([seeds + 0.1 + wiggle, seeds, seeds - wiggle])).tolist() == [1, 2, 2]


def test_a_near_miss_is_a_tie_until_it_is_ten_times_as_large() -> None:
    """Planted: ahead with seven seeds of ten, by less than a standard error, and then by many."""
    gaps = np.array([0.3, 0.2, -0.4, 0.1, 0.3, -0.2, 0.2, 0.1, -0.3, 0.2])
    rival = np.full(10, 80.0)
    assert 0 < gaps.mean() < gaps.std(ddof=1) / 10**0.5
    assert classes(np.array([rival + gaps, rival])).tolist() == [1, 1]
    assert classes(np.array([rival + gaps + 1.0, rival])).tolist() == [1, 2]


def test_the_same_gap_with_every_seed_is_no_chance_but_rounding_is() -> None:
    rows = np.array([[80.0] * 4, [79.9] * 4, [80.0 - 1e-12] * 4])
    assert classes(rows).tolist() == [1, 2, 1]


def test_whoever_is_not_told_apart_from_the_best_is_first_even_if_told_apart_from_another() -> None:
    """The best varies much, so that a steady one below it is still first; and so is one that the steady one beats."""
    rng = np.random.default_rng(3)
    best = 82 + 6 * rng.standard_normal(10)
    best += 82 - best.mean()
    steady, lower = 80 + 0.01 * rng.standard_normal(10), 79 + 0.01 * rng.standard_normal(10)
    scores = np.array([best, steady, lower])
    assert told_apart(scores)[1, 2]
    assert classes(scores).tolist() == [1, 1, 1]


def test_equals_are_seldom_told_apart_however_many_there_are() -> None:
    """Of 400 situations of twelve equal methods about one in twenty at most has any two told apart."""
    scores = np.random.default_rng(1).standard_normal((400, 12, 10))
    assert sum(told_apart(one).any() for one in scores) <= 20 + 3 * 19**0.5


def test_what_diverged_has_reached_nothing() -> None:
    assert classes(np.array([[80.0, 80.1, 80.2], [np.nan] * 3])).tolist() == [1, 2]


def test_holms_correction_is_that_of_a_worked_example() -> None:
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.005])), [0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([])).tolist() == []


def board(ours: list[float], sgd: list[float], on: Ground = ADULT, deal: str = "iid") -> list[Any]:
    reached = {OURS: ours, "DP-SGD": sgd, "DP-ADMM as published": [0.99] * len(ours)}
    return [entry(Cell(deal, "full", 1.0, method, on), [*values]) for method, values in reached.items()]


AHEAD, LEVEL = ([0.85, 0.851, 0.849], [0.70, 0.701, 0.702]), ([0.80, 0.81, 0.82], [0.80, 0.82, 0.81])


def test_a_summary_counts_first_classes_by_data_and_shares_places_among_ties() -> None:
    entries = [*board(*AHEAD), *board(*LEVEL, deal="dirichlet"), *board(*LEVEL, on=CREDIT)]
    ours, sgd = places(entries)
    assert (ours.method, ours.ranks, ours.firsts) == (OURS, (1.0, 1.5, 1.5), {ADULT: (2, 2), CREDIT: (1, 1)})
    assert (sgd.method, sgd.ranks, sgd.firsts) == ("DP-SGD", (2.0, 1.5, 1.5), {ADULT: (1, 2), CREDIT: (1, 1)})
    grid = summary(entries)["summary"]
    assert grid.columns == ("method", "situations", "mean rank", "first class", "on adult", "on credit")
    assert [row[3:] for row in grid.rows] == [("3 of 3", "2 of 2", "1 of 1"), ("2 of 3", "1 of 2", "1 of 1")]


def test_what_is_not_proved_has_no_class_and_takes_nobodys_place() -> None:
    entries = board(*AHEAD)
    assert [class_of(entries).get(id(one)) for one in entries] == [1, 2, None]
    grid = leaderboard(entries, [CENTRAL])
    place = grid.columns.index("class")
    assert [row[place] for row in grid.rows] == [None, 1, 2, None], "the one as published stands first, without a class"


def test_one_seed_has_neither_classes_nor_a_summary() -> None:
    entries = board([0.8], [0.7])
    assert class_of(entries) == {}
    assert summary(entries) == {}


@pytest.mark.slow
def test_two_names_for_the_same_runs_are_one_class_in_a_comparison(cache: Any) -> None:
    """Ours and ours by rule are the same at the grid's middle; here nothing is tuned but by rule twice."""
    chosen = [cell for cell in cells((1.0,), ("iid",), ("full",), ("fedspd",)) if cell.method in BY_RULE]
    twice = [*compare(chosen, 2)[0], *compare(chosen, 2)[0]]
    assert classes(np.array([one.score for one in twice])).tolist() == [1, 1]
