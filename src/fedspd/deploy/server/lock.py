"""One server for a folder: two would number their rounds alike, and sites would pay for both."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedspd.errors import InputError

FILE = "lock"
STOP_SECONDS = 60.0
SETTLE_SECONDS = 0.2


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder; the lock is gone with the process, whatever ends it.

    Guarantees:
        A folder that another process holds is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(os.open(folder / FILE, os.O_CREAT | os.O_RDWR, 0o600), "r+") as file:
        if not _taken(file.fileno()):
            raise InputError(
                f"expected a folder of its own for this server, got {folder}, which process {_holder(folder)} is at "
                "work in; wait for it, end it with `fedspd deploy stop`, or name another federation.folder."
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def stop(folder: Path) -> str:
    """End the server that is at work in a folder; what happened, in a sentence."""
    path = folder / FILE
    if not path.exists():
        return f"No server is at work in {folder}."
    with path.open() as file:
        if _taken(file.fileno()):
            return f"No server is at work in {folder}."
        time.sleep(SETTLE_SECONDS)  # a server that has just begun writes its number first
        process, end = _holder(folder), time.monotonic() + STOP_SECONDS
        os.kill(int(process), signal.SIGTERM)
        while not _taken(file.fileno()):
            if time.monotonic() > end:
                raise InputError(
                    f"process {process} did not end within {STOP_SECONDS:g} s; `kill -9 {process}` ends it."
                )
            time.sleep(0.05)
    return f"Process {process} has ended. `fedspd deploy server` goes on after its last round."


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(folder: Path) -> str:
    return (folder / FILE).read_text().strip() or "unknown"
