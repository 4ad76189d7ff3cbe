"""Persons between real sites: number for number the simulated run, and nobody learns how many rows a site has."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.assemble import agree
from fedspd.data import Shards, Table, finish, read_table
from fedspd.data.holding.units import MOST_ROWS, Units
from fedspd.deploy.protocol.messages import VERSION, Enter, Hello, Present, Refused
from fedspd.deploy.setup.check import check_site
from fedspd.engine import Simulation, simulate
from fedspd.errors import InputError
from tests.deploy.test_equal import LITTLE_NOISE, PENALTY, ROUNDS, STEP, sites_draws
from tests.support.deploy.sites import Federation, federation
from tests.support.deploy.twists import standing

SITES = 3
PERSONS: dict[str, Any] = {"privacy__unit": "person"}


def about_persons(made: Federation, rows: int = 3) -> Federation:
    """Give every record a person, in no order: so many rows each, on average."""
    for path in made.sites:
        header, *lines = (path.parent / "records.csv").read_text().splitlines()
        who = np.random.default_rng(5).integers(0, max(1, len(lines) // rows), len(lines))
        text = "\n".join([f"{header},who", *(f"{line},p{one}" for line, one in zip(lines, who, strict=True))])
        (path.parent / "records.csv").write_text(text + "\n")
    for schema in (made.folder / "schema.toml", *(path.parent / "schema.toml" for path in made.sites)):
        schema.write_text('person = "who"\n' + schema.read_text())
    return made


def persons(made: Federation, place: int) -> int:
    lines = (made.sites[place].parent / "records.csv").read_text().splitlines()[1:]
    return len({line.rpartition(",")[2] for line in lines})


def simulated(made: Federation) -> np.ndarray:
    """The same run by the engine, on the sites' own tables and with the sites' own draws."""
    config, schema = made.settings.for_sites(SITES), made.schema
    tables = [read_table(path.parent / "records.csv", schema, "person") for path in made.sites]
    rows, norm = np.concatenate([table.features for table in tables]), config.data.row_norm
    assert norm is not None
    width = len(schema.columns)
    features = finish(rows, np.zeros(width), np.ones(width), config.data.bias, norm)
    labels = np.concatenate([table.labels for table in tables])
    offsets = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
    who = np.concatenate([table.persons.codes for table in tables if table.persons is not None])
    units = Units.of(np.repeat(np.arange(SITES), np.diff(offsets)), who, SITES)
    shards = Shards(features, labels, offsets, None, config.problem.counts, units)  # pyright: ignore
    agreed = agree(config, shards.holdings, features.shape[1], schema.target)
    simulation = Simulation(
        shards, Table(features, labels, (*schema.columns, "bias"), schema.target.classes), agreed.algorithm,
        agreed.plan, config.algorithm.work.batch_size, config.participants, agreed.rounds, config.seed,
        lagrangian=False,
    )  # fmt: skip
    return simulate(simulation, drawn=lambda round, chosen: sites_draws(simulation, round, chosen)).weights


RUNS: dict[str, dict[str, Any]] = {
    "whole shards": {},
    "several steps in batches": {"algorithm__local_steps": 2, "algorithm__batch_size": 5},
}


@pytest.mark.parametrize("what", RUNS)
def test_a_deployed_run_by_persons_is_the_simulated_one(what: str, tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"federation__fixed_draws": True, "run__rounds": ROUNDS, "run__seed": 3}
    run: dict[str, Any] = {**LITTLE_NOISE, **fixed, **STEP, **PENALTY, **PERSONS, **RUNS[what]}
    made = about_persons(federation(tmp_path, SITES, 61, protected=False, **run))
    model = made.serve()
    expected = simulated(made)
    assert np.abs(expected).max() > 1e-3, "it moved"
    np.testing.assert_allclose(standing(model), expected, rtol=1e-9, atol=1e-9)
    assert made.run is not None
    assert (made.run.summary.unit, made.run.summary.records) == ("person", sum(persons(made, n) for n in range(SITES)))


def test_a_protected_run_by_persons_tells_and_counts_persons_only(tmp_path: Path) -> None:
    site = {"budget.unit": "person", "policy.min_batch": 5}
    scaled = {"data__scaling": "noisy-moments", "privacy__epsilon": 1.0}
    made = about_persons(federation(tmp_path, SITES, 120, site, **(PERSONS | scaled)))
    made.serve()
    told = "\n".join(made.said)
    for place in range(SITES):
        assert f"site-{place} is there with {persons(made, place)} persons" in told
        assert str(made.records(place)) not in told
        assert made.charges(place) == 4, "moments and three rounds"
    assert made.run is not None
    assert made.run.summary.unit == "person"
    assert any(f"{persons(made, 0)} persons; every run tells" in one.told for one in check_site(made.sites[0]))


@pytest.mark.parametrize(("own", "asked"), [("person", "record"), ("record", "person")])
def test_a_site_counts_nothing_but_what_its_owner_protects(own: str, asked: str, tmp_path: Path) -> None:
    made = about_persons(federation(tmp_path, 1, 120, {"budget.unit": own, "policy.min_batch": 5}))
    answer = made.tell(0, Hello(VERSION, "nonce", asked))
    assert isinstance(answer, Refused)
    assert answer.reason == f"the budget here is of every {own}, the run protects every {asked}."
    entered = made.tell(0, Enter(made.terms(privacy__unit=asked).text))
    assert isinstance(entered, Refused)
    assert "the budget here is of every" in entered.reason
    assert made.charges(0) == 0
    assert isinstance(made.tell(0, Hello(VERSION, "nonce", own)), Present)


def test_a_schema_that_names_nobody_cannot_protect_persons(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 120, {"budget.unit": "person"})
    answer = made.tell(0, Hello(VERSION, "nonce", "person"))
    assert isinstance(answer, Refused)
    assert "names no column that says whom a record is about" in answer.reason
    with pytest.raises(InputError, match="to protect persons, the schema must name the column"):
        read_table(made.sites[0].parent / "records.csv", made.schema, "person")


def test_a_unit_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path, 1, 120)
    answer = made.tell(0, Hello(VERSION, "nonce", "family"))
    assert isinstance(answer, Refused)
    assert "must be one of record, person" in answer.reason


def test_of_a_person_with_very_many_rows_the_first_are_kept(tmp_path: Path) -> None:
    """Bounds on rounding count on no more; which ones depends on that person alone."""
    made = about_persons(federation(tmp_path, 1, MOST_ROWS + 50), rows=MOST_ROWS + 50)
    table = read_table(made.sites[0].parent / "records.csv", made.schema, "person")
    whole = read_table(made.sites[0].parent / "records.csv", made.schema)
    assert len(table) == MOST_ROWS
    np.testing.assert_array_equal(table.features, whole.features[:MOST_ROWS])
