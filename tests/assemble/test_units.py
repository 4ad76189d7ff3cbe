"""Runs that protect persons: what they count, what they refuse, and what their ledger keeps to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedspd
from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment
from fedspd.assemble.agreement import agree
from fedspd.assemble.agreement.planning import plan_of
from fedspd.config import load
from fedspd.data import SOURCES, Holdings
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.report import privacy_statement
from fedspd.target import Classes

VISITS: dict[str, Any] = {
    "data.name": "visits", "partition.kind": "own", "problem.counts": "records", "run.participants": None,
    "run.rounds": 5, "run.seed": 1, "metrics.criterion": False,
}  # fmt: skip
PERSONS = VISITS | {"privacy.unit": "person"}


def test_a_run_by_persons_counts_persons_and_never_tells_rows() -> None:
    summary = fedspd.run("proved", PERSONS).summary
    assert (summary.unit, summary.records, summary.records_min, summary.records_max) == ("person", 4730, 598, 999)
    told = {str(value) for value in summary.to_dict().values()}
    cells = SOURCES["visits"].read(SOURCES["visits"].settings())
    rows = np.bincount(cells.train.attributes["client"].codes)
    assert not told & {str(count) for count in (16185, *rows.tolist())}


def test_the_plan_says_which_unit_and_chooses_by_persons() -> None:
    cells = SOURCES["visits"].read(SOURCES["visits"].settings())
    by_record, by_person = (plan_of(load("proved", each), cells) for each in (VISITS, PERSONS))
    assert (by_record["unit"], by_person["unit"]) == ("record", "person")
    assert (by_record["records_max"], by_person["records_max"]) == (3528, 999)
    assert by_person["noise_multiplier"] == by_record["noise_multiplier"], "the same event, of persons"


def test_the_statement_says_that_all_records_of_a_person_are_protected() -> None:
    run = fedspd.run("proved", PERSONS)
    assert "unit: all records of one person at a client" in privacy_statement(run.summary)


@pytest.mark.parametrize("trust", ["each-upload", "secure-sums"])
def test_persons_run_under_every_trust_and_with_local_steps(trust: str) -> None:
    steps = {"algorithm.local_steps": 3} if trust == "each-upload" else {"privacy.trust": trust}
    assert fedspd.run("proved", PERSONS | steps).summary.unit == "person"


def test_batches_are_drawn_by_person() -> None:
    experiment = prepare_experiment(load("proved", PERSONS | {"algorithm.batch_size": 100, "algorithm.local_steps": 2}))
    assert isinstance(experiment.plan, ProvedPlan)
    event: Any = experiment.plan.groups[0].event
    assert (event.records, event.drawn) == (598, 200)
    assert fedspd.run("proved", PERSONS | {"algorithm.batch_size": 100, "algorithm.sampling": "poisson"}).summary.unit


REFUSED = [
    name for name, method in METHODS.items()
    if method.guarantee == "proved" and (method.kind.exact or name == "dp-ftrl")
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_methods_whose_proof_speaks_of_single_records_are_refused_by_name(name: str) -> None:
    smooth = {"problem.regularizer": "squared-l2"} if METHODS[name].needs.smooth else {}
    adult = {"partition.clients": 5, "run.participants": 5, "algorithm.name": name, "privacy.unit": "person"}
    config = load("proved", {**smooth, **adult})
    with pytest.raises(InputError, match=rf"privacy.unit must be record with {name}, which "):
        agree(config, Holdings(np.full(5, 6000)), 104, Classes("income", ("no", "yes")))


def test_a_table_that_names_nobody_cannot_protect_persons() -> None:
    with pytest.raises(InputError, match=r"privacy\.unit = person needs a table that says whom each record is about"):
        fedspd.run("proved", {"privacy.unit": "person", "run.rounds": 2})


def test_a_method_as_published_has_no_unit_to_choose() -> None:
    with pytest.raises(InputError, match=r"privacy.unit .*needs a method whose guarantee is proved"):
        fedspd.run("published", {"privacy.unit": "person"})


@pytest.mark.parametrize(("first", "second"), [("person", "record"), ("record", "person")])
@pytest.mark.parametrize("clients", ["own", "dealt"])
def test_a_ledger_of_persons_refuses_a_run_by_records_and_the_other_way_round(
    first: str, second: str, clients: str, tmp_path: Path
) -> None:
    deal: dict[str, Any] = {} if clients == "own" else {
        "partition.kind": "iid", "partition.clients": 6, "partition.seed": 4,
    }  # fmt: skip
    create_ledger(tmp_path / "ledger.sqlite")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        fedspd.run("proved", VISITS | deal | {"privacy.unit": first}, ledger=ledger)
        before = len(list(ledger.charges()))
        with pytest.raises(InputError, match=f"is of every {first}, got a run that protects every {second}"):
            fedspd.run("proved", VISITS | deal | {"privacy.unit": second, "run.seed": 2}, ledger=ledger)
        assert len(list(ledger.charges())) == before


def test_a_ledger_remembers_its_unit(tmp_path: Path) -> None:
    create_ledger(tmp_path / "ledger.sqlite")
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        fedspd.run("proved", PERSONS, ledger=ledger)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert {account.terms.budget.unit for account in ledger.accounts.values()} == {"person"}
