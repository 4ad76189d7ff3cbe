"""A site's file becomes features under the declared schema alone, and no error tells what a cell holds."""

import csv
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspd.data import (
    AdultSettings,
    Categorical,
    Numeric,
    Schema,
    Table,
    adult_schema,
    declare,
    read_adult,
    read_table,
    write_adult_csv,
)
from fedspd.data.adult import Columns
from fedspd.errors import InputError
from fedspd.target import Classes
from tests.data.test_schema import SCHEMA

TOLERANT = replace(SCHEMA, most_unreadable=1.0)
HEADER = "age,ward,lactate,sex,outcome"
MARKER = "Xanthippe"  # a cell that must not be seen

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["", "?", " 44 ", "-1e300", "1e300", "1e999", "inf", "-inf", "nan", "F", "surgery", " medicine", "0x10", "1,5"]
)


def site(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "site.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def first(table: Table) -> dict[str, float]:
    return dict(zip(table.columns, table.features[0].tolist(), strict=True))


def number(cell: str, folder: Path, schema: Schema = SCHEMA) -> float:
    """What one entry of the column age becomes."""
    return first(read_table(site(folder, f"{cell},surgery,1,F,home"), schema))["age"]


@pytest.mark.parametrize("log_capital", [False, True])
@pytest.mark.parametrize("columns", ["published", "all"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_every_record_of_adult_comes_back_from_a_file_bit_for_bit(
    tmp_path: Path, split: Literal["train", "test"], columns: Columns, log_capital: bool
) -> None:
    expected = getattr(declare(read_adult(AdultSettings(columns, log_capital))), split)
    rows = np.random.default_rng(0).permutation(len(expected))
    write_adult_csv(tmp_path / "site.csv", rows, split)
    table, expected = read_table(tmp_path / "site.csv", adult_schema(columns, log_capital)), expected.rows(rows)
    assert table.features.tobytes() == expected.features.tobytes()
    assert table.labels.tobytes() == expected.labels.tobytes()
    assert (table.columns, table.classes) == (expected.columns, expected.classes)


def test_adult_is_written_with_its_own_names_and_marks(tmp_path: Path) -> None:
    write_adult_csv(tmp_path / "site.csv", np.array([0, 14]))
    header, one, two = (tmp_path / "site.csv").read_text().splitlines()
    assert header.startswith("age,workclass,fnlwgt,education,education-num,")
    assert one == (
        "39,State-gov,77516,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,"
        "United-States,<=50K"
    )
    assert two.endswith("40,?,>50K")


def test_numbers_are_mapped_onto_the_unit_range_and_levels_to_0_and_1(tmp_path: Path) -> None:
    table = read_table(site(tmp_path, "64,intensive care,30,F,died"), SCHEMA)
    assert first(table) == {
        "age": 0.0,
        "ward=medicine": 0.0,
        "ward=intensive care": 1.0,
        "lactate": 1.0,
        "sex=F": 1.0,
        "sex=M": 0.0,
    }
    assert table.labels.tolist() == [1]
    assert table.classes == ("home", "died")


def test_a_logarithm_is_taken_of_one_more_than_the_value(tmp_path: Path) -> None:
    table = read_table(site(tmp_path, "64,surgery,5,F,died"), SCHEMA)
    assert first(table)["lactate"] == pytest.approx(2 * np.log(6) / np.log(31) - 1)


@pytest.mark.parametrize(("cell", "unit"), [("17.9", -1), ("-1e300", -1), ("110.5", 1), ("1e300", 1)])
def test_a_number_outside_its_bounds_is_clipped_to_them(tmp_path: Path, cell: str, unit: float) -> None:
    assert number(cell, tmp_path) == unit


def test_a_number_below_a_logarithms_bound_is_clipped_first(tmp_path: Path) -> None:
    table = read_table(site(tmp_path, "64,surgery,-7,F,died"), SCHEMA)
    assert first(table)["lactate"] == -1


@pytest.mark.parametrize("cell", ["", "  ", "?", " ? ", "nan", "NA", "null"])
def test_what_is_missing_becomes_the_declared_missing_value(tmp_path: Path, cell: str) -> None:
    assert number(cell, tmp_path) == number("60", tmp_path) == pytest.approx(2 * (60 - 18) / 92 - 1)


@pytest.mark.parametrize("cell", ["unknown", "inf", "-inf", "1e999", '"1,5"'])
def test_what_is_no_finite_number_is_refused_or_where_so_declared_counts_as_missing(tmp_path: Path, cell: str) -> None:
    assert number(cell, tmp_path, TOLERANT) == number("60", tmp_path)
    with pytest.raises(InputError, match="row 2: column 'age' must hold a number"):
        number(cell, tmp_path)


@pytest.mark.parametrize("cell", ["", "?", "surgeries", "SURGERY"])
def test_what_is_no_level_becomes_the_declared_missing_level(tmp_path: Path, cell: str) -> None:
    row = first(read_table(site(tmp_path, f"64,{cell},1,F,home"), SCHEMA))
    assert (row["ward=medicine"], row["ward=intensive care"]) == (1, 0)


@pytest.mark.parametrize("cell", ["", "?", "X", "f"])
def test_without_a_missing_level_an_unknown_one_leaves_its_block_at_0(tmp_path: Path, cell: str) -> None:
    row = first(read_table(site(tmp_path, f"64,surgery,1,{cell},home"), SCHEMA))
    assert (row["sex=F"], row["sex=M"]) == (0, 0)


def test_the_first_level_is_the_baseline_where_it_is_dropped(tmp_path: Path) -> None:
    row = first(read_table(site(tmp_path, "64,surgery,1,M,home"), SCHEMA))
    assert (row["ward=medicine"], row["ward=intensive care"]) == (0, 0)


@given(records=st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=5))
def test_numbers_keep_to_the_unit_range_and_blocks_to_at_most_one_1_whatever_the_file_holds(
    records: list[tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("site") / "site.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(HEADER.split(","))
        writer.writerows([*record, "home"] for record in records)
    table = read_table(path, TOLERANT)
    assert len(table) == len(records)
    assert (abs(table.features[:, SCHEMA.numeric]) <= 1).all()
    assert set(np.unique(table.features[:, ~SCHEMA.numeric])) <= {0.0, 1.0}
    for block in ("ward=", "sex="):
        inside = [name.startswith(block) for name in table.columns]
        assert (table.features[:, inside].sum(axis=1) <= 1).all()


@given(
    lower=st.floats(allow_nan=False, allow_infinity=False),
    width=st.floats(5e-324, 1e308),
    value=st.floats(),
)
def test_no_bounds_however_extreme_let_a_number_out_of_the_unit_range(
    lower: float, width: float, value: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        column = Numeric("age", lower, lower + width, missing=lower)
    except InputError:
        return  # bounds that rounding makes equal, or too far apart
    schema = Schema((column, Categorical("sex", ("F", "M"))), Classes("outcome", ("home", "died")), most_unreadable=1.0)
    assert abs(number(repr(value), tmp_path_factory.mktemp("site"), schema)) <= 1


def test_order_of_columns_other_columns_spaces_quotes_and_blank_rows_do_not_matter(tmp_path: Path) -> None:
    plain = read_table(site(tmp_path, "64,intensive care,2,F,died", "30,surgery,1,M,home"), SCHEMA)
    same = read_table(
        site(
            tmp_path,
            'died , 7 ,F, "intensive care", 2.0,64',
            "",
            '"home",,M , surgery,1,"30"',
            "   ",
            header='outcome, patient,"sex",ward , lactate,age',
        ),
        SCHEMA,
    )
    np.testing.assert_array_equal(same.features, plain.features)
    np.testing.assert_array_equal(same.labels, plain.labels)


def test_rows_of_spaces_anywhere_in_a_large_file_change_no_record(tmp_path: Path) -> None:
    """The first of them is found when records before it have been handed out already."""
    rows = [f"{20 + place % 60},surgery,1,F,died" for place in range(200_000)]
    plain = read_table(site(tmp_path, *rows), SCHEMA)
    rows[150_000] += "\n   "
    rows[-1] += "\n \t \n"
    spaced = read_table(site(tmp_path, *rows), SCHEMA)
    np.testing.assert_array_equal(spaced.features, plain.features)
    rows[170_000] = "20,surgery"
    with pytest.raises(InputError, match="must have as many cells as the header, 5, got 2"):
        read_table(site(tmp_path, *rows), SCHEMA)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_spreadsheets_are_read(tmp_path: Path, end: str) -> None:
    (tmp_path / "site.csv").write_bytes(f"\ufeff{HEADER}{end}64,surgery,1,F,died{end}".encode())
    assert first(read_table(tmp_path / "site.csv", SCHEMA))["age"] == 0


def test_a_record_without_a_declared_class_is_refused_by_its_row(tmp_path: Path) -> None:
    path = site(tmp_path, "64,surgery,1,F,died", "", "64,surgery,1,F,?")
    with pytest.raises(InputError, match="row 4: column 'outcome' must hold one of the classes home, died"):
        read_table(path, SCHEMA)


GOOD = "64,surgery,1,F,died"
REFUSED = {
    "class": (f"{HEADER}\n{GOOD}\n64,surgery,1,F,{MARKER}", "row 3: column 'outcome' must hold one of"),
    "too few cells": (f"{HEADER}\n{GOOD}\n64,{MARKER}", "row 3: a record must have as many cells .* 5, got 2"),
    "too many cells": (f"{HEADER}\n{MARKER},,,,,\n{GOOD}", "row 2: a record must have as many cells .* 5, got 6"),
    "no header": (f"64,surgery,1,{MARKER},died\n{GOOD}", "must have each declared column once, got 'age' 0 times"),
    "a column twice": (f"{HEADER},age\n{GOOD},{MARKER}", "got 'age' 2 times"),
    "no record": (f"{HEADER},{MARKER}\n\n", "at least one record, got a header alone"),
    "nothing": ("", "at least one record, got nothing"),
    "an open quote": (
        f'{HEADER}\n{GOOD}\n64,"{MARKER},1,F,died\n{GOOD}',
        "row 3: a quote that opens a cell must be closed",
    ),
    "text after a quote": (
        f'{HEADER}\n64,"surgery"{MARKER},1,F,died',
        "row 2: a quote that opens a cell must be closed",
    ),
    "a cell without end": (f"{HEADER}\n{MARKER * 1_000_000},,,,", "row 2: cells must be shorter than"),
    "another encoding": (f"{HEADER}\n64,{MARKER}\xfc,1,F,died".encode("latin-1"), "must be UTF-8"),
    "two bytes a character": (f"{HEADER}\n64,{MARKER},1,F,died".encode("utf-16"), "got text in UTF-16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_without_quoting_a_cell(tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    (tmp_path / "site.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError, match=message) as raised:
        read_table(tmp_path / "site.csv", SCHEMA)
    shown = "".join(traceback.format_exception(raised.value))
    assert MARKER not in shown
    assert str(raised.value).count("\n") == 0


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv", SCHEMA)
