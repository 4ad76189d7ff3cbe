"""What was cut off goes on: the same results to the bit, nobody charged twice, no noise on other records."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedspd.privacy.ledger import create_ledger
from fedspd.results import WORK_FILE, Work, read_work
from fedspd.results.work import write_work
from tests.support.command import environment
from tests.support.cut_off import charges, run_files, table_rows

SMALL = (
    "run",
    "--set=data.name=breast-cancer",
    "--set=partition.clients=8",
    "--set=run.rounds=40",
    "--set=run.participants=5",
    "--quiet",
)


def called(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fedspd", *arguments], cwd=folder, env=environment(folder / "cache"),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def cut_off(folder: Path, arguments: Sequence[str], out: str, checkpoint: int) -> None:
    """Kill a run when it has written a checkpoint of about this number."""
    command = [sys.executable, "-m", "fedspd", *arguments, "--out", out, "--checkpoint-every=0"]
    with subprocess.Popen(command, cwd=folder, env=environment(folder / "cache")) as process:
        deadline = time.monotonic() + 200
        while _last(folder / out) < checkpoint and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        assert process.poll() is None, "it was over too soon"
        process.send_signal(signal.SIGKILL)


def _last(folder: Path) -> int:
    return max((int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*")), default=0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    done = called(folder, *SMALL, "--out", "whole")
    assert done.returncode == 0, done.stderr
    return folder / "whole"


def test_a_run_that_was_killed_goes_on_to_the_same_bits_and_is_charged_once(tmp_path: Path, whole: Path) -> None:
    cut_off(tmp_path, SMALL, "cut", 10)
    assert (tmp_path / "cut" / WORK_FILE).stat().st_mode & 0o777 == 0o600
    done = called(tmp_path / "..", "resume", str(tmp_path / "cut"))
    assert (done.returncode, done.stderr) == (0, "")
    assert run_files(tmp_path / "cut") == run_files(whole)
    assert charges(tmp_path / "cut" / "ledger.sqlite") == charges(whole / "ledger.sqlite")


def test_a_shared_ledger_is_charged_once_however_often_the_run_is_cut_off(tmp_path: Path, whole: Path) -> None:
    create_ledger(tmp_path / "shared.sqlite")
    arguments = (*SMALL, "--ledger", "shared.sqlite")
    cut_off(tmp_path, arguments, "cut", 5)
    refused = called(tmp_path, *arguments, "--out", "other")
    assert (refused.returncode, "a noise draw is used once" in refused.stderr) == (2, True)
    assert called(tmp_path, "resume", "cut").returncode == 0
    assert run_files(tmp_path / "cut") == run_files(whole)
    assert charges(tmp_path / "shared.sqlite") == charges(whole / "ledger.sqlite")


def test_a_run_without_a_seed_keeps_it_for_its_owner_until_it_is_done_and_only_where_it_was_asked_to(
    tmp_path: Path,
) -> None:
    arguments = (*SMALL, "--set=run.seed=")
    cut_off(tmp_path, arguments, "cut", 5)
    secret = read_work(tmp_path / "cut").secret
    assert secret is not None
    assert secret >= 2**64
    before = charges(tmp_path / "cut" / "ledger.sqlite")
    assert called(tmp_path, "resume", "cut").returncode == 0
    assert charges(tmp_path / "cut" / "ledger.sqlite")[: len(before)] == before
    kept = b"".join(path.read_bytes() for path in (tmp_path / "cut").iterdir())
    assert str(secret).encode() not in kept
    assert not (tmp_path / "cut" / WORK_FILE).exists()


def test_the_noise_of_a_run_is_not_used_on_other_records_settings_or_programs(tmp_path: Path) -> None:
    cut_off(tmp_path, SMALL, "cut", 2)
    work = read_work(tmp_path / "cut")
    write_work(tmp_path / "cut", Work(work.command, work.arguments, work.started_in, "of other records"))
    done = called(tmp_path, "resume", "cut")
    assert done.returncode == 2
    assert "the same noise on other records would tell them apart" in " ".join(done.stderr.split())
    assert (tmp_path / "cut" / WORK_FILE).exists()
    assert not (tmp_path / "cut" / "summary.json").exists()


def test_a_folder_where_work_was_cut_off_is_not_written_to_by_another_run(tmp_path: Path) -> None:
    cut_off(tmp_path, SMALL, "cut", 2)
    before = {path.name for path in (tmp_path / "cut").iterdir()}
    done = called(tmp_path, *SMALL, "--out", "cut")
    assert done.returncode == 2
    assert "`fedspd resume cut` goes on with it" in " ".join(done.stderr.split())
    assert {path.name for path in (tmp_path / "cut").iterdir()} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_keeps_its_checkpoint(tmp_path: Path, whole: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "fedspd", *SMALL, "--out", "cut", "--checkpoint-every=0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path / "cache")) as process:
        while _last(tmp_path / "cut") < 3 and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert called(tmp_path, "resume", "cut").returncode == 0
    assert run_files(tmp_path / "cut") == run_files(whole)


def test_only_commands_that_can_be_cut_off_are_taken_up(tmp_path: Path) -> None:
    write_work(tmp_path, Work(("ledger", "create"), ("mine.sqlite",), str(tmp_path), ""))
    done = called(tmp_path, "resume", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert "got 'ledger create'; call it again yourself" in " ".join(done.stderr.split())
    assert not (tmp_path / "mine.sqlite").exists()


def test_work_from_a_folder_that_is_gone_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_work(tmp_path, Work(("sweep",), (), str(tmp_path / "gone"), ""))
    done = called(tmp_path, "resume", ".")
    assert done.returncode == 2
    assert "No such file or directory; restore it" in " ".join(done.stderr.split())


def test_a_sweep_is_taken_up_with_the_arguments_it_was_called_with(tmp_path: Path) -> None:
    arguments = (
        "sweep", "--grid=privacy.epsilon=1,2", "--seeds=2", "--first-seed=3", "--set=data.name=breast-cancer",
        "--set=partition.clients=8", "--set=run.rounds=4", "--set=run.participants=5", "--engine=numpy", "--json",
    )  # fmt: skip
    assert called(tmp_path, *arguments, "--out", "whole").returncode == 0
    command = [sys.executable, "-m", "fedspd", *arguments, "--out", "cut"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path / "cache"), stdout=-1) as process:
        while not (tmp_path / "cut" / WORK_FILE).exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    assert set(read_work(tmp_path / "cut").arguments) == set(arguments[1:])
    done = called(tmp_path, "resume", "cut")
    assert done.returncode == 0, done.stderr
    whole, cut = (table_rows(tmp_path / name / "table.csv") for name in ("whole", "cut"))
    assert len(whole) == 4
    assert whole == cut
    assert not os.path.lexists(tmp_path / "cut" / WORK_FILE)
