"""The command line: what a run leaves behind, what it prints where, and that it repeats."""

import csv
import json
import os
import pty
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedspd import config as configuration
from fedspd.config import describe
from fedspd.privacy.ledger import verify
from fedspd.results import COLUMNS
from tests.support.command import SCRIPT, Finished, environment, run_all

SMALL = ("--set", "run.rounds=3", "--set", "metrics.criterion=false")
RUN = ("run", "published", *SMALL, "--out", "run")
CASES: dict[str, tuple[str, ...]] = {
    "first": (*RUN, "--json"),
    "again": (*RUN, "--quiet"),
    "other seed": (*RUN, "--json", "--set", "run.seed=1"),
    "from its config": ("run", "../first/run/config.toml", "--out", "run", "--json"),
    "plain": ("run", "published", *SMALL, "--out", "new/[bold]run"),
    "no noise": ("run", "published", *SMALL, "--set", "privacy.epsilon=inf", "--json"),
    "with criterion": (
        "run", "published", "--set", "run.rounds=3", "--set", "problem.loss=least-squares",
        "--set", "problem.regularizer=squared-l2", "--out", "run", "--json",
    ),
    "proved": ("run", *SMALL, "--out", "run"),
    "create": ("ledger", "create", "../proved-json/shared.sqlite"),
    "proved json": ("run", *SMALL, "--out", "run", "--json", "--ledger", "shared.sqlite"),
    "help": ("--help",),
    "run help": ("run", "--help"),
    "settings": ("settings",),
}  # fmt: skip
FILES = {"statement.json", "config.toml", "history.csv", "summary.json", "model.npz", "environment.json", "run.png"}
SUMMARY = {
    "algorithm", "guarantee", "epsilon", "delta", "epsilon_per_round", "rounds", "clients", "participants",
    "test_accuracy", "objective", "alfv", "wall_seconds", "seed",
}  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return run_all(tmp_path_factory.mktemp("commands"), CASES)


