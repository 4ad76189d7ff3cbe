"""Draws decide what the accounting may assume, so they are tested as statistics that reject a near miss."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedspd.engine import draws
from fedspd.engine.draws import stream
from fedspd.privacy.accounting.events import step_chances


@given(st.lists(st.integers(5, 60), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 2**32))
def test_a_sample_without_replacement_holds_distinct_records_of_the_shard(
    sizes: list[int], count: int, seed: int
) -> None:
    drawn = draws.records_without_replacement(np.random.default_rng(seed), np.array(sizes), count)
    assert drawn.shape == (len(sizes), count)
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert (drawn >= 0).all()
    assert (drawn < np.array(sizes)[:, None]).all()


@pytest.mark.parametrize(("size", "count"), [(5, 3), (12, 3)], ids=["much of a shard", "little of a shard"])
def test_every_ordered_sample_without_replacement_is_equally_likely(size: int, count: int) -> None:
    trials = 400_000
    drawn = draws.records_without_replacement(stream(0, "records"), np.full(trials, size), count)
    code = drawn @ size ** np.arange(count)
    expected = [np.dot(sample, size ** np.arange(count)) for sample in permutations(range(size), count)]
    observed = np.bincount(code, minlength=size**count)[expected]
    assert observed.sum() == trials
    assert stats.chisquare(observed).pvalue > 1e-4


def test_a_sample_that_kept_its_repeats_once_redrawn_would_be_found_out() -> None:
    """The test above is sharp: drawing repeats anew once, and shifting what still repeats, is not uniform."""
    trials, size = 400_000, 12
    rng = stream(0, "records")
    drawn = rng.integers(0, size, (trials, 3))
    for place in (1, 2):
        for redraw in (True, False):
            repeats = (drawn[:, :place] == drawn[:, place, None]).any(axis=1)
            drawn[repeats, place] = rng.integers(0, size, trials)[repeats] if redraw else drawn[repeats, place] + 1
        drawn %= size
    distinct = [len(set(row)) == 3 for row in drawn.tolist()]
    code = drawn[distinct] @ size ** np.arange(3)
    expected = [np.dot(sample, size ** np.arange(3)) for sample in permutations(range(size), 3)]
    assert stats.chisquare(np.bincount(code, minlength=size**3)[expected]).pvalue < 1e-6


def steps_of(whole: np.ndarray, record: int) -> np.ndarray:
    """In which batch of each shard a record is, from 0."""
    return np.argmax((whole == record).any(axis=2), axis=1)


@pytest.mark.parametrize("size", [20, 23])
def test_a_record_of_a_whole_shard_is_in_each_batch_with_the_chance_the_accounting_assumes(size: int) -> None:
    trials, steps = 40_000, 5
    whole = draws.whole_shards(stream(3, "records"), np.full(trials, size), steps)
    expected = trials * np.array(step_chances(size, steps))
    for record in (0, 11, size - 1):
        counts = np.bincount(steps_of(whole, record), minlength=steps)
        assert stats.chisquare(counts, expected).pvalue > 1e-4
        assert stats.chisquare(counts, expected * [1.1, 1, 1, 1, 1 - 0.1 * expected[0] / expected[4]]).pvalue < 1e-4


def test_the_steps_of_a_record_are_independent_from_round_to_round() -> None:
    seen = np.array(
        [
            [steps_of(draws.whole_shards(stream(seed, "records", round), np.array([4]), 2), 0)[0] for round in (1, 2)]
            for seed in range(4000)
        ]
    )
    table = np.bincount(seen @ [2, 1], minlength=4)
    assert stats.chisquare(table).pvalue > 1e-4


class Tied:
    """A source whose first draws tie."""

    def __init__(self) -> None:
        self.asked = 0

    def random(self, size: tuple[int, ...]) -> np.ndarray:
        self.asked += 1
        return np.full(size, 0.5) if self.asked == 1 else np.random.default_rng(self.asked).random(size)

    def integers(self, low: int, high: object, size: object = None, dtype: object = None) -> np.ndarray:
        raise NotImplementedError


def test_a_shuffle_whose_keys_tie_is_drawn_again() -> None:
    source = Tied()
    assert sorted(draws.whole_shards(source, np.array([6, 4]), 2)[0].ravel().tolist()) == list(range(6))
    assert source.asked == 2


def test_a_record_is_in_each_batch_with_the_rate_the_accounting_assumes_and_not_five_percent_off() -> None:
    trials, size, steps, batch = 40_000, 60, 3, 4
    drawn = draws.records_without_replacement(stream(8, "records"), np.full(trials, size), steps * batch)
    batches = drawn.reshape(trials, steps, batch)
    for step in range(steps):
        for record in (0, 31, 59):
            count = int(np.count_nonzero(batches[:, step] == record))
            assert stats.binomtest(count, trials, batch / size).pvalue > 1e-4
            assert stats.binomtest(count, trials, 1.1 * batch / size).pvalue < 1e-3


def test_the_cost_of_a_sample_does_not_grow_with_the_shard() -> None:
    """A shard of a billion records would need 8 GB of keys; its sample is drawn all the same."""
    drawn = draws.records_without_replacement(stream(9, "records"), np.full(1000, 10**9), 50)
    assert all(len(set(row)) == 50 for row in drawn.tolist())
    assert stats.kstest(drawn.ravel() / 1e9, "uniform").pvalue > 1e-4


def test_shards_of_other_sizes_in_the_same_stack_do_not_bias_a_sample() -> None:
    sizes = np.tile([3, 7], 30_000)
    drawn = draws.records_without_replacement(stream(1, "records"), sizes, 2)
    for size, first in ((3, 0), (7, 1)):
        assert stats.chisquare(np.bincount(drawn[first::2].ravel(), minlength=size)).pvalue > 1e-4


def test_samples_with_replacement_are_uniform_and_independent() -> None:
    drawn = draws.records_with_replacement(stream(2, "records"), np.full(50_000, 4), 2)
    assert stats.chisquare(np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)).pvalue > 1e-4


def test_clients_take_part_with_probability_k_over_n_and_not_five_percent_more_or_less() -> None:
    rounds, clients, count = 40_000, 10, 3
    taken = np.zeros(clients)
    for round in range(rounds):
        chosen = draws.participants(stream(3, "participation", round), clients, count)
        assert len(np.unique(chosen)) == count
        taken[chosen] += 1

    def pvalue(rate: float) -> float:
        return float(min(stats.binomtest(int(k), rounds, rate).pvalue for k in taken)) * clients

    assert pvalue(count / clients) > 1e-4
    assert pvalue(1.05 * count / clients) < 1e-6
    assert pvalue(0.95 * count / clients) < 1e-6


def test_pairs_of_clients_take_part_together_as_often_as_chance_has_it() -> None:
    rounds, clients, count = 30_000, 6, 3
    together = sum(
        {0, 1} <= set(draws.participants(stream(4, "participation", round), clients, count).tolist())
        for round in range(rounds)
    )
    assert stats.binomtest(together, rounds, count * (count - 1) / (clients * (clients - 1))).pvalue > 1e-4


def test_streams_of_other_names_rounds_and_seeds_differ_and_the_same_one_repeats() -> None:
    names: tuple[draws.Stream, ...] = ("partition", "participation", "records", "noise")
    keys: list[tuple[int, draws.Stream, int]] = [
        (seed, name, round) for seed in (0, 1) for name in names for round in (0, 1, 2)
    ]
    first = {key: stream(*key).integers(0, 2**63) for key in keys}
    assert len(set(first.values())) == len(keys)
    assert all(stream(*key).integers(0, 2**63) == value for key, value in first.items())


@pytest.mark.parametrize("clients", [1, 7])
def test_full_participation_is_everybody(clients: int) -> None:
    assert draws.participants(stream(0, "participation"), clients, clients).tolist() == list(range(clients))


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 7), st.integers(0, 2**32))
@settings(deadline=None)
def test_whole_shards_deal_every_record_to_one_step_and_steps_differ_by_at_most_one_record(
    sizes: list[int], steps: int, seed: int
) -> None:
    dealt = draws.whole_shards(np.random.default_rng(seed), np.array(sizes), steps)
    assert dealt.shape == (len(sizes), steps, -(-max(sizes) // steps))
    for size, batches in zip(sizes, dealt, strict=True):
        assert sorted(batches[batches != draws.NOBODY].tolist()) == list(range(size))
        lengths = np.count_nonzero(batches != draws.NOBODY, axis=1)
        assert np.ptp(lengths) <= 1
        assert (np.diff((batches != draws.NOBODY).astype(int), axis=1) <= 0).all(), "nobody stands at the end"


def test_with_one_step_a_whole_shard_is_its_records_in_order_and_nothing_is_drawn() -> None:
    rng = stream(0, "records")
    dealt = draws.whole_shards(rng, np.array([3, 1]), 1)
    assert dealt.tolist() == [[[0, 1, 2]], [[0, draws.NOBODY, draws.NOBODY]]]
    assert rng.integers(0, 2**63) == stream(0, "records").integers(0, 2**63)


def test_every_way_of_dealing_a_shard_to_its_steps_is_equally_likely() -> None:
    trials = 60_000
    dealt = draws.whole_shards(stream(5, "records"), np.full(trials, 4), 2)
    code = dealt.reshape(trials, 4) @ np.array([64, 16, 4, 1])
    observed = np.unique(code, return_counts=True)[1]
    assert len(observed) == 24
    assert stats.chisquare(observed).pvalue > 1e-4


def test_a_record_of_a_short_shard_is_in_every_step_equally_often_beside_a_long_one() -> None:
    sizes = np.tile([3, 8], 30_000)
    dealt = draws.whole_shards(stream(6, "records"), sizes, 3)[::2, :, 0]
    for step in range(3):
        assert stats.chisquare(np.bincount(dealt[:, step], minlength=3)).pvalue > 1e-4


# --- noise of pure privacy -----------------------------------------------------------------------------------


def spherical(noise: np.ndarray, size: float = 1.0) -> bool:
    """Whether matrices have the density exp(-|b|/size): uniform directions, independent lengths of law Gamma(d)."""
    vectors = noise.reshape(-1, noise.shape[-2] * noise.shape[-1]).astype(float)
    count, dimension = vectors.shape
    lengths = np.linalg.norm(vectors, axis=1)
    towards, law = vectors / lengths[:, None], stats.beta((dimension - 1) / 2, (dimension - 1) / 2)
    slanted, total = towards @ np.ones(dimension) / np.sqrt(dimension), stats.gamma(count * dimension)
    pvalues = [
        stats.kstest(lengths / size, stats.gamma(dimension).cdf).pvalue,
        2 * min(total.cdf(lengths.sum() / size), total.sf(lengths.sum() / size)),
        *(stats.kstest((1 + one) / 2, law.cdf).pvalue for one in (*towards.T, slanted)),
        stats.kstest(
            lengths[slanted > 0] / size, stats.gamma(dimension).cdf
        ).pvalue,  # lengths are those of any direction
    ]
    return min(pvalues) > 1e-5


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(8000, 3, 2), (2000, 4, 3, 1)], ids=["one release", "several draws"])
def test_noise_of_pure_privacy_has_uniform_directions_and_lengths_of_the_gamma_law_and_not_five_percent_off(
    shape: tuple[int, ...], kind: type
) -> None:
    noise = draws.unit_noise(stream(10, "noise"), "laplace", shape, kind)
    assert (noise.shape, noise.dtype) == (shape, kind)
    assert spherical(noise)
    assert not spherical(noise, 1.05)
    assert not spherical(noise, 0.95)


def test_what_is_nearly_noise_of_pure_privacy_would_be_found_out() -> None:
    """The test above is sharp: independent Laplace numbers, one length for all releases of a client, a lost degree."""
    rng = stream(11, "noise")
    normals = rng.standard_normal((8000, 3, 2))
    towards = normals / np.linalg.norm(normals, axis=(1, 2), keepdims=True)
    assert not spherical(rng.laplace(size=(8000, 3, 2)))
    assert not spherical(towards * rng.standard_gamma(5, (8000, 1, 1)))
    assert not spherical(towards * np.abs(rng.standard_normal((8000, 1, 1)) * 6))
    assert spherical(towards * rng.standard_gamma(6, (8000, 1, 1)))


def test_gaussian_noise_is_the_standard_normals_of_its_stream() -> None:
    np.testing.assert_array_equal(
        draws.unit_noise(stream(1, "noise"), "gaussian", (4, 3, 2)), stream(1, "noise").standard_normal((4, 3, 2))
    )
