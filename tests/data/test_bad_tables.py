"""Every broken table ends in one sentence: file, row and column where they are known, and a remedy; never a cell."""

import gzip
import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedspd.data.describe.draft import describe_table
from fedspd.data.files.reading import read_columns
from fedspd.errors import InputError

SECRET = "Xanthippe"  # a cell that must not be seen
HEADER = "hospital,age,ward,income\n"
GOOD = "north,64,surgery,low\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01"


def parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def columns(**changed: Any) -> bytes:
    """A Parquet file whose columns are good, but for those that are handed in."""
    good = {"hospital": ["north", "south"], "age": [64, 30], "ward": ["a", "b"], "income": ["low", "high"]}
    return parquet(**good | changed)


def age(cell: str) -> str:
    """A file with one cell of the column age that is wrong, in row 4."""
    return f"{HEADER.replace(',', ';')}{GOOD.replace(',', ';')}\nnorth;{cell};{SECRET};low\n"


CSV = "t.csv"
BROKEN: dict[str, tuple[str | bytes, str]] = {
    # What is no text, or not the text it should be.
    "a picture": (PNG, "t.csv must be a table in CSV or Parquet, got a picture; save it as CSV"),
    "a photo": (b"\xff\xd8\xff\xe0\x00\x10JFIF", "got a picture"),
    "a document": (b"%PDF-1.7\n", "got a PDF document"),
    "a spreadsheet": (b"PK\x03\x04\x14\x00", "got a spreadsheet or another ZIP archive"),
    "an old spreadsheet": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "got an old spreadsheet"),
    "a database": (b"SQLite format 3\x00", "got a database"),
    "an Arrow file": (b"ARROW1\x00\x00", "got an Arrow file"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04", "compressed with zstd"),
    "xz": (b"\xfd7zXZ\x00", "compressed with xz"),
    "bzip2": (b"BZh91AY", "compressed with bzip2"),
    "UTF-16": ((HEADER + GOOD).encode("utf-16"), "got text in UTF-16"),
    "UTF-16 without a mark": ((HEADER + GOOD).encode("utf-16-le"), "row 1: a table must be text, got a zero byte"),
    "Latin-1 in a cell": (f"{HEADER}{GOOD}north,64,caf\xe9,low\n".encode("latin-1"), "row 3: a table must be UTF-8"),
    "Latin-1 in the header": ("hospital,\xe2ge\n1,2\n".encode("latin-1"), "row 1: a table must be UTF-8"),
    "a zero byte": (f"{HEADER}{GOOD}north,6\x004,surgery,low\n", "row 3: a table must be text, got a zero byte"),
    "a character cut in two": ((HEADER + GOOD + "n\xfc").encode()[:-1], "last character is cut off; copy it again"),
    # What has no records, or not the columns.
    "an empty file": ("", "must hold a header and at least one record, got nothing"),
    "blank rows alone": ("\n \n\n", "must hold a header and at least one record, got nothing"),
    "a header alone": (HEADER, "must hold at least one record, got a header alone"),
    "a header and blank rows": (f"{HEADER}\n\n", "must hold at least one record, got a header alone"),
    "no header": (f"{SECRET},64,surgery,low\n{GOOD}", "must have each declared column once, got 'age' 0 times"),
    "a column twice": (f"age,{HEADER}1,{GOOD}", "got 'age' 2 times; correct its header"),
    "a column in capitals": (HEADER.upper() + GOOD, "got 'age' 0 times"),
    "another delimiter": ("hospital^age^ward^income\nnorth^64^surgery^low\n", "got 'age' 0 times"),
    # Rows that are not like the header.
    "a row too short": (f"{HEADER}{GOOD}north,{SECRET}\n", "row 3: a record must have .* the header, 4, got 2"),
    "a row too long": (f"{HEADER}{GOOD}\n{GOOD[:-1]},{SECRET}\n", "row 4: a record must have .* 4, got 5"),
    "a quote never closed": (f'{HEADER}{GOOD}north,64,"{SECRET},low\n' + GOOD * 9, "row 3: a quote that opens a cell"),
    "two quotes never closed": (f'{HEADER}north,1,"a,low\nnorth,2,"b,low\n', "row 2: a quote that opens a cell"),
    "text after a quote": (f'{HEADER}{GOOD}north,64,"a"{SECRET},low\n', "row 3: a quote that opens a cell"),
    "an endless cell": (f"{HEADER}north,64,{SECRET * 1_000_000},low\n", "row 2: cells must be shorter"),
    "an endless row": (f"{HEADER}{'x,' * 2_000_000}\n", "row 2: a record must have as many cells"),
    "a comma within a number": (f"{HEADER}north,1,500,a,low\n", "row 2: a record must have .* 4, got 5"),
    # Cells that are no numbers.
    "a date": (age("2020-02-30"), "row 4: column 'age' must hold a number, got a date; turn dates into numbers"),
    "a date and a time": (age("2020-02-03T10:00:00Z"), "row 4: column 'age' must hold a number, got a date"),
    "an American date": (age("2/3/2020"), "row 4: column 'age' must hold a number, got a date"),
    "a text": (age(SECRET), "row 4: column 'age' must hold a number, got a text; correct the cell, leave it empty"),
    "a unit": (age("64 years"), "row 4: column 'age' must hold a number, got a text"),
    "a percentage": (age("64%"), "row 4: column 'age' must hold a number, got a text"),
    "thousands": (age("1,500"), "row 4: column 'age' must hold a number, got a number with a comma; write a point"),
    "infinity": (age("inf"), "row 4: column 'age' must hold a number, got a number without end"),
    "minus infinity": (age("-Infinity"), "row 4: column 'age' must hold a number, got a number without end"),
    "an integer of 400 digits": (age("9" * 400), "row 4: column 'age' must hold a number, got a number without end"),
    "a hexadecimal number": (age("0x1F"), "row 4: column 'age' must hold a number, got a text"),
    "mixed types": (f"{HEADER}{GOOD}{'south,x,a,high' + chr(10)}" * 3, r"row 3: .* got a text \(and 4 more"),
    # Compressed files and Parquet.
    "gzip cut off": (
        gzip.compress((HEADER + GOOD * 999).encode())[:-20],
        "complete gzip file, got one that is cut off",
    ),
    "gzip damaged": (gzip.compress((HEADER + GOOD).encode())[:12] + b"\xff" * 30, "complete gzip file, got one that"),
    "gzip of nothing": (gzip.compress(b""), "got nothing"),
    "gzip of a picture": (gzip.compress(PNG), "a table must be text, got a zero byte"),
    "gzip of rows too short": (gzip.compress(f"{HEADER}a,1\n".encode()), "row 2: a record must have .* 4, got 2"),
    "Parquet cut off": (columns()[:-30], "complete Parquet file, got one that is cut off"),
    "Parquet damaged": (columns()[:-80] + b"\xff" * 72 + columns()[-8:], "complete Parquet file, got one that is"),
    "Parquet without records": (parquet(age=pa.array([], pa.int64()), ward=pa.array([], pa.string())), "one record"),
    "Parquet with lists": (columns(age=[[1], [2]]), "column 'age' must hold one value in each cell, got lists"),
    "Parquet with tables": (columns(ward=[{"x": 1}, {"x": 2}]), "column 'ward' must hold one value in each cell"),
    "Parquet with dates": (columns(age=pa.array([1, 2], pa.timestamp("s"))), "column 'age' must hold numbers, got da"),
    "Parquet with bytes": (columns(ward=[b"\xff", b"\xfe"]), "column 'ward' must hold UTF-8 text, got other bytes"),
    "Parquet with a text": (columns(age=["64", SECRET]), "row 2: column 'age' must hold a number, got a text"),
    "Parquet with infinity": (columns(age=[1.0, float("inf")]), "row 2: column 'age' must hold a number, got a num"),
    "Parquet without a column": (parquet(age=[1]), "must have each declared column once, got 'ward' 0 times"),
}


