"""What a user's shell may do to a command: full disks, closed pipes, odd encodings, signals. Never a traceback."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from fedspd import __version__
from tests.support.command import environment

FULL = Path("/dev/full")
LONG_RUN = (
    "run", "--set", "run.rounds=100000", "--set", "privacy.epsilon=1e4", "--set", "metrics.objective_every=0",
    "--set", "metrics.lagrangian=false", "--set", "metrics.criterion=false", "--out", "slow",
)  # fmt: skip


def start(folder: Path, *arguments: str, more: Mapping[str, str] | None = None, **how: object) -> subprocess.Popen[str]:
    """The command as a module, in a folder."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.Popen(
        [sys.executable, "-m", "fedspd", *arguments],
        cwd=folder, env=environment(folder / "cache") | (more or {}), text=True, **settings,  # pyright: ignore
    )  # fmt: skip


def told(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_the_version_is_printed_by_the_module_too(tmp_path: Path) -> None:
    assert told(start(tmp_path, "--version")) == (0, f"fedspd {__version__}\n", "")


@pytest.mark.parametrize("arguments", [("settings",), ("methods", "--json"), ("--version",)], ids=" ".join)
def test_a_full_disk_behind_standard_output_is_a_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        code, _, err = told(start(tmp_path, *arguments, stdout=full))
    assert (code, err) == (2, "fedspd: No space left on device\n")


def test_a_full_disk_behind_both_streams_keeps_the_exit_code(tmp_path: Path) -> None:
    with FULL.open("w") as full:
        assert told(start(tmp_path, "run", "nosuch", stdout=full, stderr=full))[0] == 2


def test_a_reader_that_goes_away_ends_the_command_without_a_word(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    code, _, err = told(start(tmp_path, "methods", "--json", stdout=write))
    os.close(write)
    assert (code, err) == (1, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_characters_that_a_terminal_does_not_have_are_escaped(tmp_path: Path, encoding: str) -> None:
    for arguments, expected in ((("methods",), 0), (("settings",), 0), (("run", "größe–.toml"), 2)):
        code, out, err = told(start(tmp_path, *arguments, more={"PYTHONIOENCODING": encoding}, encoding=encoding))
        assert code == expected
        assert "Traceback" not in err
        assert out or expected


def test_a_table_for_another_program_is_utf_8_whatever_the_terminal_has(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("größe,y\n1,a\n2,b\n3,a\n4,b\n", "utf-8")
    code, out, _ = told(
        start(
            tmp_path, "data", "describe", "t.csv", "--target", "y", more={"PYTHONIOENCODING": "ascii"}, encoding="utf-8"
        )
    )
    assert code == 0
    assert "größe" in out


def test_a_sentence_has_no_control_characters_whatever_was_typed(tmp_path: Path) -> None:
    code, _, err = told(start(tmp_path, "run", "--set", "run.seed=\x1b[31m\nred\x07"))
    assert code == 2
    assert err.count("\n") == 1
    assert err.strip().isprintable()


INTERRUPTED = """
import os, signal, sys
import fedspd.__main__ as program

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["fedspd", "run", "--quiet"]
program.main()
"""


def interrupted(folder: Path, module: str) -> list[Path]:
    """What is left in a folder of a run that was interrupted without a word when it imported this."""
    program = INTERRUPTED.replace("MODULE", repr(module))
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(folder / "cache"), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (-signal.SIGINT, 130)
    assert done.stderr == ""
    return [path for path in folder.iterdir() if path.name != "cache"]


@pytest.mark.parametrize("module", ["numpy", "typer", "fedspd.algorithms.base", "fedspd.report.figures"])
def test_an_interrupt_while_something_is_imported_ends_the_program_without_a_word(tmp_path: Path, module: str) -> None:
    assert not interrupted(tmp_path, module)


def test_an_interrupt_while_the_picture_is_drawn_leaves_the_run_that_was_paid_for(tmp_path: Path) -> None:
    (runs,) = interrupted(tmp_path, "matplotlib")
    (run,) = runs.iterdir()
    kept = {path.name: path.read_bytes() for path in run.iterdir()}
    assert kept.keys() == {
        "config.toml", "environment.json", "history.csv", "ledger.sqlite", "model.npz", "statement.json",
        "summary.json", "unfinished.json",
    }  # fmt: skip
    assert told(start(tmp_path, "resume", str(run)))[0] == 0
    del kept["unfinished.json"]
    done = {path.name: path.read_bytes() for path in run.iterdir()}
    assert done.pop("run.png")
    assert done == kept, "nothing is played or paid for again"


def test_an_environment_that_libraries_stumble_over_costs_no_run_that_was_paid_for(tmp_path: Path) -> None:
    """No cache can be written, no home is there, and what others read as the name of a screen and a date is neither."""
    odd = {"XDG_CACHE_HOME": "", "HOME": "/proc/x", "MPLBACKEND": "nonsense", "SOURCE_DATE_EPOCH": "x"}
    assert told(start(tmp_path, "ledger", "create", "shared.db", more=odd))[0] == 0
    words = ("run", "--data", "breast-cancer", "--clients", "5", "--set", "run.rounds=2", "--out", "made", "--quiet")
    assert told(start(tmp_path, *words, "--ledger", "shared.db", more=odd)) == (0, "", "")
    assert {"model.npz", "run.png", "statement.json"} <= {path.name for path in (tmp_path / "made").iterdir()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_told_to_end_leaves_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    # Under nohup a hang-up is ignored, by the program too: what this suite was started with is not what is tested.
    process = start(tmp_path, *LONG_RUN, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    deadline = time.monotonic() + 100
    try:
        while not (tmp_path / "slow" / "unfinished.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        assert (tmp_path / "slow" / "unfinished.json").exists(), "the run has begun"
        process.send_signal(number)
        assert told(process) == (128 + number, "", "")
    finally:
        process.kill()  # where it did not end: it would go on for an hour
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def test_memory_that_is_used_up_is_a_sentence(tmp_path: Path) -> None:
    limit = 3 << 30  # the sizes of two billion shards take 16 GB
    code, out, err = told(
        start(
            tmp_path, "plan", "--clients", "2000000000", "--records", "1",
            more={"OPENBLAS_NUM_THREADS": "1"},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert err.startswith("fedspd: expected enough memory for this, got none left (")
    assert err.count("\n") == 1
