"""A table of one's own on the command line: described, confirmed, trained on, predicted for; or refused."""

import csv
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fedspd.results import read_model
from tests.support.command import run_script

SCHEMA = """
client = "hospital"
[target]
column = "outcome"
classes = ["home", "died"]
[[columns]]
name = "age"
bounds = [0, 110]
bins = 11
[[columns]]
name = "sex"
levels = ["F", "M"]
"""


def written(path: Path, sizes: Mapping[str, int], mono: str = "", delimiter: str = ",") -> Path:
    """Hospitals of these sizes, one of which may have seen a single outcome."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(["age", "sex", "hospital", "outcome"])
        for hospital, size in sizes.items():
            for age in rng.integers(20, 90, size):
                died = age + 10 * rng.normal() > 60 and hospital != mono
                writer.writerow([age, rng.choice(["F", "M"]), hospital, "died" if died else "home"])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "t.csv", {"big": 900, "middle": 200, "tiny": 1, "mono": 100}, mono="mono")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def test_three_commands_lead_from_a_table_to_predictions_and_a_statement(folder: Path) -> None:
    described = run_script(folder, "data", "describe", "t.csv", "--target", "outcome", "--client", "hospital")
    assert described.code == 0, described.err
    (folder / "draft.toml").write_text(described.out)
    command = ("run", "--data", "t.csv", "--schema", "draft.toml", "--target", "outcome", "--client", "hospital")
    budget = ("--epsilon", "3", "--delta", "1e-6", "--test-share", "0.2")
    refused = run_script(folder, *command, *budget)
    assert refused.code == 2
    assert "got ones read from the records for age, sex, outcome" in refused.err
    assert "set confirmed = true" in refused.err
    assert not (folder / "runs").exists()
    (folder / "draft.toml").write_text(described.out.replace("confirmed = false", "confirmed = true"))
    done = run_script(folder, *command, *budget, "--out", "made")
    assert done.code == 0, done.err
    assert "The noise comes from a seed that the operating system drew and nobody kept. (3, 1e-06)-differ" in done.out
    assert "nothing else was kept of the records that were trained on. Not covered either: the 240 records" in done.out
    predicted = run_script(folder, "predict", "made", "t.csv", "--out", "predictions.csv")
    assert predicted.code == 0, predicted.err
    rows = list(csv.DictReader((folder / "predictions.csv").read_text().splitlines()))
    assert len(rows) == 1201
    assert abs(sum(float(rows[0][f"probability of {name}"]) for name in ("home", "died")) - 1) < 1e-12


def test_the_accuracy_of_a_run_is_that_of_its_predictions(folder: Path) -> None:
    written(folder / "new.csv", {"other": 500})
    command = ("run", "--data", "t.csv", "--schema", "schema.toml", "--test", "new.csv", "--out", "made", "--json")
    summary = json.loads(run_script(folder, *command).out)
    assert summary["clients"] == 4, "very unequal sizes, one record and one class alone are all trained on"
    assert (summary["records_min"], summary["records_max"]) == (1, 900)
    assert summary["test_accuracy"] > summary["majority_accuracy"] + 0.1
    run_script(folder, "predict", "made", "new.csv", "--out", "p.csv")
    with (folder / "p.csv").open() as predictions, (folder / "new.csv").open() as records:
        right = [
            one["prediction"] == other["outcome"]
            for one, other in zip(csv.DictReader(predictions), csv.DictReader(records), strict=True)
        ]
    assert np.mean(right) == pytest.approx(summary["test_accuracy"], abs=1e-12)


def test_a_run_on_own_records_keeps_no_seed_and_no_number_without_noise(folder: Path) -> None:
    done = run_script(folder, "run", "--data", "t.csv", "--schema", "schema.toml", "--out", "made", "--json")
    summary = json.loads(done.out)
    assert summary["seed"] is None
    for key in ("objective", "alfv", "consensus_error", "clipped_share", "convergence", "test_accuracy"):
        assert summary[key] is None, key
    assert "seed" not in (folder / "made" / "config.toml").read_text()
    with sqlite3.connect(folder / "made" / "ledger.sqlite") as ledger:
        runs = {run for (run,) in ledger.execute("SELECT DISTINCT run FROM charges")}
        accounts = {client for (client,) in ledger.execute("SELECT client FROM clients")}
    ledger.close()
    assert len(runs) == 1
    assert runs.pop().startswith("drawn-")
    assert accounts == {f"{name}@own hospital" for name in ("big", "middle", "tiny", "mono")}
    twice = run_script(folder, "run", "--data", "t.csv", "--schema", "schema.toml", "--out", "again")
    assert twice.code == 0
    one, other = (read_model(folder / name)["weights"] for name in ("made", "again"))
    assert not np.allclose(one, other), "the noise is another one"


def test_a_table_named_by_settings_is_treated_as_one_named_by_options(folder: Path) -> None:
    """It once got seed 0, and all that a simulator computes from records."""
    named = ("--set", "data.name=table", "--set", "data.file=t.csv", "--set", "data.schema=schema.toml")
    done = run_script(folder, "run", *named, "--set", "partition.kind=own", "--out", "made", "--json")
    summary = json.loads(done.out)
    assert (summary["seed"], summary["objective"], summary["convergence"]) == (None, None, None)
    assert not (folder / "cache" / "fedspd" / "optima").exists()


def test_what_a_file_sets_is_meant_also_beside_options(folder: Path) -> None:
    """--data once dropped the participants and the partition that a file had set, without a word."""
    (folder / "my.toml").write_text("[data]\nrow_norm = 1.0\n[run]\nparticipants = 2\nrounds = 4\n")
    done = run_script(folder, "run", "my.toml", "--data", "t.csv", "--schema", "schema.toml", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["participants"] == 2


def test_a_column_whose_name_holds_an_at_sign_cannot_pass_for_another(folder: Path) -> None:
    run_script(folder, "ledger", "create", "l.sqlite")
    text = (folder / "t.csv").read_text().replace("hospital", "a@own hospital", 1)
    (folder / "at.csv").write_text(text)
    (folder / "at.toml").write_text(SCHEMA.replace('client = "hospital"', 'client = "a@own hospital"'))
    shared = ("--ledger", "l.sqlite", "--ledger-epsilon", "9")
    first = run_script(folder, "run", "--data", "at.csv", "--schema", "at.toml", *shared)
    assert first.code == 0, first.err
    second = run_script(folder, "run", "--data", "t.csv", "--schema", "schema.toml", *shared)
    assert second.code == 2
    assert "the records must be dealt to clients as in the earlier runs on this ledger" in second.err
    again = run_script(folder, "run", "--data", "at.csv", "--schema", "at.toml", *shared)
    assert again.code == 0, "a second run fits into what may be spent in all"


def test_each_client_may_have_a_file_of_its_own_in_any_dialect(folder: Path) -> None:
    (folder / "sites").mkdir()
    for name in ("north", "south"):
        written(folder / "sites" / f"{name}.csv", {"here": 200}, delimiter=";")
    (folder / "schema.toml").write_text(SCHEMA.replace('client = "hospital"\n', ""))
    done = run_script(folder, "run", "--data", "sites/*.csv", "--schema", "schema.toml", "--out", "made", "--json")
    assert json.loads(done.out)["clients"] == 2
    with sqlite3.connect(folder / "made" / "ledger.sqlite") as ledger:
        accounts = {client for (client,) in ledger.execute("SELECT client FROM clients")}
    ledger.close()
    assert accounts == {"north@own file", "south@own file"}


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no schema": (("--data", "t.csv"), "--data t.csv needs --schema, which says what is public about the table"),
    "no data": (("--schema", "schema.toml"), "--schema needs --data; name your table with it"),
    "a share without data": (("--test-share", "0.2"), "--test-share needs --data"),
    "a data set with a client": (("--data", "digits", "--client", "x"), "--client is for a table of your own"),
    "an unknown data set": (("--data", "digit"), "got 'digit'; did you mean 'digits'?"),
    "another target": (("--data", "t.csv", "--schema", "schema.toml", "--target", "age"), "declares, 'outcome', got"),
    "dealt beside clients": (
        ("--data", "t.csv", "--schema", "schema.toml", "--clients", "5"), "got --clients 5 beside it",
    ),
    "no such file": (("--data", "nowhere.csv", "--schema", "schema.toml"), "expected a table, got 'nowhere.csv'"),
    "no match": (("--data", "no/*.csv", "--schema", "schema.toml"), "which matches none; correct the pattern"),
    "no such schema": (("--data", "t.csv", "--schema", "s.toml"), "expected a schema in TOML"),
    "a table as a schema": (("--data", "t.csv", "--schema", "t.csv"), "got 't.csv', by its name a table of records"),
    "a schema as a table": (("--data", "schema.toml", "--schema", "schema.toml"), "schema.toml"),
    "no such client": (("--data", "t.csv", "--schema", "schema.toml", "--client", "ward"), "got 'ward' 0 times"),
    "two tests": (
        ("--data", "t.csv", "--schema", "schema.toml", "--test", "u.csv", "--test-share", "0.2"), "got both; leave one",
    ),
    "measured on what is trained on": (
        ("--data", "t.csv", "--schema", "schema.toml", "--test", "./t.csv"), "data.test must hold other records",
    ),
    "all of it held out": (
        ("--data", "t.csv", "--schema", "schema.toml", "--test-share", "1"), "data.test_share must be",
    ),
    "nothing held out": (
        ("--data", "t.csv", "--schema", "schema.toml", "--test-share", "0.0001"), "must leave some records to measure",
    ),
    "a negative budget": (("--data", "t.csv", "--schema", "schema.toml", "--epsilon", "-1"), "privacy.epsilon must be"),
    "no clients": (("--data", "t.csv", "--schema", "bare.toml"), "needs a table that names the client of each record"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence_and_nothing_is_written(case: str, folder: Path) -> None:
    (folder / "bare.toml").write_text(SCHEMA.replace('client = "hospital"\n', ""))
    before = {path.name for path in folder.iterdir()}
    options, sentence = REFUSED[case]
    done = run_script(folder, "run", *options)
    assert done.code == 2, done.out + done.err
    assert done.err.startswith("fedspd: ")
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert {path.name for path in folder.iterdir()} == before


@pytest.mark.slow
def test_plan_compare_and_sweep_take_the_same_table(folder: Path) -> None:
    table = ("--data", "t.csv", "--schema", "schema.toml")
    planned = json.loads(run_script(folder, "plan", *table, "--json").out)
    assert (planned["clients"], planned["records_max"], planned["guarantee"]) == (4, 900, "proved")
    chosen = ("--epsilon", "3", "--participation", "full", "--method", "fedspd", "--seeds", "2", "--json")
    compared = run_script(folder, "compare", *table, "--test-share", "0.2", *chosen)
    assert compared.code == 0, compared.err
    rows = json.loads(compared.out)["leaderboard"]
    assert {row["data"] for row in rows} == {"t.csv"}
    assert {row["deal"] for row in rows} == {"clients of their own", "all together"}
    grid = ("--grid", "privacy.epsilon=1,8", "--seeds", "2", "--json")
    swept = run_script(folder, "sweep", *table, "--test-share", "0.2", *grid)
    assert swept.code == 0, swept.err
    assert json.loads(swept.out)["runs"] == 4
    unmeasured = run_script(folder, "compare", *table, *chosen)
    assert unmeasured.code == 2
    assert "add --test or --test-share" in unmeasured.err