def refused(does: Callable[[], Any], message: str) -> str:
    """The sentence that refuses an input, which quotes no cell."""
    with pytest.raises(InputError, match=message) as raised:
        does()
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert re.search(r"(expected|must|needs).* got .*; .*\.$", sentence), sentence
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    return sentence


def read(*paths: Path | str) -> None:
    read_columns(paths, ["age"], ["ward"]).refuse_unreadable()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_table_is_refused_in_a_sentence_that_names_it(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    (tmp_path / CSV).write_bytes(content.encode() if isinstance(content, str) else content)
    assert str(tmp_path / CSV) in refused(lambda: read(tmp_path / CSV), message)


def test_at_least_45_tables_are_broken() -> None:
    assert len(BROKEN) >= 45


def test_a_file_that_is_called_parquet_and_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text(HEADER + GOOD)
    refused(lambda: read(tmp_path / "t.parquet"), r"t.parquet must be a complete Parquet file")


def test_places_without_a_table_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / CSV).write_text(HEADER + GOOD)
    refused(lambda: read(tmp_path), r"got the folder .*; name its files, as in .*/\*\.csv\.")
    refused(lambda: read(tmp_path / "none.csv"), "No such file")
    refused(lambda: read(tmp_path / CSV / "x.csv"), "Not a directory")
    refused(lambda: read(tmp_path / "pipe"), "which is no file; save the table as one")
    refused(lambda: read(tmp_path / ("x" * 300)), "File name too long")
    refused(lambda: read("a\0b.csv"), "no name of a file")
    refused(lambda: read(f"{tmp_path}/*.tsv"), "which matches none; correct the pattern")
    refused(lambda: read(), "got none; name at least one")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / CSV).write_text(HEADER + GOOD)
    (tmp_path / CSV).chmod(0)
    refused(lambda: read(tmp_path / CSV), "Permission denied")


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + GOOD)
    (tmp_path / "b.csv").write_text(f"hospital,age,ward,{SECRET}\n{GOOD}")
    refused(lambda: read(f"{tmp_path}/*.csv"), r"b.csv must have the same columns as .*a.csv, got 1 others and 1 mis")


