"""Runs on a data frame: under a schema, with clients of its own, and draws that nobody keeps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fedspd
from fedspd import InputError
from fedspd.data import Categorical, Numeric, Schema, schema_text
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.report import privacy_statement
from fedspd.target import Classes, Count, Number
from tests.support.estimators import records

TABLE, LABELS, CLIENTS = records()
FRAME = TABLE.assign(state=LABELS, hospital=CLIENTS, note="anything")
SCHEMA = Schema(
    (Numeric("age", 20, 80, 50), Numeric("dose", 0, 1, 0), Categorical("blood", ("A", "B", "AB", "O"))),
    Classes("state", ("ill", "well")),
)
FAST: dict[str, Any] = {"run.rounds": 5, "privacy.epsilon": 20.0}


def test_a_frame_runs_with_its_own_clients_and_says_that_nothing_else_was_kept() -> None:
    run = fedspd.run(FRAME, FAST, schema=SCHEMA, client="hospital")
    assert run.summary.clients == run.summary.participants == 4
    assert run.recipe.schema.client == "hospital"
    assert run.config.data.name == "memory"
    statement = privacy_statement(run.summary)
    assert statement.startswith("The noise comes from a seed that the operating system drew and nobody kept.")
    assert statement.endswith("nothing else was kept of the records that were trained on.")
    assert np.isnan(run.history["clipped_share"]).all()


def test_what_is_measured_without_noise_is_said_where_somebody_asks_for_it() -> None:
    asked = FAST | {"metrics.objective_every": 1}
    run = fedspd.run(FRAME, asked, schema=SCHEMA, client="hospital")
    assert privacy_statement(run.summary).endswith("not covered, and without noise: the objective.")


def test_every_library_and_a_file_with_the_schema_give_the_same_run(tmp_path: Path) -> None:
    seeded = FAST | {"run.seed": 3}
    usual = fedspd.run(FRAME, seeded, schema=SCHEMA, client="hospital")
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(replace(SCHEMA, client="hospital")))
    other = fedspd.run(pl.from_pandas(FRAME), seeded, schema=path)
    assert np.array_equal(usual.weights, other.weights)


def test_records_without_clients_are_dealt_where_a_number_is_set() -> None:
    run = fedspd.run(FRAME, FAST | {"partition.clients": 8}, schema=SCHEMA)
    assert run.summary.clients == 8
    with pytest.raises(InputError, match="neither a column that names it nor a number of clients; name the column"):
        fedspd.run(FRAME, FAST, schema=SCHEMA)


@pytest.mark.parametrize("target", [Number("dose", 0, 1), Count("visits", 40)])
def test_numbers_and_counts_are_targets_too(target: Number | Count) -> None:
    schema = Schema(SCHEMA.inputs[:1], target)
    declared = FAST | {"data.encode": "declared"}
    run = fedspd.run(FRAME.assign(visits=3), declared, schema=schema, client="hospital")
    assert run.weights.shape == (2, 1)


def test_a_ledger_holds_what_clients_may_spend_in_all(tmp_path: Path) -> None:
    create_ledger(path := tmp_path / "ledger.sqlite")
    with Ledger(path) as ledger:
        for _ in range(2):
            run = fedspd.run(FRAME, FAST, ledger=ledger, schema=SCHEMA, client="hospital", ledger_epsilon=60.0)
            assert run.summary.stopped is None
        assert set(ledger.accounts) == {f"{name}@own hospital" for name in ("north", "south", "east", "west")}
        assert {account.terms.budget.epsilon for account in ledger.accounts.values()} == {60.0}
        with pytest.raises(InputError, match="as first declared"):
            fedspd.run(FRAME, FAST, ledger=ledger, schema=SCHEMA, client="hospital", ledger_epsilon=90.0)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no schema": (FRAME, {}, "a data frame needs a schema, .*, got none; pass schema="),
    "no frame": ([1, 2], {"schema": SCHEMA}, "expected a data frame of pandas, polars or Arrow, .*, got list"),
    "no column": (TABLE, {"schema": SCHEMA, "client": "hospital"}, "must have the declared column 'state', got age"),
    "two clients": (FRAME, {"schema": replace(SCHEMA, client="ward"), "client": "hospital"}, "'ward', got 'hospital'"),
    "another class": (FRAME.assign(state="dead"), {"schema": SCHEMA, "client": "hospital"}, "row 0.*got something"),
    "a schema of a preset": ("proved", {"schema": SCHEMA}, "belong to a data frame, got one with something else"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "more", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_run_is_refused_with_a_remedy(source: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        fedspd.run(source, FAST, **more)


def test_a_configuration_alone_does_not_bring_records_of_a_program() -> None:
    with pytest.raises(InputError, match=r"got a configuration alone; hand a data frame to fedspd.run"):
        fedspd.run("proved", {"data.name": "memory"})


def test_a_notebook_shows_the_statement_before_the_figure_and_the_numbers() -> None:
    shown = fedspd.run(FRAME, FAST, schema=SCHEMA, client="hospital")._repr_html_()
    order = [shown.index(part) for part in ("differential privacy, proved", "data:image/png;base64,", "<table")]
    assert order == sorted(order)
    bare = {"algorithm.name": "fedavg", "algorithm.inverse_step": 1.0, "run.rounds": 2}
    assert "<img" not in fedspd.run(FRAME, bare, schema=SCHEMA, client="hospital")._repr_html_()
