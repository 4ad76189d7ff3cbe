"""Checkpoints: whole, known by their digest, the one before where the last is not as it was written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.results import Checkpoints

STATE = {"weights": np.arange(6.0).reshape(2, 3), "round": np.array(7), "name": np.array("α"), "none": np.zeros((0, 2))}


def generation(number: int) -> dict[str, np.ndarray]:
    return {"round": np.array(number), "table": np.full(1000, number, np.float32)}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_kept_is_read_back_to_the_bit(tmp_path: Path) -> None:
    Checkpoints(tmp_path).write(STATE)
    found = Checkpoints(tmp_path).read()
    assert found is not None
    assert list(found) == list(STATE)
    for name, array in STATE.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).read() is None
    assert not Checkpoints(tmp_path).exist()


def test_the_last_two_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    for number in range(1, 6):
        Checkpoints(tmp_path).write(generation(number))
    assert files(tmp_path) == ["checkpoint-4", "checkpoint-5"]
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("place", [0, 1, 50, -1, -32, -33, 2000])
def test_a_changed_byte_anywhere_is_noticed_and_the_one_before_is_used(tmp_path: Path, place: int) -> None:
    for number in (1, 2):
        Checkpoints(tmp_path).write(generation(number))
    content = bytearray((tmp_path / "checkpoint-2").read_bytes())
    content[place] ^= 1
    (tmp_path / "checkpoint-2").write_bytes(content)
    found = Checkpoints(tmp_path).read()
    assert found is not None
    assert found["round"] == 1


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.99, 1.01])
def test_one_of_another_length_is_noticed_and_the_one_before_is_used(tmp_path: Path, share: float) -> None:
    for number in (1, 2):
        Checkpoints(tmp_path).write(generation(number))
    path = tmp_path / "checkpoint-2"
    os.truncate(path, int(share * path.stat().st_size))
    found = Checkpoints(tmp_path).read()
    assert found is not None
    assert found["round"] == 1


def test_a_damaged_one_does_not_push_out_the_one_before(tmp_path: Path) -> None:
    for number in (1, 2):
        Checkpoints(tmp_path).write(generation(number))
    (tmp_path / "checkpoint-2").write_bytes(b"torn")
    Checkpoints(tmp_path).write(generation(3))
    (tmp_path / "checkpoint-3").write_bytes(b"torn as well")
    found = Checkpoints(tmp_path).read()
    assert found is not None
    assert found["round"] == 1


def test_where_none_is_whole_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-1").write_bytes(b"")
    assert Checkpoints(tmp_path).read() is None
    assert Checkpoints(tmp_path).exist()


def test_names_do_not_mix(tmp_path: Path) -> None:
    Checkpoints(tmp_path).write(generation(1))
    Checkpoints(tmp_path, "other").write(generation(2))
    Checkpoints(tmp_path).remove()
    assert files(tmp_path) == ["other-1"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (folder := tmp_path / "work").mkdir()
    Checkpoints(tmp_path).write(generation(1))
    (folder / "checkpoint-1").symlink_to(tmp_path / "checkpoint-1")
    with pytest.raises(InputError, match="a link that leads out of it"):
        Checkpoints(folder).read()


def test_what_cannot_be_written_leaves_the_one_before_and_nothing_beside_it(tmp_path: Path) -> None:
    Checkpoints(tmp_path).write(generation(1))
    with pytest.raises(ValueError, match="pickle"):
        Checkpoints(tmp_path).write({"table": np.zeros(3), "odd": np.array([object()])})
    assert files(tmp_path) == ["checkpoint-1"]


WRITER = """
import sys, numpy as np
from pathlib import Path
from fedspd.results import Checkpoints
for number in range(1, 10_000):
    Checkpoints(Path(sys.argv[1])).write({"round": np.array(number), "table": np.full(20_000, number)})
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.011, 0.023, 0.037, 0.051])
def test_a_writer_that_is_killed_leaves_what_it_said_it_had_kept(tmp_path: Path, delay: float) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        told = [1, *map(int, process.stdout.read().split())]
    found = Checkpoints(tmp_path).read()
    assert found is not None
    assert found["round"] >= told[-1]
    np.testing.assert_array_equal(found["table"], np.full(20_000, found["round"]))
