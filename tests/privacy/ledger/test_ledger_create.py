"""Creating: done once, on purpose and for the owner alone; a lost ledger is no fresh budget."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Budget, Ledger, create_ledger, verify
from tests.support.ledger.fresh import new_ledger

BUDGET, ROUND = Budget(1.0, 1e-5), Gaussian(20.0)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def spend(ledger: Ledger, run: str) -> int:
    """How often a client is granted a round until it is refused."""
    with ledger:
        ledger.enter({"ann": BUDGET})
        number = 0
        while ledger.charge(run, number, "uploads", {"ann": ROUND}).granted:
            number += 1
    return number


def created_by_whoever_opens_it(path: Path) -> Ledger:
    """What this program once did: a missing file is taken for a new ledger."""
    return Ledger(path) if path.exists() else new_ledger(path)


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.rename(path.with_name("old")), lambda path: None])
def test_a_lost_ledger_is_no_fresh_budget(lose: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    fits = spend(new_ledger(path), "first")
    lose(path)
    if path.exists():
        assert spend(Ledger(path), "second") == 0
        return
    with pytest.raises(InputError, match="restore it, for a new one forgets what is spent"):
        Ledger(path)
    assert not path.exists()
    assert spend(created_by_whoever_opens_it(path), "second") == fits > 0, "the check would find the planted bug"


def test_a_missing_file_is_refused_with_both_remedies_and_nothing_is_written(tmp_path: Path) -> None:
    for path in (tmp_path / "ledger", tmp_path / "no folder" / "ledger", tmp_path / ("x" * 300)):
        for use in (Ledger, verify):
            with pytest.raises(InputError, match=f"got no file; restore it, .* or run 'fedspd ledger create {path}'"):
                use(path)
    with pytest.raises(InputError, match="got a folder"):
        Ledger(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="got no file"):
        Ledger(tmp_path / "dangling")
    assert os.listdir(tmp_path) == ["dangling"]


def test_creating_a_ledger_never_takes_the_place_of_anything(tmp_path: Path) -> None:
    path, text, link = tmp_path / "ledger", tmp_path / "notes.txt", tmp_path / "link"
    spend(new_ledger(path), "first")
    text.write_text("dear diary")
    link.symlink_to(tmp_path / "nowhere")
    before = path.read_bytes()
    for taken in (path, text, link, tmp_path):
        with pytest.raises(InputError, match=r"expected no ledger at .*a ledger is created once"):
            create_ledger(taken)
    assert (path.read_bytes(), text.read_text()) == (before, "dear diary")
    assert sorted(os.listdir(tmp_path)) == ["ledger", "link", "notes.txt"]


def test_a_ledger_is_not_begun_anew_beside_the_log_that_a_lost_one_left_behind(tmp_path: Path) -> None:
    path, site = tmp_path / "ledger", tmp_path / "site"
    site.mkdir()
    with new_ledger(path) as ledger:
        ledger.enter({"ann": BUDGET})
        shutil.copy(tmp_path / "ledger-wal", site / "ledger-wal")  # SQLite would read its rows into a new file
    with pytest.raises(InputError, match="got the log ledger-wal of a ledger that is gone"):
        create_ledger(site / "ledger")
    assert os.listdir(site) == ["ledger-wal"]


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "no folder" / "ledger", tmp_path / "file" / "ledger", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match=r"expected a place for the ledger .*name another file"):
            create_ledger(place)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277, 0o777])
def test_the_file_and_its_logs_are_for_their_owner_alone_whatever_the_umask(mask: int, tmp_path: Path) -> None:
    with umask(mask), new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET})
        ledger.charge("first", 1, "uploads", {"ann": ROUND})
        assert modes(tmp_path) == dict.fromkeys(("ledger", "ledger-wal", "ledger-shm"), 0o600)
    assert modes(tmp_path) == {"ledger": 0o600}
