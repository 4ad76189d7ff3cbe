"""A statement never leaves out what was charged after it was made."""

import json
import re
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import pytest

from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.setup.keys import write_private_key
from fedspd.errors import InputError
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger
from fedspd.report.numbers import at_most
from fedspd.report.of_runs.runs import runs_page
from fedspd.results import read_run, read_statement
from fedspd.statement import against
from tests.statement.test_command import command

SMALL = (
    "--data", "diamonds", "--clients", "3", "--set", "evaluation.held_out=0.2", "--set", "run.rounds=2",
    "--set", "partition.seed=1", "--set", "metrics.criterion=false", "--set", "metrics.lagrangian=false", "--quiet",
    "--ledger-epsilon", "8",
)  # fmt: skip
LATER: dict[str, tuple[str, ...]] = {
    "evaluate": ("evaluate",),
    "infer": ("infer", "--columns", "carat"),  # of so many columns that noise does not surely drown them
    "select": ("select",),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on one ledger, whose models are measured later."""
    home = tmp_path_factory.mktemp("home")
    command("ledger", "create", home / "shared.db")
    for seed, name in enumerate(("one", "two")):
        command(
            "run", *SMALL, "--set", f"run.seed={seed}", "--ledger", home / "shared.db", "--out", home / name
        )  # fmt: skip
    return home


@pytest.fixture
def runs(home: Path, tmp_path: Path) -> Path:
    return copytree(home, tmp_path / "runs")


def charged(runs: Path, name: str = "one") -> float:
    """What the run cost by itself, as the ledger has it."""
    run = read_statement(runs / name)["ledger"]["run"]
    with Ledger(runs / "shared.db") as ledger:
        client = ledger.charges()[0].client
        history = {c.event: 0 for c in ledger.charges()}
        for one in ledger.charges():
            history[one.event] += one.times * ((one.client, one.run) == (client, run))
    return spent({event: times for event, times in history.items() if times}, 1e-5).epsilon


def test_measurements_after_a_statement_are_in_it_without_naming_the_ledger(runs: Path) -> None:
    run, ledger = runs / "one", runs / "shared.db"
    command("evaluate", run, "--ledger", ledger)
    command("statement", run, "--ledger", ledger)
    for _ in range(2):
        command("evaluate", run, "--ledger", ledger, "--again")
    told, cost = command("statement", run), charged(runs)
    assert "| counts of held-out records, with noise | 3 times by each client" in told
    assert re.search(
        r"Measured 3 times on \d+ held-out records, by counts with noise: epsilon [\d.]+ each, charged", told
    )
    assert "counts of held-out records, with noise, 3 times, all part of one epsilon." in command(
        "statement", run, "--registry"
    )
    assert cost > 1.05, "more than was planned"
    assert f"({at_most(cost)}, 1e-05)-differential privacy, proved" in told
    assert "Agrees: " in command("ledger", "verify", ledger, "--against", run / "statement.json")
    (privacy,) = runs_page({"run": read_run(run)}).privacy
    assert f"With what was released after the run: ({at_most(cost)}, 1e-05)." in privacy


def test_a_step_and_a_choice_after_a_statement_are_in_it_without_naming_the_ledger(runs: Path) -> None:
    ledger, both = runs / "shared.db", (runs / "one", runs / "two")
    for run in both:
        command("statement", run, "--ledger", ledger)
    for _ in range(3):
        command(*LATER["infer"], both[0], "--ledger", ledger, "--again")
    told = command("statement", both[0])
    assert "| sums over held-out records, for coefficients, with noise | 3 times by each client" in told
    assert f"({at_most(charged(runs))}, 1e-05)-differential privacy, proved" in told
    assert re.search(
        r"Evaluation \(charged\): Coefficients were estimated 3 times from \d+ held-out records, by sums", told
    )
    command("select", *both, "--ledger", ledger)
    for run in both:
        assert "Tuning (charged): This run was one of 2" in command("statement", run)
        assert "Agrees: " in command("ledger", "verify", ledger, "--against", run / "statement.json")


@pytest.mark.parametrize("kind", LATER)
def test_a_statement_that_leaves_out_a_later_release_is_refused_and_the_ledger_contradicts_it(
    kind: str, runs: Path
) -> None:
    run, ledger = runs / "one", runs / "shared.db"
    copyfile(run / "statement.json", runs / "before.json")
    command(*LATER[kind], run, *([runs / "two"] if kind == "select" else []), "--ledger", ledger)
    copyfile(runs / "before.json", run / "statement.json")
    for how in ("statement", "card"):
        with pytest.raises(InputError, match=r"got one without 1 of 1 .*--ledger LEDGER"):
            command(how, run)
    (warned,) = (one for one in runs_page({"run": read_run(run)}).sections[0].text if one.startswith("Outdated"))
    assert "leaves out 1 of 1" in warned
    with Ledger(ledger) as opened:
        found = {one.where for one in against(read_statement(run), opened).differences}
    assert found == {"ledger.charges_after_the_statement"}
    command("statement", run, "--ledger", ledger)
    command("statement", run)


def test_a_signed_statement_stays_and_its_readers_are_told_that_it_is_outdated(
    runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run, ledger, key = runs / "one", runs / "shared.db", runs / "site.key"
    write_private_key(key)
    command("statement", run, "--ledger", ledger, "--sign", key)
    filed = (run / "statement.json").read_bytes()
    command("select", runs / "two", run, "--ledger", ledger)
    told = command("evaluate", run, "--ledger", ledger)
    assert (run / "statement.json").read_bytes() == filed
    line = read_identity(key).public.line
    pages = (told, command("statement", run), command("statement", run, "--html"), command("card", run))
    for page in (*pages, command("statement", run, "--verify", line)):
        assert "Outdated: this statement leaves out 1 of 1 measurements" in " ".join(page.split())
    assert json.loads((run / "statement.json").read_text()) == read_statement(run)
    for option in (("--sign", key), ("--registry",)):
        with pytest.raises(InputError, match=rf"{option[0]} needs a statement of all releases.*statement\.sig first"):
            command("statement", run, *option)


@pytest.mark.parametrize("kind", LATER)
def test_the_head_is_copied_after_every_later_release(kind: str, runs: Path) -> None:
    run, ledger, heads, kept = runs / "one", runs / "shared.db", runs / "heads", runs / "kept"
    folders = [run, *([runs / "two"] if kind == "select" else [])]
    command(*LATER[kind], *folders, "--ledger", ledger, "--head-file", heads, "--head-command", f"tee {kept}")
    head = read_statement(run)["ledger"]["head"]
    assert [json.loads(line)["head"] for line in heads.read_text().splitlines()] == [head]
    assert kept.read_text() == heads.read_text()
    assert "Intact" in command("ledger", "verify", ledger, "--head", head)


def test_a_choice_that_another_folder_keeps_is_told_of_a_signed_statement(runs: Path) -> None:
    write_private_key(runs / "site.key")
    command("statement", runs / "two", "--ledger", runs / "shared.db", "--sign", runs / "site.key")
    told: Any = command("select", runs / "one", runs / "two", "--ledger", runs / "shared.db")
    assert "leaves out 1 of 1 choices between runs" in " ".join(told.split())
