"""Intervals hold sampling and privacy noise: they cover the truth as often as they say."""

import numpy as np
import pytest

from fedspd.evaluate.counting import Counting
from fedspd.evaluate.intervals import NoisedTable
from fedspd.evaluate.measures import group_measures, measures

RUNS = 20_000  # ten times the 2,000 that are asked for: among some hundred measures chance alone would fail one
TWO, THREE, NUMBER = Counting(("a", "b"), 10), Counting(("a", "b", "c"), 6), Counting((), 10)


def of_scores(counting: Counting) -> np.ndarray:
    """Chances of the cells for scores of a model that is right about its probabilities; positives are few."""
    rng = np.random.default_rng(1)
    margins = rng.normal(-1.0, 1.5, 400_000)
    probabilities = 1 / (1 + np.exp(-margins))
    labels = (rng.random(margins.size) < probabilities).astype(int)
    cells = np.zeros((2, counting.bins))
    np.add.at(cells, (labels, counting.binned(probabilities)), 1 / margins.size)
    return cells.ravel()


def of_classes() -> np.ndarray:
    confusion = np.array([[0.30, 0.05, 0.02], [0.04, 0.25, 0.06], [0.03, 0.05, 0.20]]).ravel()
    sure = np.array([[0.02, 0.03, 0.04, 0.06, 0.05, 0.05], [0.03, 0.05, 0.08, 0.13, 0.18, 0.28]]).ravel()
    return np.concatenate([confusion, sure])


def of_residuals() -> np.ndarray:
    chances = np.array([0.005, 0.02, 0.075, 0.15, 0.25, 0.25, 0.15, 0.075, 0.02, 0.005])
    return chances / chances.sum()


def drawn(counting: Counting, chances: np.ndarray, records: int, noise: float, seed: int) -> np.ndarray:
    """Noised counts of many runs; the tables of one run are drawn apart, as every measure is of one of them."""
    rng = np.random.default_rng(seed)
    sizes = [int(np.prod(shape)) for shape in counting.shapes]
    parts = [
        rng.multinomial(records, part / part.sum(), size=RUNS) for part in np.split(chances, np.cumsum(sizes)[:-1])
    ]
    counts = np.concatenate(parts, axis=1)
    return counts + noise * rng.standard_normal(counts.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "noise"), [(6500, 20.0), (2000, 20.0), (800, 2.0), (3000, 45.0)])
@pytest.mark.parametrize(
    ("counting", "chances"), [(TWO, of_scores(TWO)), (THREE, of_classes()), (NUMBER, of_residuals())]
)
def test_95_of_100_intervals_hold_the_truth(
    counting: Counting, chances: np.ndarray, records: int, noise: float
) -> None:
    checked, wrong = coverage(counting, chances, records, noise)
    assert checked >= 3
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("stretch", [0.9, 1.1])
@pytest.mark.parametrize(
    ("counting", "chances"), [(TWO, of_scores(TWO)), (THREE, of_classes()), (NUMBER, of_residuals())]
)
def test_intervals_that_are_a_tenth_too_short_or_too_long_are_found_out(
    counting: Counting, chances: np.ndarray, stretch: float
) -> None:
    checked, wrong = coverage(counting, chances, 3000, 45.0, stretch)
    assert len(wrong) >= checked


def coverage(
    counting: Counting, chances: np.ndarray, records: int, noise: float, stretch: float = 1.0
) -> tuple[int, list[tuple[str, float | None, float]]]:
    """How many measures have intervals that no end cuts off, and which measures are covered too seldom or too often.

    Args:
        stretch: how much longer intervals are made than they are.
    """
    released = drawn(counting, chances, records, noise, seed=7)
    truth = {
        (one.name, one.at): float(one.interval.value)
        for one in measures(counting, 1e9 * chances, 1e-12, 10**9, probabilities=True)
    }
    checked, wrong = 0, []
    for one in measures(counting, released, noise**2, records, probabilities=True):
        value, low, high = one.interval
        middle, half, known = (low + high) / 2, stretch * (high - low) / 2, np.isfinite(value)
        covered = float(np.mean(np.abs(truth[one.name, one.at] - middle) <= half * (1 + 1e-12)))
        inside = 0.02 < truth[one.name, one.at] < 0.98 and np.mean((low > 0) & (high < 1)) > 0.99
        whole = bool(known.all() and (inside or one.name == "mean residual"))
        checked += whole
        if covered < 0.935 or (whole and covered > 0.965):
            wrong.append((one.name, one.at, covered))
    return checked, wrong


