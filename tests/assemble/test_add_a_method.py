"""The skeleton of docs/how-to/add-a-method.md, copied into one new file, is known everywhere."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fedspd
from fedspd import InputError
from fedspd.algorithms import METHODS, Made, Method, Public
from fedspd.assemble import extensions
from fedspd.data import KINDS
from fedspd.problem import LOSSES, Softmax
from fedspd.studies.compare import cells
from fedspd.studies.sweep import plan_sweep, run_sweep
from fedspd.target import Target
from tests.test_docs import PAGES, blocks

ROOT = Path(__file__).parents[2]
NAME = "plain-descent"
SMALL: dict[str, Any] = {
    "partition.clients": 6,
    "run.participants": 6,
    "run.rounds": 2,
    "metrics.criterion": False,
    "problem.clip_norm": 0.5,
}


def skeleton() -> str:
    """The file that the page shows."""
    return next(block.content for block in blocks(PAGES["docs/how-to/add-a-method.md"]) if block.language == "python")


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The file somewhere else, imported."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "plain_descent.py"
    path.write_text(skeleton())
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("plain_descent", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["plain_descent"] = module
    spec.loader.exec_module(module)
    yield module
    METHODS._brought.pop(NAME, None)
    del sys.modules["plain_descent"]


def changed(method: Method, **changes: Any) -> Method:
    """The method with another algorithm."""

    def make(public: Public, settings: Any) -> Made:
        made = method.make(public, settings)
        kind: Any = type("Changed", (type(made.algorithm),), changes)
        return replace(made, algorithm=kind(**vars(made.algorithm)))

    return replace(method, make=make)


def test_a_method_object_is_run_directly_by_either_engine(outside: ModuleType) -> None:
    for engine in ("numpy", "jax"):
        finished = fedspd.run(outside.METHOD, SMALL | {"run.engine": engine})
        assert (finished.summary.algorithm, finished.summary.guarantee, finished.summary.engine) == (
            NAME,
            "proved",
            engine,
        )
        assert finished.history.last("epsilon_max") <= 1.0
        assert np.abs(finished.weights).max() > 1e-4


def test_a_registered_method_is_swept_and_compared_in_other_processes_too(outside: ModuleType, tmp_path: Path) -> None:
    fedspd.register(outside.METHOD)
    sweep = plan_sweep("proved", ["algorithm.step_scale=0.5,1"], 2, 0, SMALL | {"algorithm.name": NAME})
    rows, _ = run_sweep(sweep, tmp_path / "swept", "numpy")
    assert [row["algorithm"] for row in rows] == [NAME] * 4
    assert len({row["test_loss"] for row in rows}) == 4
    (cell,) = cells((1.0,), ("iid",), ("full",), (NAME,))
    assert cell.method == "plain descent"


def test_what_is_remembered_of_runs_depends_on_the_text_of_what_users_bring(outside: ModuleType) -> None:
    from fedspd.studies.jobs import program_digest

    before = program_digest()
    fedspd.register(outside.METHOD)
    assert program_digest() != before


def test_a_name_that_is_taken_is_refused(outside: ModuleType) -> None:
    with pytest.raises(InputError, match=r"^a method needs a name of its own, got 'fedspd', which is taken; rename it"):
        fedspd.register(replace(outside.METHOD, name="fedspd"))
    with pytest.raises(InputError, match=r"^expected a fedspd Method, got 3; see docs/how-to/add-a-method.md"):
        fedspd.register(3)  # pyright: ignore[reportArgumentType]


def test_proved_is_not_taken_on_a_methods_word(outside: ModuleType) -> None:
    unnamed = replace(outside.METHOD, card=replace(outside.METHOD.card, proved=""))
    with pytest.raises(InputError, match=r"^a proved method names its proof, got 'plain-descent' without; say in card"):
        fedspd.register(unnamed)

    def half(self: Any, round: Any, batch_sizes: Any) -> Any:
        return self.objective.clip_norm / batch_sizes

    wrong = changed(outside.METHOD, sensitivity=half)
    with pytest.raises(InputError, match=r"the replay attack broke it: a record moves its query 2 times as far as"):
        fedspd.run(wrong, SMALL)


def test_state_that_depends_on_a_record_beside_the_release_is_found(outside: ModuleType) -> None:
    kept: list[Any] = []

    def query(self: Any, told: Any, client: Any, batches: Any) -> Any:
        found = outside.PlainDescent.query(self, told, client, batches)
        kept.append(found[0].value)
        return found

    def settle(self: Any, told: Any, client: Any, release: Any, _: None) -> Any:
        return outside.Seen(kept.pop(0)), release.value

    leaking = changed(outside.METHOD, query=query, settle=settle)
    with pytest.raises(InputError, match="what it keeps or sends depends on a record beside the release"):
        fedspd.run(leaking, SMALL)


def test_a_loss_and_a_partition_of_ones_own_are_known_by_their_names() -> None:
    def alternate(table: Any, clients: int, rng: np.random.Generator) -> Any:
        return np.arange(len(table)) % clients

    def my_softmax(target: Target) -> Softmax:
        return Softmax(len(target.classes))

    fedspd.register_loss("my-softmax", my_softmax)
    fedspd.register_partition("alternate", alternate)
    try:
        finished = fedspd.run("proved", SMALL | {"problem.loss": "my-softmax", "partition.kind": "alternate"})
        assert finished.config.partition.kind == "alternate"
        with pytest.raises(InputError, match=r"^a loss needs a name of its own, got 'softmax', which is taken; rename"):
            fedspd.register_loss("softmax", my_softmax)
    finally:
        del LOSSES["my-softmax"], KINDS["alternate"]
        del extensions._LOSSES["my-softmax"], extensions._PARTITIONS["alternate"]


def in_a_process(source: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | {"PYTHONPATH": str(source)}, capture_output=True, text=True,
        timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_package_brings_a_method_by_an_entry_point(tmp_path: Path) -> None:
    (tmp_path / "plain_descent.py").write_text(skeleton())
    information = tmp_path / "other-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[fedspd.methods]\n{NAME} = plain_descent:METHOD\n")
    told = in_a_process(tmp_path, "-c", "from fedspd.cli import app; app()", "methods", NAME, "--json")
    assert json.loads(told)["title"] == "plain descent"
    out = tmp_path / "run"
    changes = [part for key, value in SMALL.items() for part in ("--set", f"{key}={str(value).lower()}")]
    program = ("-c", "from fedspd.cli import app; app()")
    in_a_process(tmp_path, *program, "run", "--set", f"algorithm.name={NAME}", *changes, "--out", str(out), "--quiet")
    assert json.loads((out / "summary.json").read_text())["algorithm"] == NAME


@pytest.mark.slow
def test_a_file_in_the_package_is_listed_run_and_held_to_the_contract(tmp_path: Path) -> None:
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src" / "fedspd", source / "fedspd", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "fedspd" / "algorithms" / "methods" / "plain_descent.py").write_text(skeleton())
    listed = in_a_process(source, "-c", "from fedspd.cli import app; app()", "methods", "--json")
    assert NAME in [method["name"] for method in json.loads(listed)["methods"]]
    told = in_a_process(
        source, "-m", "pytest", "tests/algorithms", "-k", NAME, "-n", "0", "-p", "no:cacheprovider", "-vv"
    )
    assert told.count("PASSED") >= 20
    assert "test_a_proved_method_of_whole_shards_survives_the_replay_on_random_neighbors" in told