def test_an_empty_file_among_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + GOOD)
    (tmp_path / "b.csv").write_text(HEADER)
    refused(lambda: read(f"{tmp_path}/*.csv"), "b.csv must hold at least one record")


def test_files_of_one_name_are_no_clients(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / CSV).write_text(HEADER + GOOD)
    found = read_columns(f"{tmp_path}/*/t.csv", ["age"], [])
    refused(lambda: found.files, "got 2 files with the name of .*; rename them")


ROWS = "north,64,surgery,low\nsouth,30,medicine,high\n"
UNDESCRIBED = {
    "no target": (HEADER + ROWS, "outcome", None, "must have each declared column once, got 'outcome' 0 times"),
    "no client": (HEADER + ROWS, "income", "site", "got 'site' 0 times"),
    "a blank client": (
        f"{HEADER}{ROWS}\n ,1,a,low\n",
        "income",
        "hospital",
        "row 5: column 'hospital' must name the cl",
    ),
    "an empty target": (
        f"{HEADER}a,1,b,\na,2,c,?\n",
        "income",
        None,
        "must differ between records, got nothing in all",
    ),
    "one class": (HEADER + GOOD * 3, "income", None, "must differ between records, got one value in all of them"),
    "dates as a target": (f"{HEADER}a,1,b,2020-01-01\na,2,c,2020-01-02\n", "income", None, "the target, must hold num"),
    "texts as a target": (
        HEADER + "".join(f"a,1,b,{SECRET}{number}\n" for number in range(1001)),
        "income",
        "hospital",
        "row 2: column 'income', the target, must hold numbers, or at most 1000 classes",
    ),
    "nothing to predict from": (
        "income,id\nlow,\nhigh,\n",
        "income",
        None,
        "must have columns to predict from, got no",
    ),
    "a target alone": ("income\nlow\nhigh\n", "income", None, "must have columns to predict from, got none"),
}


@pytest.mark.parametrize("name", UNDESCRIBED)
def test_a_table_that_cannot_be_described_is_refused(tmp_path: Path, name: str) -> None:
    content, target, client, message = UNDESCRIBED[name]
    (tmp_path / CSV).write_text(content)
    assert CSV in refused(lambda: describe_table(tmp_path / CSV, target, client), message)


@pytest.mark.slow
def test_a_million_levels_are_read_and_left_out_of_a_draft(tmp_path: Path) -> None:
    rows = "".join(f"a,{number % 90},level{number},{number % 2}\n" for number in range(1_000_000))
    (tmp_path / CSV).write_text(HEADER + rows)
    assert len(read_columns(tmp_path / CSV, [], ["ward"]).texts["ward"].levels) == 1_000_000
    draft = describe_table(tmp_path / CSV, "income", "hospital")
    assert '# Column "ward" is left out: it has more than 1000 levels' in draft.text


def test_one_record_is_a_table(tmp_path: Path) -> None:
    (tmp_path / CSV).write_text(HEADER + GOOD)
    assert read_columns(tmp_path / CSV, ["age"], []).rows == 1
