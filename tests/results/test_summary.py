"""The record of a run: each field says what it is, and what is read back is what was written."""

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from fedspd.errors import InputError
from fedspd.report.of_runs.runs import runs_page
from fedspd.report.of_runs.terminal import DIAGNOSTICS
from fedspd.results import ABOUT, COLUMNS, Condition, Convergence, Summary, from_dict, to_json, words
from tests.results.made import RECORD, SUMMARY

MEASURED = replace(
    SUMMARY,
    optimum_accuracy=0.9,
    convergence=Convergence(1.5, None, 0.25, {"rho": Condition(True, "20 against 10")}),
    run="wards-3fa2c1",
)

NEEDED = {field.name for field in fields(Summary) if field.default is MISSING}
ALWAYS = {field.name for field in fields(Summary) if field.default is not None}


@pytest.mark.parametrize("summary", [SUMMARY, MEASURED, replace(SUMMARY, epsilon=None, stopped="early")])
def test_a_summary_is_read_back_as_it_was(summary: Summary) -> None:
    assert from_dict(json.loads(to_json(summary.to_dict()))) == summary


def test_what_a_run_has_no_number_for_is_left_out_and_only_a_run_between_sites_has_a_name() -> None:
    assert SUMMARY.to_dict().keys() == ALWAYS
    assert replace(SUMMARY, test_mae=0.5).to_dict().keys() == ALWAYS | {"test_mae"}
    assert MEASURED.to_dict()["run"] == "wards-3fa2c1"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"rounds": 2.5}, "rounds"),
        ({"rounds": None}, "rounds"),
        ({"scaling_charged": 1}, "scaling_charged"),
        ({"guarantee": None}, "guarantee"),
        ({"columns": ["round"]}, "columns"),
        ({"convergence": 3}, "convergence"),
        ({"convergence": {"criterion": 1.0}}, "bound"),
        ({"convergence": MEASURED.to_dict()["convergence"] | {"conditions": {"rho": 1}}}, "an object"),
        ({"of another version": 1}, "of another version"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=rf"expected .*got .*{named}|expected {named}"):
        from_dict(SUMMARY.to_dict() | change)


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_a_summary_without_one_of_its_fields_is_refused_by_its_name(name: str) -> None:
    values = SUMMARY.to_dict()
    del values[name]
    with pytest.raises(InputError, match=f": {name}; make the run again"):
        from_dict(values)


def test_every_epsilon_is_rounded_up_and_nothing_that_is_no_bound_is() -> None:
    assert {name for name, about in ABOUT.items() if about.rounding == "up"} == {
        name for name in ABOUT if name.startswith("epsilon")
    }
    assert all(about.meaning for about in ABOUT.values())


def test_what_a_history_calls_diagnostic_is_diagnostic_in_the_summary_too() -> None:
    shared = ABOUT.keys() & COLUMNS.keys()
    assert len(shared) > 5
    assert {name: ABOUT[name].kind for name in shared} == {name: COLUMNS[name] for name in shared}


def test_the_statement_has_words_for_every_diagnostic_of_the_summary() -> None:
    assert DIAGNOSTICS.keys() == {field.name for field in fields(Summary) if ABOUT[field.name].kind == "diagnostic"}


def test_pages_take_words_percent_and_rounding_from_the_record() -> None:
    record = replace(RECORD, summary=replace(SUMMARY, epsilon_per_round=0.50001, test_accuracy=0.8125))
    shown = {row[0]: row[1] for part in runs_page({"run": record}).sections for grid in part.grids for row in grid.rows}
    assert shown[words("epsilon_per_round")] == 0.5001
    assert shown["test accuracy, %"] == 81.25
    assert shown["ALFV"] == SUMMARY.alfv
