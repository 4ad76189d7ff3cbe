"""The command line in this process: what it prints and its exit code, as a shell would see them."""

import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from fedspd import cli

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Typed(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def typed(folder: Path, *arguments: str) -> Typed:
    """Type a command in a folder."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with chdir(folder), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(), _as_a_program(arguments):
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Typed(code, out.getvalue(), err.getvalue())


@contextmanager
def _as_a_program(arguments: Sequence[str]) -> Iterator[None]:
    """What belongs to a process is given back: its arguments, signals, and the width of its terminal."""
    words, width = sys.argv, os.environ.get("COLUMNS")
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    sys.argv, os.environ["COLUMNS"] = ["fedspd", *arguments], "500"
    try:
        yield
    finally:
        sys.argv = words
        os.environ.pop("COLUMNS")
        os.environ.update({} if width is None else {"COLUMNS": width})
        for number, handler in handlers.items():
            signal.signal(number, handler)


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of a folder with its size and the time of its last change."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns if path.is_file() else 0)
        for path in folder.rglob("*")
    }
