"""The server's state on disk: whole, whatever happens while it is written."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedspd.deploy.server.checkpoint import Checkpoint, Member, load, save
from fedspd.errors import InputError
from fedspd.results import Checkpoints
from tests.support.ledger.crashes import fork

MEMBERS = (Member("north", 2**63 + 1, 120, "digest", 3, 2, 5, 6), Member("south", 7, 10, retired="its budget is spent"))
STATE = Checkpoint(
    "settings", "run-1", MEMBERS, np.arange(12.0).reshape(6, 2) / 7, np.arange(5.0), np.ones(5) / 3, True, 2,
    history=({"round": 1, "late": 0, "test_accuracy": None}, {"round": 2, "late": 1, "test_accuracy": 0.75}),
)  # fmt: skip


def same(left: Checkpoint | None, right: Checkpoint) -> bool:
    return left is not None and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        if name in ("server", "mean", "deviation")
        else repr(getattr(left, name)) == repr(getattr(right, name))
        for name in vars(right)
    )


def test_a_checkpoint_is_read_back_to_the_last_bit(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    save(tmp_path / "new folder", STATE)
    assert same(load(tmp_path / "new folder"), STATE)
    assert not same(load(tmp_path / "new folder"), STATE.with_member(1, charges=1))


def test_one_site_is_changed_and_the_others_are_not() -> None:
    changed = STATE.with_member(0, acknowledged=6)
    assert changed.roster == (replace(MEMBERS[0], acknowledged=6), MEMBERS[1])
    assert changed.server is STATE.server


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_server_that_is_killed_while_it_writes_leaves_the_old_checkpoint(moment: str, tmp_path: Path) -> None:
    save(tmp_path, STATE)

    def write() -> None:
        def die(*_: object) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        if moment == "fsync":
            os.fsync = die  # pyright: ignore[reportAttributeAccessIssue]
        else:
            Path.replace = die  # pyright: ignore[reportAttributeAccessIssue]
        save(tmp_path, replace(STATE, round=3, server=np.zeros((6, 2))))

    _, status = os.waitpid(fork(write), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert same(load(tmp_path), STATE)
    save(tmp_path, replace(STATE, round=3))
    assert same(load(tmp_path), replace(STATE, round=3))


def damaged(good: bytes) -> list[bytes]:
    turned = good[:200] + bytes([good[200] ^ 1]) + good[201:]
    return [b"", b"no checkpoint" * 40, good[:-30], good[: len(good) // 2], turned]


@pytest.mark.parametrize("kind", range(5))
def test_where_the_last_checkpoint_is_damaged_the_one_before_is_used(tmp_path: Path, kind: int) -> None:
    save(tmp_path, STATE)
    save(tmp_path, replace(STATE, round=3))
    last = tmp_path / "checkpoint-2"
    last.write_bytes(damaged(last.read_bytes())[kind])
    assert same(load(tmp_path), STATE)


def test_a_folder_without_a_single_good_checkpoint_is_refused_and_no_run_begins_anew(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    path = tmp_path / "checkpoint-1"
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(InputError, match="none that is as it was written; restore it, or name another"):
            load(tmp_path)


def test_a_checkpoint_of_an_earlier_version_is_refused_and_no_run_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.npz").write_bytes(b"anything")
    with pytest.raises(InputError, match=r"got checkpoint\.npz of an earlier version of fedspd; restore it"):
        load(tmp_path)


def test_fields_of_another_version_are_refused(tmp_path: Path) -> None:
    Checkpoints(tmp_path).write({"server": np.zeros(1), "public": np.frombuffer(b'{"roster": []}', np.uint8)})
    with pytest.raises(InputError, match="one of another version of fedspd"):
        load(tmp_path)
