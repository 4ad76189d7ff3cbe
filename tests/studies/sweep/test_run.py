"""Sweeps: every point with every seed once, kept as it comes, continued and never mixed."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from fedspd import InputError, run
from fedspd.results import Convergence
from fedspd.studies.sweep import Sweep, check_metric, plan_sweep, run_sweep
from fedspd.studies.sweep.grid import SEED
from fedspd.studies.sweep.plan import AT_THE_END
from fedspd.studies.sweep.rows import BLOCK_SECONDS, COLUMNS, Row, read_rows, row_of
from tests.studies.made import TINY

pytestmark = pytest.mark.slow

EPSILON, SCALE = "privacy.epsilon=1,3", "algorithm.step_scale=0.5,2"


def planned(*grids: str, seeds: int = 2, first: int | None = None, **changes: Any) -> Sweep:
    settings = TINY | {name.replace("__", "."): value for name, value in changes.items()}
    return plan_sweep("proved", grids or (EPSILON,), seeds, first, settings)


def swept(sweep: Sweep, folder: Path, on_run: Callable[[], Any] = lambda: None) -> tuple[list[Row], int]:
    return run_sweep(sweep, folder, "numpy", on_run)


def reused(before: Sequence[Row], after: Sequence[Row]) -> int:
    """How many rows are the same: a run that was made anew would have taken another time."""
    return sum(row in after for row in before)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "new" / "sweep"


@pytest.fixture(scope="module")
def swept_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all runs of `planned()` are kept."""
    folder = tmp_path_factory.mktemp("swept") / "sweep"
    swept(planned(), folder)
    return folder


@pytest.fixture
def finished(swept_once: Path, folder: Path) -> Path:
    """A copy of it, in which the same sweep runs nothing."""
    return shutil.copytree(swept_once, folder)


def test_every_point_is_run_with_every_seed_and_each_row_is_the_run_by_itself(folder: Path) -> None:
    sweep = planned(EPSILON, SCALE, first=7)
    rows, kept = swept(sweep, folder)
    asked = [(1.0, 0.5), (1.0, 2.0), (3.0, 0.5), (3.0, 2.0)]
    assert [(row["privacy.epsilon"], row["algorithm.step_scale"], row["seed"]) for row in rows] == [
        (*point, seed) for point in asked for seed in (7, 8)
    ]
    assert kept == 0
    assert list(rows[0]) == ["privacy.epsilon", "algorithm.step_scale", "seed", *COLUMNS]
    point = {"privacy.epsilon": 3.0, "algorithm.step_scale": 2.0}
    alone = run("proved", AT_THE_END | TINY | point | {SEED: 8}).summary
    expected = point | {"seed": 8} | row_of(alone)
    assert {name: pytest.approx(value) for name, value in expected.items() if name != "wall_seconds"} == {
        name: value for name, value in rows[-1].items() if name != "wall_seconds"
    }


def test_the_first_seed_is_that_of_the_configuration_unless_another_is_named() -> None:
    assert planned().seeds == range(2)
    assert planned(run__seed=5).seeds == range(5, 7)
    assert planned(run__seed=5, first=9).seeds == range(9, 11)


def test_a_second_call_runs_nothing_and_a_bar_still_ends_where_it_should(folder: Path) -> None:
    calls: list[None] = []
    first, _ = swept(planned(), folder, on_run=lambda: calls.append(None))
    before = contents(folder)
    again, kept = swept(planned(), folder, on_run=lambda: calls.append(None))
    assert (again, kept, len(calls)) == (first, 4, 8)
    assert contents(folder) == before
    assert before.keys() == {"sweep.toml", "rows.jsonl"}


@pytest.mark.slow
def test_more_seeds_and_more_values_in_any_order_reuse_what_is_there(folder: Path) -> None:
    first, _ = swept(planned(EPSILON, "algorithm.step_scale=2", first=1), folder)
    more, kept = swept(planned(SCALE, "privacy.epsilon=3,0.5,1", seeds=3), folder)
    assert (kept, len(more)) == (4, 18)
    assert reused(first, more) == 4
    assert [row["algorithm.step_scale"] for row in more] == [0.5] * 9 + [2.0] * 9


def test_a_line_cut_short_by_a_crash_is_run_again_and_all_others_are_kept(finished: Path) -> None:
    first, _ = swept(planned(), finished)
    path = finished / "rows.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (1, len(lines[-1]) // 2, len(lines[-1]) - 2):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:cut])
        again, kept = swept(planned(), finished)
        assert kept == 3
        assert reused(first, again) == 3
        assert swept(planned(), finished) == (again, 4), "the line after the cut one is a line of its own"


KILLED = """
import os, signal, sys, time
from pathlib import Path
from tests.studies.sweep.test_run import planned, swept
times = []

def count():
    times.append(time.monotonic())
    if len(times) == 3:
        print(*times, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

swept(planned(), Path(sys.argv[1]), count)
"""


