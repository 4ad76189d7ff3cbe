"""`fedspd methods` shows the whole table, and a reconstruction is called one wherever people see it."""

import json
import re
from dataclasses import fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import fedspd
from fedspd.algorithms import METHODS, Card, Printed, label
from fedspd.cli.commands.methods import claims_grid, updates_grid
from fedspd.report import Grid, grid_terminal, run_figure, summary_table
from fedspd.report.of_runs.runs import runs_page
from tests.support.command import Finished, run_all
from tests.support.small_runs import small_run
from tests.test_docs import table

every_method = pytest.mark.parametrize("name", METHODS)
RECONSTRUCTIONS = [name for name, method in METHODS.items() if method.card.reconstruction]
CASES = {
    "all": ("methods",),
    "all as json": ("methods", "--json"),
    "help": ("methods", "--help"),
    "wrong": ("methods", "dp-adm"),
    "far off": ("methods", "§"),
    **{name: ("methods", name) for name in METHODS},
    **{f"{name} as json": ("methods", name, "--json") for name in METHODS},
}


def test_a_label_says_reconstruction_of_what_is_one_and_of_nothing_else() -> None:
    assert label("dp-fedavg") == "DP-FedAvg (reconstruction)"
    assert label("dp-fedavg-published", "any words") == "any words (reconstruction)"
    assert label("dp-admm") == "DP-ADMM"
    assert label("dp-admm", "dp-admm") == "dp-admm"
    assert label("of another version") == "of another version"


@pytest.mark.parametrize("name", RECONSTRUCTIONS)
def test_a_run_of_a_reconstruction_is_called_one_in_the_terminal_the_figure_and_the_page(name: str) -> None:
    finished = fedspd.run(small_run(name))
    console = Console(file=StringIO(), width=120)
    console.print(summary_table(finished.summary))
    assert isinstance(console.file, StringIO)
    titled = run_figure(finished.summary, finished.history)._suptitle  # pyright: ignore[reportAttributeAccessIssue]
    recorded = finished.record()
    alone, beside = runs_page({"mine": recorded}), runs_page({"mine": recorded, "another": recorded})
    cells = [[cell for grid in page.sections[0].grids for row in grid.rows for cell in row] for page in (alone, beside)]
    assert f"{name} (reconstruction)" in console.file.getvalue()
    assert titled.get_text().startswith(f"{name} (reconstruction):")
    assert alone.sections[0].text[0].startswith(f"{name} (reconstruction):")
    assert all(f"{name} (reconstruction)" in found and name not in found for found in cells)


def test_the_page_on_comparing_has_the_table_of_all_methods() -> None:
    page = "docs/how-to/compare-methods.md"
    rows = [
        [name, label(name), one.noise, "no" if one.needs.everybody else "yes", one.guarantee, one.card.caveat or "–"]
        for name, one in METHODS.items()
    ]
    lines = [f"| `{name}` | {' | '.join(rest)} |" for name, *rest in rows]
    assert table(page, "| Name |") == rows, f"{page}: paste this table\n" + "\n".join(lines)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    return run_all(tmp_path_factory.mktemp("methods"), CASES)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_the_command_prints_both_tables_within_120_columns(done: dict[str, Finished]) -> None:
    shown = done["all"].out
    assert (done["all"].code, done["all"].err) == (0, "")
    assert max(map(len, shown.splitlines())) <= 120
    for grid in (claims_grid(), updates_grid()):
        console = Console(file=StringIO(), width=120)
        console.print(grid_terminal(grid))
        assert isinstance(console.file, StringIO)
        assert console.file.getvalue() in shown
        assert [str(row[0]).removesuffix(" (reconstruction)") for row in grid.rows] == list(METHODS)
        assert [name for name, row in zip(METHODS, grid.rows, strict=True) if "reconstruction" in str(row[0])] == (
            RECONSTRUCTIONS
        )


def cells_of(grid: Grid, name: str) -> dict[str, Any]:
    (row,) = [row for row in grid.rows if row[0] == label(name, name)]
    return dict(zip(grid.columns, row, strict=True))


def test_what_table_1_prints_otherwise_stands_in_brackets() -> None:
    assert cells_of(updates_grid(), "dp-sgd") == {
        "name": "dp-sgd",
        "local updates": "one SGD step",
        "objective": "convex, non-smooth [non-convex, smooth]",
        "some clients a round": "yes [no]",
        "convergence rate": "–",
    }
    assert cells_of(updates_grid(), "fedspd-published")["convergence rate"] == "O(1/sqrt(TQ))"
    assert cells_of(updates_grid(), "fedspd")["convergence rate"] == "– [O(1/sqrt(TQ))]"


@every_method
def test_the_command_says_all_about_one_method(name: str, done: dict[str, Finished]) -> None:
    shown, method = squeezed(done[name].out), METHODS[name]
    assert f"guarantee{squeezed(method.guarantee)}noise" in shown
    for key in fields(method.settings):
        assert squeezed(f"{key.name.replace('_', ' ')}: {key.metadata['doc']}") in shown
    for field in fields(Card):
        value = getattr(method.card, field.name)
        assert field.name.replace("_", "") in shown
        if isinstance(value, str):
            assert squeezed(value) in shown, field.name
    assert f"reconstruction{'yes' if method.card.reconstruction else 'no'}" in shown


def test_json_holds_every_field_of_every_method(done: dict[str, Finished]) -> None:
    listed = json.loads(done["all as json"].out)["methods"]
    assert [one["name"] for one in listed] == list(METHODS)
    for name, one in zip(METHODS, listed, strict=True):
        values: dict[str, Any] = {field.name: one[field.name] for field in fields(Card)}
        values["printed"] = None if one["printed"] is None else Printed(**one["printed"])
        assert Card(**values) == METHODS[name].card
        assert (one["guarantee"], one["noise"]) == (METHODS[name].guarantee, METHODS[name].noise)
        assert one["settings"].keys() == METHODS[name].keys
        assert json.loads(done[f"{name} as json"].out) == one


@pytest.mark.parametrize("name", ["wrong", "far off"])
def test_an_unknown_method_is_one_sentence_with_the_nearest_name(name: str, done: dict[str, Finished]) -> None:
    assert (done[name].code, done[name].out) == (2, "")
    start = "fedspd: the method must be one that fedspd methods lists, got "
    sentence = rf"{start}'.+'; (did you mean 'dp-admm'\?|known are fedspd, .*)\n"
    found = re.fullmatch(sentence, done[name].err)
    assert found
    assert found[1].startswith("did" if name == "wrong" else "known")


def test_help_shows_examples(done: dict[str, Finished]) -> None:
    assert all(f"fedspd methods{rest}" in done["help"].out for rest in ("", " dp-admm", " --json"))


def test_the_front_page_names_the_command() -> None:
    assert "fedspd methods" in (Path(__file__).parents[2] / "README.md").read_text()
