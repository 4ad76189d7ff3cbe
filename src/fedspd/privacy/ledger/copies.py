"""Copies of a ledger's head in a second place, after whatever charged it: who changes the ledger cannot change them.

The place is a file that lines are added to, or a program of the operator's that gets the line on its standard input.
The program is named by its own words, one by one: there is no shell, and nothing that a server sends is part of it.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedspd.errors import InputError
from fedspd.privacy.ledger.ledger import Ledger

SECONDS = 60.0  # that a program may take


@dataclass(frozen=True)
class SecondPlace:
    """Where heads are copied to: a file, a program with its arguments, both or neither."""

    file: Path | None = None
    program: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.file is not None or bool(self.program)

    def send(self, ledger: Ledger) -> None:
        """Copy the head of an open ledger, with the name of the run that was charged last.

        Raises:
            InputError: the copy was not made; the line is part of the sentence, to be kept by hand.
        """
        line = head_line(ledger)
        try:
            if self.file is not None:
                _append(self.file, line)
            if self.program:
                _run(self.program, line)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise InputError(
                f"expected to copy the head of {ledger.path} to a second place, got '{_reason(error)}'; all "
                f"else is done: keep this line yourself: {line}"
            ) from None


def head_line(ledger: Ledger) -> str:
    """What is copied: one line of JSON."""
    head = ledger.head
    last = ledger.charges_after(head.rows - 1)
    run, now = last[0].run if last else None, datetime.now(UTC).isoformat(timespec="seconds")
    told = {"ledger": ledger.path.name, "run": run, "rows": head.rows, "head": head.hash, "time": now}
    return json.dumps(told, separators=(",", ":"))


def _append(file: Path, line: str) -> None:
    with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "ab") as opened:
        opened.write(f"{line}\n".encode())
        opened.flush()
        os.fsync(opened.fileno())


def _run(program: tuple[str, ...], line: str) -> None:
    done = subprocess.run(program, input=f"{line}\n".encode(), timeout=SECONDS, check=False, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise OSError(f"{program[0]} ended with {done.returncode}{f': {said}' if said else ''}")


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no end after {SECONDS:g} seconds"
    return (getattr(error, "strerror", None) or str(error))[:300]
