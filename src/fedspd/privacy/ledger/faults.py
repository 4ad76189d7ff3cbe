"""Faults around an open ledger that must be noticed before a release: its file is gone, the clock ran back."""

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from fedspd.errors import InputError

BACKWARDS = 60.0  # seconds that a clock may be set back, as it is when it is adjusted


def file_at(path: Path) -> tuple[int, int] | None:
    """What tells the file at a path from any other; None: there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def require_same_file(path: Path, opened: tuple[int, int] | None) -> None:
    """Refuse to go on where the file that was opened is no longer at its place."""
    found = file_at(path)
    if found != opened:
        got = "no file" if found is None else "another file"
        raise InputError(
            f"expected the ledger {path} where it was opened, got {got}: what is charged now would be lost; put it "
            "back."
        )


def require_later(path: Path, last: tuple[str, str], draft: Iterable[tuple[object, ...]], now: str) -> None:
    """Refuse a charge of a run that is older than the one before, by more than a clock is adjusted.

    Only within a run, whose rounds follow each other: a clock that once ran ahead would otherwise close a ledger for
    years.

    Args:
        path: of the ledger.
        last: run and time of the last charge.
        draft: rows to be written: client, run, and more.
        now: the time they would carry.
    """
    run, before = last
    if any(row[1] == run for row in draft):
        back = (datetime.fromisoformat(before) - datetime.fromisoformat(now)).total_seconds()
        if back > BACKWARDS:
            raise InputError(
                f"expected a clock that runs forwards, got {now} after the last charge to {path} at {before}; set the "
                "clock right, then go on."
            )