@pytest.mark.slow
def test_intervals_that_forget_the_privacy_noise_are_found_out() -> None:
    released = drawn(TWO, of_scores(TWO), 3000, 20.0, seed=8)
    truth = float(next(measures(TWO, 1e9 * of_scores(TWO), 1e-12, 10**9, probabilities=True)).interval.value)
    _, low, high = next(measures(TWO, released, 1e-12, 3000, probabilities=True)).interval
    assert np.mean((low <= truth) & (truth <= high)) < 0.9


def drawn_by_person(chances: np.ndarray, persons: int, noise: float, runs: int, seed: int) -> np.ndarray:
    """The same of one table whose persons have one to five rows, most of them in one cell, which weigh one together."""
    rng = np.random.default_rng(seed)
    counts, cumulated = np.empty((runs, chances.size)), np.cumsum(chances / chances.sum())
    for number in range(runs):
        sizes = rng.integers(1, 6, persons)
        whose = np.repeat(np.arange(persons), sizes)
        luck = np.where(rng.random(whose.size) < 0.7, rng.random(persons)[whose], rng.random(whose.size))
        cells = np.minimum(np.searchsorted(cumulated, luck), chances.size - 1)
        weights = np.floor(2**30 / sizes[whose]) / 2**30
        counts[number] = np.bincount(cells, weights, chances.size)
    return counts + noise * rng.standard_normal(counts.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("persons", "noise"), [(2000, 10.0), (800, 2.0)])
@pytest.mark.parametrize(("counting", "chances"), [(TWO, of_scores(TWO)), (NUMBER, of_residuals())])
def test_intervals_of_persons_with_several_rows_hold_the_truth_and_are_a_little_long(
    counting: Counting, chances: np.ndarray, persons: int, noise: float
) -> None:
    """Rows of a person that are in several cells vary less than one record would: intervals are conservative."""
    released = drawn_by_person(chances, persons, noise, runs=2000, seed=11)
    truth = {
        (one.name, one.at): float(one.interval.value)
        for one in measures(counting, 1e9 * chances, 1e-12, 10**9, probabilities=True)
    }
    found = []
    for one in measures(counting, released, noise**2, persons, probabilities=True):
        _, low, high = one.interval
        covered = float(np.mean((low <= truth[one.name, one.at]) & (truth[one.name, one.at] <= high)))
        assert covered >= 0.935, (one.name, one.at, covered)
        found.append(covered)
    assert np.mean(found) > 0.95


@pytest.mark.slow
def test_subgroups_are_covered_too_and_small_ones_are_left_out() -> None:
    counting = Counting(("a", "b"), 4, ("f", "m", "no level"))
    rng = np.random.default_rng(9)
    chances = rng.dirichlet(np.full(16, 3.0)) * 0.995
    chances = np.concatenate([chances, np.full(8, 0.005 / 8)])
    truth = {
        (group, one.name): float(one.interval.value)
        for group, one in group_measures(counting, 1e9 * chances, 1e-12, 10**9, least=1)
    }
    covered: dict[tuple[str, str], list[bool]] = {}
    for released in drawn(counting, chances, 4000, 15.0, seed=10)[:2000]:
        for group, one in group_measures(counting, released, 225.0, 4000, least=200):
            if one.name != "records":
                inside = one.interval.low <= truth[group, one.name] <= one.interval.high
                covered.setdefault((group, one.name), []).append(bool(inside))
    assert {group for group, _ in covered} == {"f", "m"}
    for name, inside in covered.items():
        assert 0.935 <= np.mean(inside) <= 0.965, name


def test_counts_are_moved_to_the_public_number_of_records_without_a_bias() -> None:
    released = np.array([[10.0, -4.0, 30.0, 20.0]])
    table = NoisedTable.of(released, 4.0, 40)
    assert table.counts.sum() == pytest.approx(40)
    assert np.ptp(table.counts - released) == pytest.approx(0)
    assert table.noise(np.ones(4), np.ones(4)) == pytest.approx(0)


def test_nothing_is_said_of_a_share_of_records_that_may_not_be_there() -> None:
    table = NoisedTable.of(np.array([3.0, 2.0, 995.0]), 100.0, 1000)
    value, low, high = table.share(np.array([1.0, 0, 0]), np.array([1.0, 1, 0]))
    assert np.isnan(value)
    assert (low, high) == (0.0, 1.0)


def test_a_mean_that_noise_takes_out_of_what_can_be_is_put_at_its_end() -> None:
    table = NoisedTable.of(np.array([-4.0, 20.0, 5.0]), 400.0, 21)
    loss = table.mean(np.array([2.0, 0.1, 0.0]), 0.0)
    assert table.sum(np.array([2.0, 0.1, 0.0])) < 0
    assert loss.low == loss.value == 0.0 < loss.high