def strict_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def model(finished: Finished) -> dict[str, np.ndarray]:
    with np.load(finished.folder / "run" / "model.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def test_every_run_of_these_ends_well_and_says_nothing_on_stderr(done: dict[str, Finished]) -> None:
    for name, finished in done.items():
        assert (finished.code, finished.err) == (0, ""), name


def test_the_run_folder_is_complete_and_nothing_lies_beside_it(done: dict[str, Finished]) -> None:
    folder = done["first"].folder
    assert [path.name for path in folder.iterdir()] == ["run"]
    assert {path.name for path in (folder / "run").iterdir()} == FILES


def test_the_summary_has_what_a_run_is_remembered_by(done: dict[str, Finished]) -> None:
    summary = strict_json((done["first"].folder / "run" / "summary.json").read_text())
    assert summary.keys() >= SUMMARY
    assert (summary["algorithm"], summary["guarantee"]) == ("fedspd-published", "as published")
    assert (summary["rounds"], summary["clients"], summary["participants"], summary["seed"]) == (3, 100, 20, 0)
    assert summary["epsilon"] == pytest.approx(1.0)
    assert 0 <= summary["test_accuracy"] <= 1


def test_the_history_has_a_row_per_round_and_ends_where_the_summary_does(done: dict[str, Finished]) -> None:
    with (done["first"].folder / "run" / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert [row["round"] for row in rows] == ["1", "2", "3"]
    summary = strict_json(done["first"].out)
    for name in ("test_accuracy", "objective", "alfv"):
        assert float(rows[-1][name]) == summary[name]


def test_model_figure_and_environment_can_be_read(done: dict[str, Finished]) -> None:
    folder = done["first"].folder / "run"
    arrays = model(done["first"])
    assert (arrays["weights"].shape, arrays["columns"].shape, list(arrays["classes"])) == (
        (81, 2), (81,), ["<=50K", ">50K"],
    )  # fmt: skip
    with Image.open(folder / "run.png") as image:
        assert image.format == "PNG"
        assert len(np.unique(np.asarray(image.convert("L")))) > 10, "the figure is blank"
    assert strict_json((folder / "environment.json").read_text())["libraries"]["numpy"] == np.__version__


def test_the_written_config_is_the_resolved_one(done: dict[str, Finished]) -> None:
    written = tomllib.loads((done["first"].folder / "run" / "config.toml").read_text())
    overrides = {"run.rounds": 3, "metrics.criterion": False, "run.engine": "numpy"}
    assert configuration.parse(written) == configuration.load("published", overrides)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(done: dict[str, Finished]) -> None:
    histories = {name: (done[name].folder / "run" / "history.csv").read_bytes() for name in list(CASES)[:4]}
    assert histories["first"] == histories["again"] == histories["from its config"]
    assert histories["first"] != histories["other seed"]
    first, again, other = (model(done[name])["weights"] for name in ("first", "again", "other seed"))
    assert first.tobytes() == again.tobytes() == model(done["from its config"])["weights"].tobytes()
    assert np.all(first != other)


def test_json_prints_the_summary_and_nothing_else(done: dict[str, Finished]) -> None:
    printed = strict_json(done["first"].out)
    written = strict_json((done["first"].folder / "run" / "summary.json").read_text())
    assert printed == {**written, "folder": "run"}


def test_an_infinite_epsilon_is_null_in_json_and_promises_nothing(done: dict[str, Finished]) -> None:
    printed = strict_json(done["no noise"].out)
    assert (printed["epsilon"], printed["guarantee"]) == (None, "none")


def test_quiet_prints_nothing_but_writes_the_run(done: dict[str, Finished]) -> None:
    assert done["again"].out == ""
    assert {path.name for path in (done["again"].folder / "run").iterdir()} == FILES


def test_in_a_pipe_the_summary_has_no_progress_bar_and_no_colors(done: dict[str, Finished]) -> None:
    plain = done["plain"].out
    assert "test accuracy" in plain
    assert "Privacy: A simulation: its noise follows from the seed" in plain
    assert "can subtract it. (1, 0.0001)-differential privacy, as published; unit: one record" in plain
    assert not set(plain) & set("\x1b\r━╸╺█")


def test_on_a_terminal_there_is_a_progress_bar_and_stdout_stays_clean(tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    with open(terminal, "rb", buffering=0) as screen:
        command = [SCRIPT, *RUN, "--set", "partition.seed=1"]
        env = environment(tmp_path) | {"TERM": "xterm"}
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=end, text=True) as process:
            os.close(end)
            shown = b""
            while chunk := _read(screen):
                shown += chunk
            assert process.stdout
            assert "\x1b" not in process.stdout.read()
    assert process.returncode == 0
    assert b"3/3" in shown


def _read(screen: Any) -> bytes:
    try:
        return screen.read(4096)
    except OSError:  # how Linux says that the other end of a terminal was closed
        return b""


def test_without_out_a_run_goes_to_a_new_folder_under_runs(done: dict[str, Finished]) -> None:
    (made,) = (done["no noise"].folder / "runs").iterdir()
    assert made.name.endswith("-published")
    assert {path.name for path in made.iterdir()} == FILES
    assert strict_json(done["no noise"].out)["folder"] == f"runs/{made.name}"


def test_a_folder_named_like_markup_is_made_and_printed_as_it_is(done: dict[str, Finished]) -> None:
    assert (done["plain"].folder / "new" / "[bold]run" / "summary.json").exists()
    assert done["plain"].out.endswith("Written to new/[bold]run\n")


def test_the_criterion_stands_beside_the_theorem_with_its_conditions(done: dict[str, Finished]) -> None:
    measured = strict_json(done["with criterion"].out)["convergence"]
    assert measured["criterion"] < measured["bound"]
    assert all(set(condition) == {"holds", "detail"} for condition in measured["conditions"].values())
    assert len(list((done["with criterion"].folder.parent / "cache" / "fedspd" / "optima").glob("*.npz"))) == 1


def test_help_shows_examples_that_name_real_commands(done: dict[str, Finished]) -> None:
    assert "Examples:" in done["help"].out
    assert "fedspd run" in done["help"].out
    assert "fedspd run published --set privacy.epsilon=3 --set run.participants=50" in done["run help"].out
    assert all(option in done["run help"].out for option in ("--set", "--out", "--json", "--quiet"))


def test_settings_lists_every_key_and_the_presets(done: dict[str, Finished]) -> None:
    assert all(f"\n{name} " in done["settings"].out for name, _, _ in describe())
    assert "Presets: proved, published" in done["settings"].out


def test_without_a_preset_the_proved_method_runs_at_one_and_1e_5_and_keeps_its_ledger(
    done: dict[str, Finished],
) -> None:
    folder = done["proved"].folder / "run"
    assert {path.name for path in folder.iterdir()} == FILES | {"ledger.sqlite"}
    summary = strict_json((folder / "summary.json").read_text())
    assert (summary["algorithm"], summary["guarantee"]) == ("fedspd", "proved")
    assert (summary["epsilon"], summary["delta"], summary["relation"]) == (1.0, 1e-5, "replace-one")
    assert summary["epsilon_spent_max"] <= 1.0
    assert "(1, 1e-05)-differential privacy, proved; unit: one record of a client" in done["proved"].out
    assert verify(folder / "ledger.sqlite").clients == 100


def test_a_shared_ledger_stays_where_it_is_and_is_charged_like_the_runs_own(done: dict[str, Finished]) -> None:
    shared = done["proved json"].folder / "shared.sqlite"
    assert {path.name for path in (done["proved json"].folder / "run").iterdir()} == FILES
    assert verify(shared).charges == verify(done["proved"].folder / "run" / "ledger.sqlite").charges == 160
