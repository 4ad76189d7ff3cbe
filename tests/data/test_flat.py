"""Tables that are mapped into memory: the same records, and the same runs, as in memory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedspd import InputError
from fedspd.data import Shards, open_shards, write_shards
from fedspd.engine import simulate
from fedspd.engine.numpy_engine import Draws, draw_round
from tests.engine.test_budgets import proved


def in_blocks(shards: Shards, length: int, kind: type = np.float64) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for begin in range(0, len(shards.labels), length):
        rows = slice(begin, begin + length)
        yield shards.features[rows].astype(kind), shards.labels[rows]


@pytest.mark.parametrize("length", [1, 7, 10_000])
def test_what_was_written_block_by_block_is_what_is_opened(tmp_path: Path, length: int) -> None:
    shards = proved(cap=2, participants=2, rounds=2).shards
    write_shards(tmp_path / "table", shards.sizes, in_blocks(shards, length))
    opened = open_shards(tmp_path / "table")
    assert isinstance(opened.features, np.memmap)
    for name in ("features", "labels", "offsets"):
        np.testing.assert_array_equal(getattr(opened, name), getattr(shards, name))


def test_a_run_on_a_mapped_table_is_bit_for_bit_the_run_in_memory(tmp_path: Path) -> None:
    run = proved(cap=3, participants=3, rounds=6)
    write_shards(tmp_path, run.shards.sizes, in_blocks(run.shards, 10))
    mapped = replace(run, shards=open_shards(tmp_path))
    np.testing.assert_array_equal(simulate(run).models, simulate(mapped).models)


def test_in_single_precision_a_run_keeps_a_precise_server_and_differs_by_rounding_alone(tmp_path: Path) -> None:
    run = proved(cap=20, participants=3, rounds=20)
    write_shards(tmp_path, run.shards.sizes, in_blocks(run.shards, 10, np.float32))
    single = replace(run, shards=open_shards(tmp_path))

    def same_noise(round: int, chosen: np.ndarray) -> Draws:
        precise = draw_round(run, round, chosen)
        return precise._replace(noise=precise.noise.astype(np.float32))

    one, two = simulate(run), simulate(single, drawn=same_noise)
    assert two.models.dtype == np.float64
    np.testing.assert_allclose(one.models, two.models, rtol=1e-5, atol=1e-5)
    assert not np.allclose(one.models, two.models, rtol=1e-12, atol=1e-12)


def test_the_first_clients_can_be_opened_alone(tmp_path: Path) -> None:
    shards = proved(cap=2, participants=2, rounds=2).shards
    write_shards(tmp_path, shards.sizes, in_blocks(shards, 50))
    some = open_shards(tmp_path, 2)
    assert some.clients == 2
    np.testing.assert_array_equal(some.features, shards.features[: shards.offsets[2]])


@pytest.mark.parametrize("change", [1, -1])
def test_sizes_that_do_not_add_up_are_refused_and_leave_nothing_that_can_be_opened(tmp_path: Path, change: int) -> None:
    shards = proved(cap=2, participants=2, rounds=2).shards
    with pytest.raises(InputError, match="count them again"):
        write_shards(tmp_path, shards.sizes + change, in_blocks(shards, 50))
    with pytest.raises(InputError, match=r"without offsets\.npy"):
        open_shards(tmp_path)


def test_a_folder_that_holds_a_table_is_not_written_over(tmp_path: Path) -> None:
    shards = proved(cap=2, participants=2, rounds=2).shards
    write_shards(tmp_path, shards.sizes, in_blocks(shards, 50))
    with pytest.raises(InputError, match="name another"):
        write_shards(tmp_path, shards.sizes, in_blocks(shards, 50))
