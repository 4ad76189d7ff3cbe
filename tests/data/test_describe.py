"""A draft says what a schema could be, that it was read off records, and that nothing of it is confirmed."""

import datetime
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedspd.data import Categorical, Numeric, Schema, read_schema, read_table, write_adult_csv
from fedspd.data.describe.draft import Draft, describe_table
from fedspd.data.describe.quality import Quality, quality
from fedspd.data.schema import check_confirmed, parse_schema
from fedspd.errors import InputError
from fedspd.target import Classes, Count, Number, Target


def described(folder: Path, client: str | None = None, **columns: Sequence[object]) -> Draft:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    (folder / "t.csv").write_text("\n".join(lines))
    return describe_table(folder / "t.csv", "y", client)


def schema(draft: Draft) -> Schema:
    return parse_schema(tomllib.loads(draft.text))


def target(folder: Path, values: list[object]) -> Target:
    return schema(described(folder, x=[number % 7 + 0.5 for number in range(len(values))], y=values)).target


def test_the_draft_of_adult_is_a_schema_that_reads_the_table_but_proves_nothing(tmp_path: Path) -> None:
    write_adult_csv(tmp_path / "adult.csv", np.arange(2000))
    draft = describe_table(tmp_path / "adult.csv", "income", "sex")
    (tmp_path / "schema.toml").write_text(draft.text)
    found = read_schema(tmp_path / "schema.toml")
    assert found.client == "sex"
    assert found.target == Classes("income", ("<=50K", ">50K"))
    assert found.inputs[0] == Numeric("age", 17.0, 90.0, missing=53.5)
    assert found.unconfirmed == (*(column.name for column in found.inputs), "income")
    assert len(read_table(tmp_path / "adult.csv", found)) == 2000
    with pytest.raises(InputError, match="read from the records"):
        check_confirmed(found)


def test_a_draft_says_first_why_it_gives_records_away_and_what_to_do(tmp_path: Path) -> None:
    text = described(tmp_path, x=[1, 2], y=["a", "b"]).text
    head = " ".join(line.removeprefix("# ") for line in text.split("\n\n")[0].splitlines())
    assert "the largest value of a column is the value of one person" in head
    assert "set confirmed = true" in head
    assert text.index("#") == 0


def test_the_draft_has_the_documented_form(tmp_path: Path) -> None:
    draft = described(tmp_path, "c", c=["k", "k", "l"], x=[1.5, 2, None], w=["b", "a", "b"], y=["n", "p", "n"])
    assert draft.text.partition("\n\n")[2] == (
        'client = "c"\n\n'
        '[target]\ncolumn = "y"\nclasses = ["n", "p"]\nconfirmed = false\n\n'
        '[[columns]]\nname = "x"\nbounds = [1.5, 2.0]\nmissing = 1.75\nconfirmed = false\n\n'
        '[[columns]]\nname = "w"\nlevels = ["a", "b"]\nconfirmed = false\n'
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["b", "a", "b"], Classes("y", ("a", "b"))),
        ([10, 9, 10], Classes("y", ("9", "10"))),
        (["True", "False", "True"], Classes("y", ("False", "True"))),
        ([*range(30)], Count("y", 29.0)),
        ([*range(-3, 27)], Number("y", -3.0, 26.0)),
        ([0.5, 2.5, 1.0], Number("y", 0.5, 2.5)),
        (["1.0", "0.0", "1.0"], Classes("y", ("0.0", "1.0"))),
    ],
    ids=["texts", "whole", "truth", "count", "negative", "number", "floats"],
)
def test_the_kind_of_the_target_is_guessed(tmp_path: Path, values: list[object], expected: Target) -> None:
    assert target(tmp_path, values) == expected


def test_numbers_stay_numbers_however_few_they_are(tmp_path: Path) -> None:
    draft = described(tmp_path, x=[0, 1, 1, 0], code=[1, 2, 3, 1], y=["a", "b", "a", "b"])
    assert all(isinstance(column, Numeric) for column in schema(draft).inputs)
    assert "# 3 different whole numbers; if they are codes, declare levels instead of bounds\n[[columns]]" in draft.text
    assert not draft.report["x"].note


