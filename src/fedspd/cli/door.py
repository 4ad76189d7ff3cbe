"""Where every command ends: what went wrong is one sentence and an exit code, never a traceback.

Exit codes: 0 done, 2 bad input or a file that cannot be used, 130 Ctrl-C, 143 told to end, 1 anything else.
"""

import io
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, TextIO

from fedspd.cli.console import PlainConsole
from fedspd.errors import InputError
from fedspd.escaping import escaped

INTERRUPTED, TOLD_TO_END = 128 + signal.SIGINT, 128 + signal.SIGTERM
err = PlainConsole(stderr=True)


def guarded(command: Callable[[], Any]) -> None:
    """Call a command; whatever it meets, say so in a sentence and leave with the exit code that belongs to it."""
    _print_any_character()
    os.environ.pop("SOURCE_DATE_EPOCH", None)  # NumPy fails to load where it is no number, and no file here has a date
    os.environ["MPLBACKEND"] = "agg"  # pictures go to files, and Matplotlib fails to load where the name is unknown
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # a run that diverged says so itself
    interrupted = _unwind_on_signals()
    try:
        _flushed(command)
    except InputError as error:
        _refuse(str(error))
    except BrokenPipeError:  # who read what was printed has gone
        _leave(1)
    except OSError as error:
        file = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        _refuse(f"{file}{error.strerror or error}")
    except MemoryError as error:
        _refuse(
            f"expected enough memory for this, got none left ({str(error) or 'it is used up'}); "
            "use fewer clients, records or columns, or a machine with more."
        )
    except (KeyboardInterrupt, Exception) as error:
        # A library that is interrupted while it is imported may raise anything in place of the interrupt.
        if interrupted or isinstance(error, KeyboardInterrupt):
            _leave(INTERRUPTED)
        raise


def for_programs() -> TextIO:
    """Standard output for what another program reads: UTF-8, whatever the terminal has."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdout


def _flushed(command: Callable[[], Any]) -> None:
    """What is printed is written before the exit code is decided."""
    try:
        command()
    except SystemExit:
        if sys.stdout is not None:
            sys.stdout.flush()
        raise


def _print_any_character() -> None:
    """A terminal without a character gets an escape in its place, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _unwind_on_signals() -> list[int]:
    """Told to end, a command leaves as if it had failed: half-written folders vanish. Filled by an interrupt."""
    seen: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        seen.append(number)
        raise KeyboardInterrupt

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, end)
    return seen


def _refuse(sentence: str) -> NoReturn:
    with suppress(OSError):  # nobody can be told
        err.print(f"fedspd: {escaped(sentence)}", style="red", highlight=False, markup=False)
    _leave(2)


def _leave(code: int) -> NoReturn:
    """Exit, and say nothing of what can no longer be printed."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # it was closed before the program began
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
