"""One server for a folder: two would number their rounds alike, and sites would pay for both."""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    with open(_opened(folder), "r+") as file:
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
    path, nobody = folder / FILE, f"No server is at work in {folder}."
    if not path.exists():
        return nobody
    with open(_opened(folder), "r+") as file:
        if _taken(file.fileno()):
            return nobody
        time.sleep(SETTLE_SECONDS)  # a server that has just begun writes its number first
        process, end = process_of(folder), time.monotonic() + STOP_SECONDS
        with suppress(ProcessLookupError):  # it ended meanwhile, and its lock is free in a moment
            os.kill(process, signal.SIGTERM)
        while not _taken(file.fileno()):
            if time.monotonic() > end:
                raise InputError(
                    f"process {process} did not end within {STOP_SECONDS:g} s; `kill -9 {process}` ends it."
                )
            time.sleep(0.05)
    return f"Process {process} has ended. `fedspd deploy server` goes on after its last round."


def process_of(folder: Path) -> int:
    """The number of the process that a folder's lock names.

    Guarantees:
        It is that of one process other than the machine's first: no group, and not all of them.
    """
    holder = _holder(folder)
    if not (holder.isascii() and holder.isdigit() and len(holder) < 11 and int(holder) > 1):
        raise InputError(
            f"expected the number of the server's process in {folder / FILE}, got {holder[:20]!r}; end it by hand."
        )
    return int(holder)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / FILE, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)  # a pipe must not hold us up
    except OSError as error:
        raise InputError(
            f"expected a place for the server's lock at {folder / FILE}, got: {error.strerror}; move what is there, or "
            "name another federation.folder."
        ) from None


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(folder: Path) -> str:
    return (folder / FILE).read_text(errors="replace").strip() or "unknown"