COUNT = 120
LEFT_OUT = {
    "identifiers": ([*range(COUNT)], "every record has another whole number"),
    "names": ([f"p{number}" for number in range(COUNT)], "every record has another text"),
    "dates": ([f"2020-01-{number % 28 + 1:02}" for number in range(COUNT)], "it holds dates"),
    "times": ([f"2020-01-{number % 28 + 1:02} 10:00:00" for number in range(COUNT)], "it holds dates"),
    "one number": ([7] * COUNT, "it holds the same in every record"),
    "one text": (["a"] * COUNT, "it holds the same in every record"),
    "nothing": ([None] * COUNT, "it holds nothing"),
    "question marks": (["?"] * COUNT, "it holds nothing"),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_a_column_that_no_model_should_use_is_left_out_with_a_comment(tmp_path: Path, name: str) -> None:
    values, reason = LEFT_OUT[name]
    draft = described(tmp_path, x=[number % 9 for number in range(COUNT)], z=values, y=["a", "b"] * (COUNT // 2))
    assert f'# Column "z" is left out: {reason}' in draft.text
    assert [column.name for column in schema(draft).inputs] == ["x"]
    assert draft.report["z"].kind == "left out"


def test_more_than_1000_levels_are_left_out(tmp_path: Path) -> None:
    values = [f"v{number % 1001}" for number in range(2002)]
    draft = described(tmp_path, x=[number % 9 for number in range(2002)], z=values, y=["a", "b"] * 1001)
    assert "more than 1000 levels" in draft.text
    assert (draft.report["z"].rows, draft.report["z"].distinct) == (2002, None)


def test_columns_without_a_name_or_with_one_twice_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",x,z,z,y\n0,1,2,3,a\n1,4,5,6,b\n")
    draft = describe_table(tmp_path / "t.csv", "y")
    assert '# Column "" is left out: its name is empty' in draft.text
    assert '# Column "z" is left out: the header names it more than once' in draft.text


def test_columns_of_parquet_that_hold_lists_or_dates_are_left_out(tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    table = pa.table({"x": [1, 2], "l": [[1], [2]], "d": days, "t": [True, False], "y": [0, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    draft = describe_table(tmp_path / "t.parquet", "y")
    assert '# Column "l" is left out: it does not hold one value in each cell' in draft.text
    assert '# Column "d" is left out: it holds dates' in draft.text
    assert schema(draft).inputs[1] == Categorical("t", ("false", "true"))


def test_a_guess_from_the_first_records_is_corrected_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedspd.data.files.delimited.BLOCK", 400)
    codes = [*range(250, 350), *["V27", "E10"] * 20]
    late = [*[None] * 100, *[1.5, 2.5] * 20]
    draft = described(tmp_path, code=codes, late=late, y=["a", "b"] * 70)
    code, later = schema(draft).inputs
    assert isinstance(code, Categorical)
    assert "V27" in code.levels
    assert later == Numeric("late", 1.5, 2.5, missing=2.0)


def test_words_among_numbers_are_offered_as_markers_of_missing_ones(tmp_path: Path) -> None:
    values = [*range(250), "N/A", "64 years", *range(200)]
    draft = described(tmp_path, x=values, y=["a", "b"] * 226)
    assert '# missing_markers = ["N/A"]\n' in draft.text
    assert "# 2 cells hold no number\n" in draft.text
    assert draft.report["x"] == Quality("numbers", 452, 0, 2, 250, note="2 cells hold no number")


def test_the_report_against_a_schema_counts_what_is_not_as_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,w,y\n1,a,5\n99,b,?\nold,,200\n?,c,7\n")
    declared = Schema((Numeric("x", 0, 10, missing=5), Categorical("w", ("a", "b"))), Count("y", 100))
    assert quality(tmp_path / "t.csv", declared) == {
        "x": Quality("numbers", 4, 1, 1, 2, outside=1),
        "w": Quality("levels", 4, 1, 0, 3, unknown=1),
        "y": Quality("numbers", 4, 1, 0, 3, outside=1),
    }
    assert quality(tmp_path / "t.csv", declared)["w"].odd == {"missing": 1, "unknown": 1}
