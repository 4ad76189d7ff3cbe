"""Names from data are shown and do nothing else: on a terminal, in a spreadsheet, in Markdown, on a page."""

import csv
import io
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fedspd import cli
from fedspd.cli.console import PlainConsole
from fedspd.escaping import cell_of, escaped, write_csv
from fedspd.report import Chart, Grid, Page, Section, Series, draw, grid_terminal, render, summary_table, to_png
from fedspd.report.text import grid_csv, grid_markdown
from tests.results.made import SUMMARY
from tests.support.cells import had_back

FORMULAS = (
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1",
    "'=1",
    "''@x",
    "-",
    "--1",
)
NUMBERS = ("-5", "+3.25", "-1e-7", "7", "-.5")
HARMLESS = ("yes", "a=b", "'quoted'", " =1", "", "(intercept)")
ODD = ("[/red]", "[bold]b", ":cat:", "\x1b[2Jc", "d\x07\x9b31m", "e\nf", "\u202eg", "<script>hit()</script>", "$x$|y")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def in_csv(text: str) -> list[list[str]]:
    return [*csv.reader(io.StringIO(text, newline=""))]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    assert cell_of(text) == f"'{text}"


@pytest.mark.parametrize("text", [*NUMBERS, *HARMLESS])
def test_numbers_and_ordinary_texts_are_cells_as_they_are(text: str) -> None:
    assert cell_of(text) == text


@given(st.text(st.sampled_from("'=+-@\t\r\na1.\uff1d")) | st.text())
def test_every_text_can_be_had_back_from_its_cell(text: str) -> None:
    assert had_back(cell_of(text)) == text


def test_numbers_in_csv_keep_their_sign_and_their_digits() -> None:
    write_csv(file := io.StringIO(), [["=name", -0.1, -3, None, float("-inf")]])
    assert file.getvalue() == "'=name,-0.1,-3,,-inf\n"


def test_tables_of_studies_hold_no_formula_in_heads_and_cells() -> None:
    grid = Grid("t", ("=head", "number"), tuple((text, -1.5) for text in FORMULAS))
    (first, _), *rows = in_csv(grid_csv(grid))
    assert (first, [had_back(text) for text, _ in rows]) == ("'=head", [*FORMULAS])
    assert {(text[0], number) for text, number in rows} == {("'", "-1.5")}


def printed(what: object, console: type[Console] = Console) -> str:
    made = console(file=io.StringIO(), width=300, force_terminal=False)
    made.print(what)
    assert isinstance(made.file, io.StringIO)
    return made.file.getvalue()


@pytest.mark.parametrize("name", ODD)
def test_tables_in_a_terminal_show_names_and_obey_none(name: str) -> None:
    shown = printed(grid_terminal(Grid(name, (name,), ((name,),), "note")))
    assert shown.count(escaped(name)) == 3
    assert not CONTROL.search(shown)
    assert len(shown.splitlines()) == 4
    assert escaped(name) in printed(summary_table(replace(SUMMARY, stopped=name)))


@pytest.mark.parametrize("name", ODD)
def test_whatever_a_command_prints_is_shown_and_not_obeyed(name: str) -> None:
    shown = printed(f"before {name} after\nnext", PlainConsole)
    assert shown == "before " + "\n".join(map(escaped, name.split("\n"))) + " after\nnext\n"
    assert not CONTROL.search(shown)


@pytest.mark.parametrize("name", ODD)
def test_a_name_stays_in_its_cell_of_a_markdown_table_and_is_no_markup(name: str) -> None:
    text = grid_markdown(Grid("t", (name, "b"), ((name, 1),)))
    assert "<" not in text
    assert [len(re.split(r"(?<!\\)\|", line)) for line in text.splitlines()] == [4, 4, 4]


@pytest.mark.parametrize("name", ODD)
def test_a_name_is_no_markup_on_a_page_and_no_formula_in_a_picture(name: str) -> None:
    chart = Chart(
        name, name, name, (Series(name, (0.0, 1.0), (0.0, 1.0)), Series(f"{name}2", (0.0,), (1.0,))), note=name
    )
    section = Section(name, (name,), (chart,), (Grid(name, (name,), ((name,),), name),))
    page = render(Page(name, (name,), (section,), ((name, name),), {name: name}))
    assert "<script>hit" not in page
    assert page.count("<script") == render(Page("t", ("p",), (section,), (), {})).count("<script") == 2
    assert to_png(draw((chart,), name)).startswith(b"\x89PNG")


def table_of_odd_names(folder: Path) -> None:
    rows = [(place % 50, level, ("=yes", "@no")[place % 3 == 0], ("=a()", "[/b]", ":cat:")[place % 3])
            for place, level in enumerate(("[bold]a", "\x1b[31mb", "<c>", "d\x9b31m\u202e") * 45)]  # fmt: skip
    with (folder / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("[/red]age", "=SUM(A1)", "y", "who"), *rows])


def told(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> tuple[str, str]:
    """What a command printed, each stream by itself; control characters nowhere."""
    cli.app(arguments, standalone_mode=False)
    found = capsys.readouterr()
    assert not CONTROL.search(found.out + found.err), arguments
    return found.out, found.err


def test_a_table_of_odd_names_is_harmless_from_its_description_to_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    table_of_odd_names(tmp_path)
    schema, described = told(capsys, ["data", "describe", "table.csv", "--target", "y", "--client", "who"])
    assert "[/red]age" in described
    assert "d\x9b31m\u202e" in tomllib.loads(schema)["columns"][1]["levels"]
    Path("schema.toml").write_text(schema.replace("confirmed = false", "confirmed = true"))
    own = ["--data", "table.csv", "--schema", "schema.toml", "--epsilon", "5", "--delta", "1e-3"]
    assert "[/red]age" in told(capsys, ["plan", *own])[0]
    told(capsys, ["ledger", "create", "ledger.sqlite"])
    run = "[b]\x1b[31mrun"
    short = ["--test-share", "0.2", "--set", "run.rounds=2", "--ledger", "ledger.sqlite", "--out", run]
    assert r"Written to [b]\x1b[31mrun" in told(capsys, ["run", *own, *short])[0]
    assert ":cat:" in told(capsys, ["ledger", "show", "ledger.sqlite"])[0]
    told(capsys, ["export", run, "--to", "csv", "--out", "model.csv"])
    told(capsys, ["predict", run, "table.csv", "--id", "who", "--id", "=SUM(A1)", "--out", "predictions.csv"])
    told(capsys, ["report", run, "--out", "page.html"])
    head, *rows = in_csv(Path("predictions.csv").read_text())
    assert head[:3] == ["who", "'=SUM(A1)", "prediction"]
    assert {row[0] for row in rows} == {"'=a()", "[/b]", ":cat:"}
    assert {row[2] for row in rows} <= {"'=yes", "'@no"}
    assert {row[1] for row in in_csv(Path("model.csv").read_text())} == {"class", "'=yes", "'@no"}
    assert "<c>" not in Path("page.html").read_text()