def test_a_sweep_that_is_killed_makes_at_most_a_block_of_rows_again(folder: Path, swept_once: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -9
    times, kept = list(map(float, killed.stdout.split())), read_rows(folder)
    assert 1 <= len(kept) <= len(times) == 3
    assert times[-1] - times[len(kept) - 1] < 2 * BLOCK_SECONDS, "what is lost was made since the last block"
    _, before = swept(planned(), folder)
    assert before == len(kept)
    again, whole = (
        {key: {**row, "wall_seconds": 0} for key, row in read_rows(f).items()} for f in (folder, swept_once)
    )
    assert again == whole


def test_lines_that_are_no_rows_of_this_version_are_run_again(finished: Path) -> None:
    swept(planned(), finished)
    path = finished / "rows.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    del lines[0]["row"]["uploads"]
    others = [lines[0], "text", 7, {"key": "only"}, {"key": "k", "row": 3}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*others, *lines[1:]]) + "\xff\n")
    rows, kept = swept(planned(), finished)
    assert (kept, len(rows)) == (3, 4)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: planned(run__rounds=3), "where run.rounds is 2 and not 3; name another with --out."),
        (lambda: planned(algorithm__penalty=1.0), "where algorithm.penalty is absent and not 1.0; name another"),
        (lambda: planned(SCALE), "which varies privacy.epsilon; name another with --out."),
        (lambda: planned(EPSILON, SCALE), "which varies privacy.epsilon; name another with --out."),
        (lambda: planned("privacy.epsilon=1,8"), "where privacy.epsilon is 3.0 too; name another with --out."),
        (lambda: planned(seeds=1), "where seeds are 0 to 1; name another with --out."),
        (lambda: planned(first=1, seeds=9), "where seeds are 0 to 1; name another with --out."),
    ],
)
def test_another_sweep_or_less_of_the_same_is_refused_and_nothing_is_changed(
    other: Any, reason: str, finished: Path
) -> None:
    swept(planned(), finished)
    before = contents(finished)
    with pytest.raises(InputError) as refused:
        swept(other(), finished)
    assert str(refused.value).startswith("a sweep is continued with the same settings and at least the same values")
    assert reason in str(refused.value)
    assert contents(finished) == before


def test_rows_of_another_version_of_the_program_are_never_mixed_in(finished: Path) -> None:
    swept(planned(), finished)
    path = finished / "sweep.toml"
    path.write_text(path.read_text().replace('program = "', 'program = "0'))
    with pytest.raises(InputError, match=r"which another version of fedspd has begun; name another with --out\."):
        swept(planned(), finished)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("thesis.txt", "Years of work", "which already holds files; name another with --out."),
        ("sweep.toml", "sweeps = true", "whose sweep.toml is not of a sweep; name another with --out."),
        ("sweep.toml", "= broken", "whose sweep.toml cannot be read; name another with --out."),
    ],
)
def test_a_folder_with_foreign_files_is_left_untouched(name: str, text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refused:
        swept(planned(), tmp_path)
    assert str(refused.value).endswith(reason)
    assert contents(tmp_path) == {name: text.encode()}


def test_a_sweep_whose_first_run_cannot_be_made_leaves_no_folder(folder: Path) -> None:
    with pytest.raises(InputError, match="participants must be between 1 and the number of clients, 10, got 11"):
        swept(planned(run__participants=11), folder)
    assert not folder.parent.exists()


def test_a_grid_with_a_value_that_cannot_be_run_may_be_corrected_in_the_same_folder(folder: Path) -> None:
    with pytest.raises(InputError, match="records must be at least local_steps = 5000, got 3256; take fewer steps"):
        swept(planned("algorithm.local_steps=1,5000"), folder)
    rows, _ = swept(planned("algorithm.local_steps=1"), folder)
    assert [row["seed"] for row in rows] == [0, 1]


def test_a_setting_that_is_both_fixed_and_varied_is_refused() -> None:
    with pytest.raises(InputError, match=r"got both --set and --grid for privacy\.epsilon; leave one out\."):
        planned(privacy__epsilon=2.0)


def test_more_runs_than_anyone_can_want_are_refused_before_their_configurations_are_made() -> None:
    many = ("privacy.epsilon=lin:1:2:10000", "algorithm.penalty=lin:1:2:10000")
    with pytest.raises(InputError, match="at most 1000000 runs, got 200000000; take fewer values or seeds"):
        planned(*many)


def test_a_number_that_is_not_finite_is_missing_and_types_are_those_of_the_columns() -> None:
    summary = run("proved", TINY).summary
    row = row_of(replace(summary, objective=nan, epsilon=inf, rounds=2.0))  # pyright: ignore[reportArgumentType]
    assert (row["objective"], row["epsilon"], row["criterion"]) == (None, None, None)
    assert all(value is None or type(value) is COLUMNS[name] for name, value in row.items())
    measured = row_of(replace(summary, convergence=Convergence(0.5, 1.0, 0.25, {})))
    assert measured["criterion"] == 0.5


def test_a_metric_that_is_no_number_of_a_run_is_refused() -> None:
    ends = {
        "accuracy": "did you mean 'test_accuracy'?",
        "guarantee": "name one of those.",
        "seed": "name one of those.",
    }
    for name, end in ends.items():
        with pytest.raises(InputError, match=f"the metric must be one of epsilon, .* got '{name}'; {re.escape(end)}$"):
            check_metric(name)
