"""Draws of real clients: statistics that accept uniform numbers and reject a near miss. Nothing is seeded here.

So each test that accepts the truth does so but for one time in a million.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedspd.engine import draws
from fedspd.engine.entropy import SystemEntropy

RARE = 1e-6


class Modulo(SystemEntropy):
    """The near miss: one random byte, taken modulo the range, without drawing anything again."""

    def integers(self, low: int, high: Any, size: Any = None, dtype: Any = np.int64) -> np.ndarray:
        shape = np.broadcast(np.asarray(high), np.empty(() if size is None else size, bool)).shape
        return (super().integers(0, 256, shape) % high).astype(dtype)


def uniform(drawn: np.ndarray, span: int) -> bool:
    return stats.chisquare(np.bincount(drawn.ravel().astype(np.int64), minlength=span)).pvalue > RARE


@pytest.mark.parametrize("span", [2, 3, 7, 64, 100])
def test_whole_numbers_below_a_bound_are_equally_likely(span: int) -> None:
    drawn = SystemEntropy().integers(0, span, size=(400, 500))
    assert drawn.shape == (400, 500)
    assert drawn.dtype == np.int64
    assert len(np.unique(drawn)) == span
    assert uniform(drawn, span)


@pytest.mark.parametrize("span", [3, 7, 100])
def test_a_remainder_without_rejection_would_be_found_out(span: int) -> None:
    """The test above is sharp: for 3 it is the byte 255 alone that makes zeros more likely."""
    assert not uniform(Modulo().integers(0, span, size=8_000_000), span)


def test_draws_beyond_the_last_whole_multiple_of_the_range_are_drawn_again() -> None:
    """With a range of 3/4 of all words a remainder would fall into the lowest third twice as often."""
    span = 3 << 62
    drawn = SystemEntropy().integers(0, span, size=60_000, dtype=np.uint64)
    assert drawn.max() < span
    thirds = np.bincount((drawn >> np.uint64(62)).astype(np.int64), minlength=3)
    assert stats.chisquare(thirds).pvalue > RARE
    assert stats.chisquare(thirds, f_exp=60_000 * np.array([0.5, 0.25, 0.25])).pvalue < RARE


def test_the_full_range_of_64_bits_is_uniform_to_its_last_bit() -> None:
    drawn = SystemEntropy().integers(0, 1 << 64, size=(100, 1000), dtype=np.uint64)
    assert drawn.dtype == np.uint64
    assert stats.kstest(drawn.ravel() / 2.0**64, "uniform").pvalue > RARE
    ones = [int(np.count_nonzero(drawn >> np.uint64(bit) & np.uint64(1))) for bit in range(64)]
    assert min(stats.binomtest(count, drawn.size, 0.5).pvalue for count in ones) > RARE / 64


def test_every_draw_may_have_its_own_bound() -> None:
    drawn = SystemEntropy().integers(0, np.array([[3], [7]]), size=(2, 50_000))
    for row, span in zip(drawn, (3, 7), strict=True):
        assert row.max() == span - 1
        assert uniform(row, span)
    assert SystemEntropy().integers(0, np.array([1, 1])).tolist() == [0, 0]


def test_whole_numbers_may_begin_anywhere_and_an_empty_range_is_refused() -> None:
    assert set(SystemEntropy().integers(-2, 2, size=1000).tolist()) == {-2, -1, 0, 1}
    with pytest.raises(ValueError, match="high must be above low"):
        SystemEntropy().integers(0, np.array([3, 0]))


def test_numbers_between_zero_and_one_are_uniform_and_not_five_percent_off() -> None:
    drawn = SystemEntropy().random((200, 500)).ravel()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > RARE
    assert stats.kstest(drawn, stats.uniform(0, 1.05).cdf).pvalue < RARE


@pytest.mark.parametrize(("size", "count"), [(5, 2), (12, 3)], ids=["much of a shard", "little of a shard"])
def test_every_subset_of_a_shard_is_equally_likely(size: int, count: int) -> None:
    def accepted(source: draws.Source, trials: int) -> bool:
        drawn = np.sort(draws.records_without_replacement(source, np.full(trials, size), count), axis=1)
        subsets = [np.dot(subset, size ** np.arange(count)) for subset in combinations(range(size), count)]
        observed = np.bincount(drawn @ size ** np.arange(count), minlength=size**count)[subsets]
        assert observed.sum() == trials
        return stats.chisquare(observed).pvalue > RARE

    assert accepted(SystemEntropy(), 100_000)
    if size == 12:  # the other way draws keys over the full range, where there is no remainder
        assert not accepted(Modulo(), 400_000)


def test_a_record_joins_a_poisson_batch_with_its_rate_and_not_five_percent_off_and_goes_to_any_step() -> None:
    trials, rate, steps = 100_000, 0.3, 3
    batches = draws.poisson(SystemEntropy(), np.full(trials, 4), np.full(trials, rate), steps)
    joined = [int(np.count_nonzero(batches == record)) for record in range(4)]
    assert min(stats.binomtest(count, trials, rate).pvalue for count in joined) > RARE / 4
    assert max(stats.binomtest(count, trials, 1.05 * rate).pvalue for count in joined) < 1e-3
    assert stats.chisquare((batches != draws.NOBODY).sum(axis=(0, 2))).pvalue > RARE


def test_every_way_of_dealing_a_shard_to_its_steps_is_equally_likely() -> None:
    trials = 60_000
    dealt = draws.whole_shards(SystemEntropy(), np.full(trials, 4), 2)
    observed = np.unique(dealt.reshape(trials, 4) @ np.array([64, 16, 4, 1]), return_counts=True)[1]
    assert len(observed) == 24
    assert stats.chisquare(observed).pvalue > RARE


def test_draws_with_replacement_are_uniform() -> None:
    assert uniform(draws.records_with_replacement(SystemEntropy(), np.full(50_000, 5), 2), 5)


def test_no_two_sources_draw_the_same() -> None:
    first, second = (SystemEntropy().integers(0, 1 << 64, size=4, dtype=np.uint64) for _ in range(2))
    assert not np.array_equal(first, second)
