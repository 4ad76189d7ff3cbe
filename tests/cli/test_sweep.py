"""The command sweep: what it leaves behind, what it says, what it refuses, and that no stop loses a finished run."""

import csv
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet
import pytest

from fedspd.report import folders_page
from tests.studies.made import TINY, once
from tests.support.command import SCRIPT, Finished, environment, run_all, run_script

pytestmark = pytest.mark.slow

FIXED = tuple(part for name, value in TINY.items() for part in ("--set", f"{name}={str(value).lower()}"))
SMALL = ("sweep", "proved", "--grid", "privacy.epsilon=1,3", "--seeds", "2", "--engine", "numpy", *FIXED)
LONG = ("sweep", "--grid", "run.participants=lin:1:10:10", "--seeds", "3", "--engine", "numpy", *FIXED[:2], *FIXED[4:])
FILES = {
    "sweep.toml", "rows.jsonl", "table.csv", "table.parquet", "points.csv", "points.md", "sweep.png", "page.json",
    "report.html",
}  # fmt: skip
FIRST: dict[str, tuple[str, ...]] = {"small": (*SMALL, "--out", "study"), "default": SMALL}
THEN: dict[str, tuple[str, ...]] = {
    "again": (*SMALL, "--out", "../small/study", "--json", "--metric", "test_loss"),
    "report": ("report", "../small/study", "--out", "one.html"),
    "other": (*(part.replace("run.rounds=2", "run.rounds=3") for part in SMALL), "--out", "../default/runs/sweep"),
    "help": ("sweep", "--help"),
    "no grid": ("sweep", "proved"),
    "empty grid": ("sweep", "--grid", "privacy.epsilon="),
    "unknown key": ("sweep", "--grid", "privacy.epsilom=1,2"),
    "twice": ("sweep", "--grid", "privacy.epsilon=1", "--grid", "privacy.epsilon=2"),
    "seed": ("sweep", "--grid", "run.seed=1,2"),
    "set and grid": ("sweep", "--grid", "privacy.epsilon=1,2", "--set", "privacy.epsilon=1"),
    "metric": ("sweep", "--grid", "privacy.epsilon=1,2", "--metric", "accuracy"),
    "config": ("sweep", "missing.toml", "--grid", "privacy.epsilon=1,2"),
    "run": ("sweep", "--grid", "run.participants=20,101", "--engine", "numpy"),
    "no seeds": ("sweep", "--grid", "privacy.epsilon=1,2", "--seeds", "0"),
    "negative seed": ("sweep", "--grid", "privacy.epsilon=1,2", "--first-seed", "-1"),
    "engine": ("sweep", "--grid", "privacy.epsilon=1,2", "--engine", "abacus"),
}
REFUSED = {
    "other": "got ../default/runs/sweep, where run.rounds is 2 and not 3; name another with --out.",
    "no grid": "a sweep needs a setting to vary, got none; add --grid section.key=value,value.",
    "empty grid": "got 'privacy.epsilon='; name a setting and its values.",
    "unknown key": "unknown key privacy.epsilom; did you mean 'epsilon'?",
    "twice": "a setting is varied by one grid, got 2 for privacy.epsilon; put all its values into one.",
    "seed": "a grid varies settings other than run.seed, got 'run.seed=1,2'; say --seeds and --first-seed.",
    "set and grid": "got both --set and --grid for privacy.epsilon; leave one out.",
    "metric": "got 'accuracy'; did you mean 'test_accuracy'?",
    "config": "got 'missing.toml' (No such file or directory); known are proved, published.",
    "run": "got 101; lower run.participants or raise partition.clients.",
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """All commands, made by one worker and read by all."""

    def make(root: Path) -> None:
        for cases in (FIRST, THEN):
            for name, end in run_all(root, cases).items():
                (root / f"{name}.code").write_text(str(end.code))

    root = once(tmp_path_factory, "sweep-commands", make)
    found = {}
    for name in FIRST | THEN:
        folder = root / name.replace(" ", "-")
        ends = (Path(f"{folder}.{end}").read_text() for end in ("out", "err"))
        found[name] = Finished(folder, int((root / f"{name}.code").read_text()), *ends)
    return found


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def kept(folder: Path) -> list[str]:
    """Keys of all complete lines."""
    path = folder / "rows.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line)["key"] for line in lines if line.endswith("\n")]


def stopped(folder: Path, number: signal.Signals) -> tuple[list[str], int, str]:
    """Start a long sweep and send a signal as soon as a run is finished: what is kept then, exit code and stderr."""
    with (folder / "err").open("w") as errors:
        process = subprocess.Popen(
            [SCRIPT, *LONG, "--out", "study"], cwd=folder, env=environment(folder / "cache"),
            stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            # a shell that started the tests in the background may have them ignore the keyboard
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    try:
        end = time.monotonic() + 120
        while not kept(folder / "study"):
            assert process.poll() is None, "it ended before a run was finished"
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(process.pid, number)
        process.wait(timeout=60)
        return kept(folder / "study"), process.returncode, (folder / "err").read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_sweep_leaves_a_complete_folder_and_says_where_it_is(done: dict[str, Finished]) -> None:
    small = done["small"]
    assert (small.code, small.err) == (0, "")
    assert {path.name for path in (small.folder / "study").iterdir()} == FILES
    assert small.out.endswith("4 runs. Written to study; open study/report.html\n")
    assert [(row["privacy.epsilon"], row["seed"]) for row in table(small.folder / "study")] == [
        ("1.0", "0"), ("1.0", "1"), ("3.0", "0"), ("3.0", "1"),
    ]  # fmt: skip
    assert (done["default"].folder / "runs" / "sweep" / "table.csv").exists()
    assert not list(small.folder.rglob("*.sqlite")), "no ledger is opened"


def test_every_output_says_that_nothing_is_charged_and_what_the_best_is_worth(done: dict[str, Finished]) -> None:
    for text in (done["small"].out, json.loads(done["again"].out)["note"]):
        assert "No run and no choice among them is charged" in text
        assert "optimistic" in text
    for statement in folders_page([done["small"].folder / "study"]).privacy:
        assert statement in done["small"].out


def test_the_same_call_again_runs_nothing_and_json_is_all_it_prints(done: dict[str, Finished]) -> None:
    again = json.loads(done["again"].out)
    study = done["small"].folder / "study"
    assert (done["again"].code, done["again"].err) == (0, "")
    assert (again["runs"], again["kept"], len(kept(study))) == (4, 4, 4)
    assert again["csv"] == "../small/study/table.csv"
    assert pyarrow.parquet.read_metadata(done["again"].folder / again["parquet"]).num_rows == 4
    losses = [float(row["test_loss"]) for row in table(study)]
    means = [sum(losses[:2]) / 2, sum(losses[2:]) / 2]
    assert [point["test loss"][0] for point in again["points"]] == pytest.approx(means)
    assert [point["best"] for point in again["points"]] == ["yes" if mean == min(means) else None for mean in means], (
        "of losses the lowest"
    )


def test_the_command_report_takes_the_folder_of_a_sweep(done: dict[str, Finished]) -> None:
    assert done["report"].code == 0
    document = (done["report"].folder / "one.html").read_text("utf-8")
    assert "Sweep of privacy.epsilon" in document
    assert "is charged to a budget" in document


def test_help_says_how_a_sweep_is_continued_and_shows_examples(done: dict[str, Finished]) -> None:
    text = " ".join(done["help"].out.split())
    assert "is continued by the same call" in text
    assert "only the new runs are made" in text
    assert "algorithm.penalty=log:0.01:10:7" in text


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_one_sentence_exit_code_2_and_no_folder(done: dict[str, Finished], name: str) -> None:
    assert (done[name].code, done[name].out) == (2, "")
    assert done[name].err.startswith("fedspd: ")
    assert done[name].err.rstrip("\n").endswith(REFUSED[name])
    assert done[name].err.count("\n") == 1
    assert list(done[name].folder.iterdir()) == []


@pytest.mark.parametrize("name", ["no seeds", "negative seed", "engine"])
def test_wrong_options_are_exit_code_2_without_a_traceback(done: dict[str, Finished], name: str) -> None:
    assert done[name].code == 2
    assert "Traceback" not in done[name].err


def test_a_process_killed_in_the_middle_loses_no_finished_run_and_the_same_call_makes_only_the_others(
    tmp_path: Path,
) -> None:
    before, code, _ = stopped(tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert 0 < len(before) < 30
    left = {path.name for path in (tmp_path / "study").iterdir()}
    assert left == {"sweep.toml", "rows.jsonl", "unfinished.json"}
    again = run_script(tmp_path, *LONG, "--out", "study", "--json")
    assert (again.code, again.err) == (0, "")
    told = json.loads(again.out)
    assert (told["runs"], told["kept"]) == (30, len(before))
    after = kept(tmp_path / "study")
    assert after[: len(before)] == before
    assert len(after) == len(set(after)) == 30, "nothing is run twice"
    assert {(row["run.participants"], row["seed"]) for row in table(tmp_path / "study")} == {
        (str(participants), str(seed)) for participants in range(1, 11) for seed in range(3)
    }
    assert {path.name for path in (tmp_path / "study").iterdir()} == FILES


def test_an_interrupt_from_the_keyboard_says_how_to_go_on(tmp_path: Path) -> None:
    before, code, err = stopped(tmp_path, signal.SIGINT)
    assert 0 < len(before) < 30
    assert (code, err) == (130, "fedspd: stopped; `fedspd resume study` goes on from here.\n")
