"""A user's own table is read whatever file it is in, and what is missing or unreadable is counted and found."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedspd.data.files import cells, delimited
from fedspd.data.files.reading import Columns, read_columns
from fedspd.errors import InputError

PLAIN = "age,ward\n64,surgery\n30,\n,medicine\n"


def written(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path: Path | str | list[Path], **more: object) -> Columns:
    return read_columns(path, ["age"], ["ward"], **more)  # pyright: ignore[reportArgumentType]


def numbers(columns: Columns) -> list[float | None]:
    return [None if np.isnan(value) else value for value in columns.numbers["age"].values.tolist()]


def texts(columns: Columns) -> list[str | None]:
    found = columns.texts["ward"]
    return [found.levels[code] if code >= 0 else None for code in found.codes]


def column(cells: str, folder: Path) -> Columns:
    """A table whose column age has these cells, one in each line."""
    rows = "".join(f"{cell}|x\n" for cell in cells.split("\n"))
    return read(written(folder, f"age|ward\n{rows}"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\ufeff\n\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_every_delimiter_end_of_line_mark_and_gzip_give_the_same_table(
    tmp_path: Path, delimiter: str, end: str, start: str, zipped: bool
) -> None:
    content = (start + PLAIN).replace(",", delimiter).replace("\n", end).encode()
    found = read(written(tmp_path, gzip.compress(content) if zipped else content))
    assert numbers(found) == [64, 30, None]
    assert texts(found) == ["surgery", None, "medicine"]
    assert (found.rows, found.numbers["age"].missing, found.texts["ward"].missing) == (3, 1, 1)


def test_parquet_is_read_by_its_content_with_whatever_types_its_columns_have(tmp_path: Path) -> None:
    table = pa.table({"ward": pa.array(["surgery", None, "medicine"]).dictionary_encode(), "age": [64, 30, None]})
    pyarrow.parquet.write_table(table, tmp_path / "table.csv")
    found = read(tmp_path / "table.csv")
    assert numbers(found) == [64, 30, None]
    assert texts(found) == ["surgery", None, "medicine"]


@pytest.mark.parametrize(
    ("array", "as_numbers", "as_texts"),
    [
        (pa.array([1, 2**60 + 1]), [1, 2.0**60], ["1", str(2**60 + 1)]),
        (pa.array([True, None]), [1, None], ["true", None]),
        (pa.array([1.5, 2.0]), [1.5, 2], ["1.5", "2"]),
        (pa.array(["7", " ? "]), [7, None], ["7", None]),
        (pa.array([b"7", b"x"]), [7, None], ["7", "x"]),
        (pa.array(["1.25", "3"]).cast(pa.decimal128(10, 2)), [1.25, 3], ["1.25", "3.00"]),
        (pa.array([None, None]), [None, None], [None, None]),
        (pa.array(["a", "8"], pa.large_string()), [None, 8], ["a", "8"]),
    ],
    ids=["int", "bool", "float", "text", "bytes", "decimal", "null", "large"],
)
def test_types_of_parquet_become_numbers_or_texts_as_declared(
    tmp_path: Path, array: pa.Array, as_numbers: list[float | None], as_texts: list[str | None]
) -> None:
    pyarrow.parquet.write_table(pa.table({"age": array, "ward": array}), tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet")
    assert numbers(found) == as_numbers
    assert texts(found) == as_texts


@pytest.mark.parametrize("cell", ["", "  ", "?", " ? ", "NA", "NaN", "nan", "null", '" NA "', "-99"])
def test_markers_of_missing_entries_are_no_numbers_and_not_unreadable(tmp_path: Path, cell: str) -> None:
    found = read(written(tmp_path, f"age;ward\n{cell};x\n5;y\n"), missing=["-99"])
    assert numbers(found) == [None, 5]
    assert found.numbers["age"][1:] == (1, 0, ())


@pytest.mark.parametrize(
    ("cell", "value"), [(" 5 ", 5), ("+5", 5), ("1e3", 1000), ("true", 1), ("FALSE", 0), ('"6"', 6), (' "6" ', 6)]
)
def test_numbers_are_read_however_they_are_written(tmp_path: Path, cell: str, value: float) -> None:
    assert numbers(column(cell, tmp_path)) == [value]


def test_a_number_too_long_for_a_float_is_rounded(tmp_path: Path) -> None:
    assert numbers(column("123456789012345678901234567890", tmp_path)) == [123456789012345678901234567890.0]


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ("2020-01-31", "a date"),
        ("31.1.2020 12:00", "a date"),
        ("1,5", "a number with a comma"),
        ("inf", "a number without end"),
        ("1e999", "a number without end"),
        ("9" * 400, "a number without end"),
        ("1_000", "a text"),
        ("old", "a text"),
    ],
)
def test_what_is_no_number_is_counted_and_told_by_file_row_and_column(tmp_path: Path, cell: str, what: str) -> None:
    found = read(written(tmp_path, f'age;ward\n1;"a\nb"\n\n "{cell}";x\n2.5;y\n'))
    assert numbers(found) == [1, None, 2.5]
    (place,) = found.places("age")
    assert (place.file, place.row, place.column) == (str(tmp_path / "table.csv"), 4, "age")
    assert place.what.startswith(what)
    with pytest.raises(InputError, match=f"table.csv, row 4: column 'age' must hold a number, got {what}"):
        found.refuse_unreadable()


def test_only_the_first_few_places_are_told_but_all_are_counted(tmp_path: Path) -> None:
    found = column("\n".join(["x"] * 9), tmp_path)
    assert found.numbers["age"].unreadable == 9
    assert [place.row for place in found.places("age")] == [2, 3, 4, 5, 6]


def test_a_share_of_unreadable_cells_may_be_allowed(tmp_path: Path) -> None:
    found = column("1\n2\n3\nx", tmp_path)
    found.refuse_unreadable(most=0.25)
    with pytest.raises(InputError, match="row 5"):
        found.refuse_unreadable(most=0.2)


def test_decimal_commas_are_read_where_commas_separate_nothing_and_no_number_has_a_point(tmp_path: Path) -> None:
    assert numbers(read(written(tmp_path, "age;ward\n1,5;x\n-0,25;y\n3;z\n"))) == [1.5, -0.25, 3]
    mixed = read(written(tmp_path, "age;ward\n1,5;x\n2.5;y\n"))
    assert numbers(mixed) == [None, 2.5]
    thousands = read(written(tmp_path, "age;ward\n1,500;x\n2,000;y\n"))
    assert thousands.numbers["age"].unreadable == 2


def test_columns_that_are_not_wanted_may_hold_anything(tmp_path: Path) -> None:
    found = read(written(tmp_path, 'id,age,id,ward,note\n1,2,3,x,"a\n""b"", c"\n1,3,3,y,\n'))
    assert (numbers(found), texts(found)) == ([2, 3], ["x", "y"])


def test_several_files_are_one_table_and_their_names_may_be_clients(tmp_path: Path) -> None:
    written(tmp_path, "age,ward\n1,x\n2,y\n", "north.csv")
    written(tmp_path, gzip.compress(b"ward;age\ny;3\n\nz;old\n"), "south.csv.gz")
    pyarrow.parquet.write_table(pa.table({"age": [5], "ward": ["x"]}), tmp_path / "west.parquet")
    found = read(f"{tmp_path}/*.*")
    assert numbers(found) == [1, 2, 3, None, 5]
    assert texts(found) == ["x", "y", "y", "z", "x"]
    assert found.files.codes.tolist() == [0, 0, 1, 1, 2]
    assert found.files.levels == ["north", "south", "west"]
    assert [(Path(place.file).name, place.row) for place in found.places("age")] == [("south.csv.gz", 4)]
    assert found.where(4) == f"{tmp_path / 'west.parquet'}, row 1"


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    assert read([path, tmp_path / "*.csv"]).rows == 3


def test_a_column_may_be_both_numbers_and_texts(tmp_path: Path) -> None:
    found = read_columns(written(tmp_path, PLAIN), ["age"], ["age"])
    assert numbers(found) == [64, 30, None]
    assert found.texts["age"].levels == ["64", "30"]


def test_a_column_with_more_levels_than_asked_for_is_given_up(tmp_path: Path) -> None:
    path = written(tmp_path, "age,ward\n" + "".join(f"1,w{number}\n" for number in range(11)) + "1,\n")
    assert not read(path, most_levels=11).texts["ward"].too_many
    found = read(path, most_levels=10).texts["ward"]
    assert (found.too_many, found.levels, len(found.codes), found.missing) == (True, [], 0, 1)


def test_what_is_unreadable_in_the_last_of_many_blocks_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 200)
    wide = [f"c{number}" for number in range(6)]
    rows = [",".join([str(row)] * 6) for row in range(300)]
    for number in range(6):
        rows[250 + 8 * number] = ",".join("x" if place == number else str(250 + 8 * number) for place in range(6))
    path = written(tmp_path, "\n".join([",".join(wide), *rows]))
    found = read_columns(path, wide, [])
    assert found.rows == 300
    for number, name in enumerate(wide):
        expected = np.arange(300.0)
        expected[250 + 8 * number] = np.nan
        np.testing.assert_array_equal(found.numbers[name].values, expected)
        assert [place.row for place in found.places(name)] == [252 + 8 * number]


def test_rows_are_counted_as_a_person_counts_them(tmp_path: Path) -> None:
    content = 'age,ward\n\n1,"a, ""b"""\n   \n2,"c\nd"\n3,5" pipe\nx,e\n'
    found = read(written(tmp_path, content))
    assert texts(found) == ['a, "b"', "c\nd", '5" pipe', "e"]
    assert [place.row for place in found.places("age")] == [7]


def test_the_rules_for_a_cell_hold_for_texts_too() -> None:
    assert cells.stripped(' "a ""b""" ') == 'a "b"'
    assert cells.number_of("1.5", cells.MISSING, ",") == np.inf
