"""The device's draws decide what the accounting may assume: statistics that reject a near miss."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from fedspd.engine.draws import NOBODY
from fedspd.engine.jax_engine.session import installed, session
from fedspd.privacy.accounting.events import step_chances
from tests.engine.test_draws import spherical, steps_of

pytestmark = pytest.mark.skipif(not installed(), reason="JAX is not installed")


def keys(count: int, seed: int = 0) -> object:
    import jax

    from fedspd.engine.jax_engine import draws

    return jax.vmap(lambda client: draws.key(seed, 1, client))(np.arange(count))


def sampled(trials: int, size: int, count: int) -> np.ndarray:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        return np.asarray(
            jax.jit(draws.without_replacement, static_argnums=2)(keys(trials), np.full(trials, size), count)
        )


def test_every_ordered_sample_without_replacement_is_equally_likely() -> None:
    trials, size, count = 200_000, 6, 3
    drawn = sampled(trials, size, count)
    expected = [np.dot(sample, size ** np.arange(count)) for sample in permutations(range(size), count)]
    observed = np.bincount(drawn @ size ** np.arange(count), minlength=size**count)[expected]
    assert observed.sum() == trials, "a record was drawn twice, or none of the shard's"
    assert stats.chisquare(observed).pvalue > 1e-4


def test_a_sample_of_all_records_is_a_permutation() -> None:
    assert (np.sort(sampled(500, 9, 9), axis=1) == np.arange(9)).all()


def test_a_record_is_in_each_batch_with_the_rate_the_accounting_assumes_and_not_ten_percent_off() -> None:
    trials, size, steps, batch = 120_000, 60, 3, 4
    batches = sampled(trials, size, steps * batch).reshape(trials, steps, batch)
    for step in range(steps):
        for record in (0, 31, 59):
            count = int(np.count_nonzero(batches[:, step] == record))
            assert stats.binomtest(count, trials, batch / size).pvalue > 1e-4
            assert stats.binomtest(count, trials, 1.1 * batch / size).pvalue < 1e-3


def test_a_shard_of_a_billion_records_costs_no_more_than_a_small_one() -> None:
    drawn = sampled(1000, 10**9, 50)
    assert all(len(set(row)) == 50 for row in drawn.tolist())
    assert stats.kstest(drawn.ravel() / 1e9, "uniform").pvalue > 1e-4


def test_normals_have_deviation_one_and_not_two_percent_more_or_less_and_are_fresh_for_every_client() -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        normals = np.asarray(
            jax.vmap(lambda key: draws.unit_noise(key, "gaussian", (8, 2), "float32"))(keys(20_000)), float
        )
    flat = normals.reshape(20_000, 16)
    squares = (flat**2).sum()
    assert stats.chi2(flat.size).sf(squares) > 1e-4
    assert stats.chi2(flat.size).sf(squares / 1.02**2) > 1 - 1e-4
    assert stats.chi2(flat.size).sf(squares * 1.02**2) < 1e-4
    assert stats.kstest(flat.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(flat[:-1, 0], flat[1:, 0])[0, 1]) < 0.03
    assert len(np.unique(flat[:, 0])) > 19_000


@pytest.mark.parametrize(
    "shape", [(3, 2), pytest.param((2, 3, 1), marks=pytest.mark.slow)], ids=["one release", "several draws"]
)
def test_noise_of_pure_privacy_has_uniform_directions_and_lengths_of_the_gamma_law_and_not_five_percent_off(
    shape: tuple[int, ...],
) -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        noise = np.asarray(jax.vmap(lambda key: draws.unit_noise(key, "laplace", shape, "float64"))(keys(8000)))
    assert noise.shape == (8000, *shape)
    assert spherical(noise)
    assert not spherical(noise, 1.05)
    assert not spherical(noise, 0.95)


def test_noise_in_an_objective_comes_with_normals_of_their_own() -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        shape = (2, 3, 2)
        noise = np.asarray(jax.vmap(lambda key: draws.unit_noise(key, "objective", shape, "float64"))(keys(8000)))
    inside, on_top = noise[:, 0], noise[:, 1]
    assert spherical(inside)
    assert stats.kstest(on_top.ravel(), "norm").pvalue > 1e-5
    assert abs(np.mean(inside * on_top)) < 5 * np.std(inside) / np.sqrt(inside.size)


def test_a_client_draws_the_same_whoever_plays_beside_it() -> None:
    few, many = sampled(3, 40, 5), sampled(30, 40, 5)
    np.testing.assert_array_equal(few, many[:3])


@pytest.mark.parametrize("steps", [1, 3])
def test_a_whole_shard_is_dealt_out_once_and_evenly(steps: int) -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        dealt = np.asarray(jax.vmap(lambda key: draws.whole_shard(key, 10, 14, steps))(keys(200)))
    for batches in dealt:
        assert sorted(batches[batches != NOBODY].tolist()) == list(range(10))
        lengths = np.count_nonzero(batches != NOBODY, axis=1)
        assert lengths.max() - lengths.min() <= 1


def test_a_shuffled_shard_puts_every_record_in_every_batch_equally_often() -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    with session():
        dealt = np.asarray(jax.vmap(lambda key: draws.whole_shard(key, 6, 8, 2))(keys(30_000)))
    first = np.bincount(dealt[:, 0][dealt[:, 0] != NOBODY], minlength=6)
    assert stats.chisquare(first).pvalue > 1e-4


@pytest.mark.parametrize("size", [20, 23])
def test_a_record_of_a_whole_shard_is_in_each_batch_with_the_chance_the_accounting_assumes(size: int) -> None:
    import jax

    from fedspd.engine.jax_engine import draws

    trials, steps = 40_000, 5
    with session():
        whole = np.asarray(jax.jit(jax.vmap(lambda key: draws.whole_shard(key, size, 25, steps)))(keys(trials)))
    expected = trials * np.array(step_chances(size, steps))
    for record in (0, size - 1):
        assert stats.chisquare(np.bincount(steps_of(whole, record), minlength=steps), expected).pvalue > 1e-4
