"""What lies beside a statement is held against it: settings and schema by digests, and numbers that they decide."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedspd.cli import app
from fedspd.results import read_statement, write_statement

QUICK = ("run.rounds=2", "run.seed=1", "partition.clients=10", "run.participants=10", "data.encode=declared")
LEAN = ("metrics.criterion=false", "metrics.lagrangian=false")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filed") / "run"
    settings = [part for one in (*QUICK, *LEAN) for part in ("--set", one)]
    assert CliRunner().invoke(app, ["run", *settings, "--out", str(folder), "--quiet"]).exit_code == 0
    return folder


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return shutil.copytree(original, tmp_path / "run")


def differing(run: Path) -> set[str]:
    """Where a statement differs from its ledger and from what lies beside it."""
    arguments = ["ledger", "verify", str(run / "ledger.sqlite"), "--against", str(run / "statement.json"), "--json"]
    done = CliRunner().invoke(app, arguments)
    found = {one["where"] for one in json.loads(done.output)["differences"]}
    assert done.exit_code == (2 if found else 0)
    return found


def test_what_lies_beside_an_honest_statement_agrees_with_it(run: Path) -> None:
    assert differing(run) == set()


def test_settings_that_were_changed_are_found(run: Path) -> None:
    settings = (run / "config.toml").read_text()
    (run / "config.toml").write_text(settings.replace("row_norm = 1.0", "row_norm = 2.0"))
    assert differing(run) == {"digests.configuration"}


@pytest.mark.parametrize("name", ["row_norm", "batch_size", "local_steps"])
def test_a_number_that_settings_decide_is_found_when_it_is_changed(run: Path, name: str) -> None:
    found: Any = read_statement(run)
    found["mechanism"][name] = 7
    write_statement(run, found)
    assert differing(run) == {f"mechanism.{name}"}


def test_another_model_is_found(run: Path) -> None:
    found: Any = read_statement(run)
    found["released"]["numbers"] += 1
    write_statement(run, found)
    assert differing(run) == {"released.numbers"}
    (run / "model.npz").write_text("no model")
    assert differing(run) == {"released.numbers", "digests.schema"}


def test_a_statement_that_was_sent_by_itself_is_held_against_the_ledger_alone(run: Path) -> None:
    (run / "config.toml").unlink()
    (run / "model.npz").unlink()
    assert differing(run) == set()
