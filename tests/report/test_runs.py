"""The page of several runs, whatever each of them knows."""

from dataclasses import replace

import pytest

from fedspd.report.of_runs.runs import runs_page
from fedspd.results import Convergence
from tests.results.made import RECORD

ASKED = Convergence(criterion=1.0, optimal_objective=0.5, bound=None, conditions={})


@pytest.mark.parametrize("names", [("asked", "not asked"), ("not asked", "asked")])
def test_a_run_that_was_asked_about_its_convergence_stands_beside_one_that_was_not(names: tuple[str, str]) -> None:
    records = {"asked": replace(RECORD, summary=replace(RECORD.summary, convergence=ASKED)), "not asked": RECORD}
    page = runs_page({name: records[name] for name in names})
    shown = [row for section in page.sections for grid in section.grids for row in grid.rows]
    assert {names[0], names[1]} <= {row[0] for row in shown}
