"""Whom a record is about: a person's records are never cut over clients, nor between training and test."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.data import KINDS, SOURCES, Category, Schema, Table, hold_out, read_schema, schema_text, split
from fedspd.data.own import TableSettings, read_own
from fedspd.data.schema import text_schema
from fedspd.errors import InputError

SCHEMA = """
client = "ward"
person = "patient"
[target]
column = "ill"
classes = ["no", "yes"]
[[columns]]
name = "age"
bounds = [0, 100]
"""


def about(persons: np.ndarray, seed: int = 0) -> Table:
    """Records about persons, with two attributes."""
    rng, rows = np.random.default_rng(seed), len(persons)
    names = tuple(f"p{number}" for number in range(int(persons.max()) + 1))
    kinds = {"color": Category(rng.integers(0, 3, rows), ("red", "green", "blue"))}
    features = np.arange(float(rows))[:, None]
    labels = rng.integers(0, 2, rows)
    return Table(features, labels, ("row",), ("a", "b"), kinds, persons=Category(persons, names))


OPTIONS = {
    "dirichlet": {"alpha": 1.0, "at_least": 1},
    "label-shards": {},
    "by-column": {"column": "color"},
    "power-law": {"exponent": 0.5},
    "iid": {},
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "own"])
@given(rows=st.integers(60, 200), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_no_deal_cuts_a_person_in_two(kind: str, rows: int, seed: int) -> None:
    table = about(np.random.default_rng(seed).integers(0, 25, rows), seed)
    shards = split(table, kind, 4, np.random.default_rng(seed), **OPTIONS[kind])
    assert table.persons is not None
    assert shards.order is not None
    owners = np.repeat(np.arange(4), np.diff(shards.offsets))
    persons = table.persons.codes[shards.order]
    assert all(len(np.unique(owners[persons == person])) == 1 for person in np.unique(persons))


def test_persons_not_records_are_dealt_evenly() -> None:
    table = about(np.array([0] * 50 + [*range(1, 20)]))
    shards = split(table, "iid", 4, np.random.default_rng(0))
    assert table.persons is not None
    assert shards.order is not None
    found = np.split(table.persons.codes[shards.order], shards.offsets[1:-1])
    assert [len(np.unique(own)) for own in found] == [5, 5, 5, 5]


def test_a_deal_is_the_same_to_the_bit_where_everybody_has_one_record() -> None:
    table = about(np.arange(100))
    alone = replace(table, persons=None)
    for kind, options in OPTIONS.items():
        one, other = (split(each, kind, 4, np.random.default_rng(3), **options) for each in (table, alone))
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_array_equal(one.offsets, other.offsets)


@given(rows=st.integers(20, 200), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_nobody_is_trained_on_and_held_out(rows: int, seed: int) -> None:
    table = about(np.random.default_rng(seed).integers(0, 12, rows))
    rest, held = hold_out(table)
    assert rest.persons is not None
    assert held.persons is not None
    assert table.persons is not None
    assert not {*rest.persons.codes.tolist()} & {*held.persons.codes.tolist()}
    assert len(rest) + len(held) == rows
    assert len(np.unique(held.persons.codes)) == round(len(np.unique(table.persons.codes)) / 5)


def test_a_share_for_tests_is_of_each_clients_persons(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    persons = np.repeat(np.arange(60), rng.integers(1, 6, 60))
    lines = [f"w{person % 3},p{person},{rng.integers(100)},{'yes' if person % 2 else 'no'}" for person in persons]
    (tmp_path / "t.csv").write_text("\n".join(["ward,patient,age,ill", *lines]) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    found = read_own(TableSettings(str(tmp_path / "t.csv"), str(tmp_path / "schema.toml"), test_share=0.25))
    assert found.test is not None
    assert found.test.persons is not None
    assert found.train.persons is not None
    held = {*found.test.persons.codes.tolist()}
    assert not held & {*found.train.persons.codes.tolist()}
    names = [found.test.persons.levels[code] for code in held]
    wards = [int(name[1:]) % 3 for name in names]
    assert [wards.count(ward) for ward in range(3)] == [5, 5, 5]


def test_a_record_that_is_about_nobody_is_refused_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ward,patient,age,ill\na,1,30,no\nb,,40,yes\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    with pytest.raises(InputError, match=r"t.csv, row 3: column 'patient' must name the person of every record"):
        read_own(TableSettings(str(tmp_path / "t.csv"), str(tmp_path / "schema.toml")))


def test_a_schema_names_the_person_and_gives_it_back(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    schema = read_schema(tmp_path / "schema.toml")
    assert (schema.client, schema.person, schema.naming) == ("ward", "patient", ("ward", "patient"))
    assert text_schema(schema_text(schema)) == schema
    assert replace(schema, person=None).digest != schema.digest, "sites that count otherwise hold another schema"
    with pytest.raises(InputError, match="those of target, client and person included"):
        Schema(schema.inputs, schema.target, person="age")


def test_visits_say_whom_they_are_about() -> None:
    cells = SOURCES["visits"].read(SOURCES["visits"].settings())
    assert cells.test is not None
    assert cells.train.persons is not None
    assert cells.test.persons is not None
    assert len(np.unique(cells.train.persons.codes)) == 4730
    both = cells.train.persons, cells.test.persons
    names = [{persons.levels[code] for code in persons.codes} for persons in both]
    assert not names[0] & names[1]
