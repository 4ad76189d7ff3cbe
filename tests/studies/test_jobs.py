"""Many runs: each once, in order, remembered bit for bit, and forgotten when the program changes."""

import json
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from fedspd import InputError, run
from fedspd.config import parse
from fedspd.problem.fast import library
from fedspd.results import from_dict, to_json
from fedspd.studies.jobs import Result, run_all, run_key, run_possible
from tests.config.test_config import configurations
from tests.studies.made import once, tiny

FIRST, OTHER_SEED, OTHER_SETTING = tiny(), tiny(run__seed=1), tiny(run__participants=4)
ASKED = [OTHER_SETTING, FIRST, OTHER_SEED, tiny()]


@pytest.fixture
def filled(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A cache in which three runs are already, and a file that another process has half written."""

    def make(folder: Path) -> None:
        environment, os.environ["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"], str(folder)
        runs = folder / "fedspd" / "runs"
        runs.mkdir(parents=True)
        (runs / f"{run_key(FIRST)}.99999.tmp").write_bytes(b"PK\x03\x04 half of a run")
        (runs / "foreign").write_text("somebody else's")
        calls: list[None] = []
        try:
            seen(run_all(ASKED, lambda: calls.append(None)), folder / "seen.json")
        finally:
            os.environ["XDG_CACHE_HOME"] = environment
        (folder / "calls").write_text(str(len(calls)))

    made = once(tmp_path_factory, "filled-cache", make)
    shutil.copytree(made, cache.parent.parent)
    return cache


def seen(results: list[Result], path: Path) -> None:
    """Everything that came back, every bit of it."""
    path.write_text(json.dumps([bits(result) for result in results]))


def bits(result: Result) -> dict[str, Any]:
    columns = result.history.columns
    return {
        "summary": result.summary.to_dict(),
        "history": {name: [values.dtype.str, values.tobytes().hex()] for name, values in sorted(columns.items())},
    }


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_results_come_in_the_order_asked_for_and_equal_configurations_are_run_once(filled: Path) -> None:
    first = json.loads((filled.parent.parent / "seen.json").read_text())
    asked = [(result["summary"]["seed"], result["summary"]["participants"]) for result in first]
    assert asked == [(0, 4), (0, 5), (1, 5), (0, 5)]
    assert first[1] == first[3], "their wall times differ if the second one was run too"
    assert len(list(filled.glob("*.npz"))) == 3
    assert (filled.parent.parent / "calls").read_text() == "4", "the bar ends where it should"


def test_a_run_among_many_is_bit_for_bit_the_run_alone(filled: Path) -> None:
    alone = run(OTHER_SEED)
    (among,) = run_all([OTHER_SEED])
    kept = Result(from_dict(json.loads(to_json(alone.summary.to_dict()))), alone.history)
    first, second = bits(among), bits(kept)
    assert first["summary"].pop("wall_seconds") != second["summary"].pop("wall_seconds")
    assert first == second


def test_a_second_call_reads_the_same_bits_and_writes_nothing(filled: Path) -> None:
    before, calls = stamps(filled), []
    again = run_all([FIRST, OTHER_SEED, OTHER_SETTING], lambda: calls.append(None))
    assert stamps(filled) == before
    assert len(calls) == 3
    first = json.loads((filled.parent.parent / "seen.json").read_text())
    assert [bits(result) for result in again] == [first[1], first[2], first[0]]


def test_a_run_that_cannot_be_does_not_take_the_others_with_it(filled: Path) -> None:
    """A leaderboard of thousands of runs once ended at one whose deal had a client too large for its method."""
    impossible = tiny(run__participants=10**6)
    good, bad = run_possible([FIRST, impossible])
    assert isinstance(good, Result)
    assert isinstance(bad, InputError)
    with pytest.raises(InputError, match="participants must be between"):
        run_all([impossible])


def test_what_another_process_left_half_written_is_harmless_and_stays(filled: Path) -> None:
    (filled / f"{run_key(FIRST)}.npz").unlink()
    (result,) = run_all([FIRST])
    assert result.summary["seed"] == 0
    assert (filled / f"{run_key(FIRST)}.99999.tmp").read_bytes() == b"PK\x03\x04 half of a run"
    assert (filled / "foreign").read_text() == "somebody else's"
    assert len(list(filled.iterdir())) == 5, "nothing half written is left"


def test_a_damaged_result_is_made_anew(filled: Path) -> None:
    """After a power failure a file may be shorter than what was written."""
    path = filled / f"{run_key(FIRST)}.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (result,) = run_all([FIRST])
    first = json.loads((filled.parent.parent / "seen.json").read_text())[1]
    assert bits(result)["history"] == first["history"]


@given(first=configurations(), second=configurations())
@settings(deadline=None, max_examples=60)
def test_two_configurations_have_one_key_exactly_if_they_are_equal(first: dict, second: dict) -> None:
    one, two = parse(first), parse(second)
    assert (run_key(one) == run_key(two)) == (one == two)
    assert run_key(one) == run_key(parse(one.to_dict()))


@pytest.mark.parametrize("change", [{"run__seed": 7}, {"privacy__epsilon": 1.0000001}, {"data__split": "validation"}])
def test_another_seed_or_setting_is_another_key(change: dict[str, Any]) -> None:
    assert run_key(tiny(**change)) != run_key(tiny())


CHANGES_EVERY_FILE = """
import json, sys
from pathlib import Path

import fedspd
from fedspd.config import load

small = {"partition.clients": 10, "run.participants": 5, "run.rounds": 1, "metrics.criterion": False}
for preset in ("proved", "published"):
    fedspd.run(preset, small)
root = Path(fedspd.__file__).parent
used = {Path(m.__file__) for n, m in sys.modules.items() if n.split(".")[0] == "fedspd" and m.__file__}
from fedspd.studies import jobs

def key():
    jobs._package_digest.cache_clear()
    return jobs.run_key(load("proved"))

before, same = key(), []
for file in sorted(used | {root / "data" / "adult.xz"}):
    content = file.read_bytes()
    file.write_bytes(content + b"\\n")
    if key() == before:
        same.append(str(file.relative_to(root)))
    file.write_bytes(content)
assert key() == before
print(json.dumps({"root": str(root), "used": len(used), "same": same}))
"""


def test_a_change_of_any_file_that_a_run_uses_is_another_key(tmp_path: Path) -> None:
    """All but the exception for wrong input and the package's own list of names, which have no numbers in them."""
    shutil.copytree(str(files("fedspd")), tmp_path / "fedspd", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", CHANGES_EVERY_FILE], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["root"] == str(tmp_path / "fedspd")
    assert found["used"] > 40
    assert set(found["same"]) <= {"__init__.py", "errors.py"}


def test_runs_with_and_without_kernels_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, key = library() is not None, run_key(FIRST)
    monkeypatch.setenv("FEDSPD_KERNELS", "off")
    library.cache_clear()
    try:
        assert (run_key(FIRST) != key) == compiled
    finally:
        library.cache_clear()


def test_what_a_run_refuses_is_refused_by_all_together_in_the_same_words(cache: Path) -> None:
    wrong = tiny(algorithm__local_steps=5000)
    with pytest.raises(InputError) as alone:
        run(wrong)
    with pytest.raises(InputError) as among:
        run_all([tiny(), wrong])
    refusal = "records must be at least local_steps = 5000, got 3256; take fewer steps."
    assert str(among.value) == str(alone.value) == refusal
    assert not list(cache.parent.rglob("*.tmp"))


def test_nothing_to_run_is_nothing_run(cache: Path) -> None:
    assert run_all([]) == []
    assert not cache.exists()


def test_results_that_are_not_finite_come_back_as_they_were(cache: Path) -> None:
    """Evaluated every other round only, so that the objective has gaps, which are no numbers."""
    config = tiny(metrics__objective_every=2, run__rounds=3, metrics__spent_every_round=False)
    fresh, again = run_all([config]), run_all([config])
    assert np.isnan(fresh[0].history["objective"]).tolist() == [False, True, False]
    assert bits(fresh[0]) == bits(again[0])
