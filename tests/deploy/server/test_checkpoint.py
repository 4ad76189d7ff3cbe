"""The server's state on disk: whole, whatever happens while it is written."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedspd.deploy.server.checkpoint import FILE, Checkpoint, Member, load, save
from fedspd.errors import InputError
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


def test_a_checkpoint_that_is_damaged_is_refused(tmp_path: Path) -> None:
    save(tmp_path, STATE)
    good = (tmp_path / FILE).read_bytes()
    turned = good[:200] + bytes([good[200] ^ 1]) + good[201:]
    for content in (b"", b"no checkpoint" * 40, good[:-30], good[: len(good) // 2], turned):
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(InputError, match="restore it, or name another folder"):
            load(tmp_path)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    with (tmp_path / FILE).open("wb") as file:
        np.savez(file, server=np.array([object()]), mean=np.zeros(1), deviation=np.zeros(1), public=np.zeros(1))
    with pytest.raises(InputError, match="expected a checkpoint"):
        load(tmp_path)
