"""Tables as text: for the terminal, for spreadsheets, for Markdown."""

import csv
import io
import re
from html import unescape

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fedspd.escaping import escaped
from fedspd.report import Grid, Measured, grid_terminal
from fedspd.report.text import grid_csv, grid_markdown
from tests.support.cells import had_back

letters = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="\\")
texts = st.text(letters | st.just("|"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**12), 10**12)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def terminal(grid: Grid, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(grid_terminal(grid))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(st.lists(st.tuples(texts, numbers, st.floats(-1e9, 1e9), st.none() | st.floats(0, 1e9)), max_size=5))
@settings(deadline=None)
def test_csv_gives_back_every_text_and_every_bit_of_every_number(rows: list[tuple]) -> None:
    grid = Grid("t", ("name", "number", "mean"), tuple((a, b, Measured(c, d, 2)) for a, b, c, d in rows))
    head, *found = rows_of(grid_csv(grid))
    assert head == (["name", "number", "mean", "mean s.e."] if rows else ["name", "number", "mean"])
    assert [(had_back(a), float(b), float(c), None if d == "" else float(d)) for a, b, c, d in found] == [
        (a, float(b), c, d) for a, b, c, d in rows
    ]


def test_csv_has_a_second_column_for_errors_also_where_only_some_cells_are_measured() -> None:
    grid = Grid("t", ("a", "b"), ((Measured(0.1, 0.02, 1), 3), (None, 4), ("text, with a comma", None)))
    assert rows_of(grid_csv(grid)) == [
        ["a", "a s.e.", "b"], ["0.1", "0.02", "3"], ["", "", "4"], ["text, with a comma", "", ""],
    ]  # fmt: skip


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
@settings(deadline=None)
def test_a_markdown_table_gives_back_its_cells_whatever_they_hold(rows: list[tuple[str, str]]) -> None:
    lines = grid_markdown(Grid("t", ("a", "b"), tuple(rows))).splitlines()
    assert lines[:2] == ["| a | b |", "|---|---|"]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]
    found = [tuple(unescape(cell[1:-1].replace("\\|", "|")) for cell in row) for row in cells]
    assert found == [tuple(map(escaped, row)) for row in rows]


def test_markdown_shows_means_with_their_errors_gaps_as_dashes_and_the_note_below() -> None:
    grid = Grid("t", ("a", "b"), ((Measured(84.015, 0.062, 2), None), ("x|y", 7)), "And this.")
    assert grid_markdown(grid) == "| a | b |\n|---|---|\n| 84.02 ± 0.06 | – |\n| x\\|y | 7 |\n\nAnd this.\n"


def test_the_terminal_shows_the_same_numbers_the_title_and_the_note() -> None:
    grid = Grid("Results", ("method", "accuracy"), (("a", Measured(84.015, 0.062, 2)), ("b", None)), "A note.")
    shown = terminal(grid)
    assert [line.split() for line in shown.splitlines()] == [
        ["Results"], ["method", "accuracy"], ["a", "84.02", "±", "0.06"], ["b", "–"], ["A", "note."],
    ]  # fmt: skip


def test_the_terminal_shows_text_in_brackets_as_it_is() -> None:
    shown = terminal(Grid("In [bold]", ("a [red]",), (("x [/] [green]y",),), "[dim]note"))
    assert all(text in shown for text in ("In [bold]", "a [red]", "x [/] [green]y", "[dim]note"))
