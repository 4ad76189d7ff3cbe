"""Faults around a ledger, injected for real: each ends in a sentence before anything is released."""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, verify
from fedspd.privacy.ledger.faults import require_later
from tests.support.ledger.crashes import BUDGETS, EVENT, FITS, fork, prepare

SOME = dict.fromkeys(["client-0", "client-1"], EVENT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    prepare(found := tmp_path / "ledger")
    return found


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own with little room; only root can have one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("way", ["unlink", "rename", "replace"])
def test_a_ledger_that_is_deleted_or_replaced_between_rounds_grants_nothing_more(path: Path, way: str) -> None:
    with Ledger(path) as ledger:
        assert ledger.charge("run", 1, "uploads", SOME).granted
        before = path.read_bytes()
        if way == "unlink":
            path.unlink()
        else:
            path.rename(path.with_name("elsewhere"))
        if way == "replace":
            path.write_bytes(before)
        with pytest.raises(InputError, match=r"where it was opened, got (no|another) file: .*; put it back"):
            ledger.charge("run", 2, "uploads", SOME)


def test_a_full_disk_grants_nothing_and_what_was_charged_before_stays(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small"):
        prepare(path := tmp_path / "small" / "ledger")
        granted: list[int] = []
        with Ledger(path) as ledger, pytest.raises(InputError, match="check the disk, its space"):
            charge_on(ledger, granted)
        copy = shutil.copytree(tmp_path / "small", tmp_path / "copy")
    assert 0 < len(granted) == verify(copy / "ledger").charges


def charge_on(ledger: Ledger, granted: list[int]) -> None:
    for round in range(10_000):
        if ledger.charge("run", round, "uploads", {"client-1": EVENT}).granted:
            granted.append(round)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that nobody can write to, root included; only root can have one."""
    command = ["mount", "--bind", "-o", "ro", str(folder), str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a folder read-only")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_ledger_in_a_read_only_folder_grants_nothing_and_says_so(path: Path) -> None:
    with (
        read_only(path.parent),
        pytest.raises(InputError, match=r"expected .*ledger.*, got .*"),
        Ledger(path) as ledger,
    ):
        ledger.charge("run", 1, "uploads", SOME)
    assert verify(path).charges == 0


def test_a_clock_that_runs_back_between_rounds_stops_the_run_and_a_small_step_does_not(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.charge("run", 1, "uploads", SOME)
    with sqlite3.connect(path) as connection:
        (last,) = connection.execute("SELECT time FROM charges ORDER BY sequence DESC LIMIT 1").fetchone()
    connection.close()
    rows = [("client-0", "run", 2, "uploads", "")]

    def at(seconds: float) -> str:
        return (datetime.fromisoformat(last) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")

    require_later(path, ("run", last), rows, at(-59))
    with pytest.raises(InputError, match=r"expected a clock that runs forwards, got .*; set the clock right"):
        require_later(path, ("run", last), rows, at(-61))
    require_later(path, ("another run", last), rows, at(-1e6))


def test_the_ledger_itself_asks_the_clock(path: Path) -> None:
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="milliseconds")
    with Ledger(path) as ledger:
        ledger.charge("run", 1, "uploads", SOME)
        ledger._last = "run", ahead  # as if the charge before had been made an hour from now
        with pytest.raises(InputError, match="expected a clock that runs forwards"):
            ledger.charge("run", 2, "uploads", SOME)
    assert verify(path).charges == len(SOME)


@pytest.mark.parametrize("version", [0, 2, 1000])
def test_a_ledger_of_another_version_is_refused_and_never_misread(path: Path, version: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"got version {version} of its format, and this program writes 1"):
        Ledger(path)
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.lengthy
def test_eight_processes_on_one_ledger_for_a_minute_spend_no_more_than_each_budget(path: Path) -> None:
    seconds = float(os.environ.get("LEDGER_SECONDS", "60"))
    eight_processes(path, seconds)


def eight_processes(path: Path, seconds: float) -> None:
    end = time.monotonic() + seconds

    def spend(number: int) -> None:
        round, names = 0, list(BUDGETS)
        with Ledger(path) as ledger:
            while time.monotonic() < end:
                chosen = [names[(round * (number + 1) + place) % len(names)] for place in range(3)]
                ledger.charge(f"run-{number}", round, "uploads", dict.fromkeys(chosen, EVENT))
                round += 1

    children = [fork(lambda number=number: spend(number)) for number in range(8)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
    verify(path)
    with sqlite3.connect(path) as connection:
        counts = dict(connection.execute("SELECT client, COUNT(*) FROM charges GROUP BY client"))
        (twice,) = connection.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM charges GROUP BY client, run, round, mechanism HAVING COUNT(*) > 1)"
        ).fetchone()
        (runs,) = connection.execute("SELECT COUNT(DISTINCT run) FROM charges").fetchone()
    connection.close()
    assert twice == 0
    assert runs > 1
    assert all(counts[client] <= FITS[client] for client in counts)
