"""The page of finished runs: one run by itself, several drawn over each other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.algorithms import label
from fedspd.errors import InputError
from fedspd.report.figures import DIAGNOSTIC, run_charts
from fedspd.report.numbers import reported
from fedspd.report.page import Cell, Chart, Grid, Page, Section, merged_environment
from fedspd.report.terminal import privacy_statement

HEADLINES = (
    "algorithm", "guarantee", "epsilon", "delta", "epsilon_spent_max", "test_accuracy", "test_accuracy_average",
    "rounds", "clients", "participants", "uploads", "seed",
)  # fmt: skip
ABOUT_PRIVACY = (
    "guarantee", "epsilon", "delta", "noise_multiplier", "accountant", "scaling_charged", "unit", "relation",
    "sampling", "mechanism", "conversion", "adversary", "unproved_because",
)  # fmt: skip
NAMED_IN_TITLE = 5
DIAGNOSTICS = (
    "These numbers need the training records. Only a simulation knows them, they carry no noise, and the guarantee "
    "does not cover them. Do not publish them for real records."
)


@dataclass(frozen=True)
class RecordedRun:
    """A run as its folder tells it."""

    name: str
    summary: Mapping[str, Any]
    history: Mapping[str, np.ndarray]
    configuration: str
    environment: Mapping[str, Any]


def runs_page(runs: Sequence[RecordedRun]) -> Page:
    """Privacy of every run, curves, numbers, diagnostics apart from what is public, configurations."""
    pages = [_checked(run) for run in runs]
    return pages[0] if len(pages) == 1 else _several(runs)


def _checked(run: RecordedRun) -> Page:
    """The page of one run, or what its folder lacks for one."""
    try:
        return _single(run)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"summary.json and history.csv must be as this version of fedspd run writes them, got those of {run.name}, "
            f"where this is missing or of another kind: {error}; make the run again."
        ) from error


def _single(run: RecordedRun) -> Page:
    summary = run.summary
    accuracy, lagrangian, privacy = run_charts(summary, run.history)
    name = summary["algorithm"]
    about = (
        f"{label(name, name)}: {summary['clients']} clients, {summary['participants']} per round, "
        f"{summary['rounds']} rounds, seed {summary['seed']}."
    )
    stopped = (f"Stopped {summary['stopped']}.",) if summary["stopped"] else ()
    groups: dict[str, list[tuple[Cell, ...]]] = {"On the test set": [], "Privacy": [], "The run": []}
    for key, value in _numbers_of(summary, "public").items():
        groups[_group(key)].append((_label(key), _cell(key, value)))
    diagnostic = [(_label(key), _cell(key, value)) for key, value in _numbers_of(summary, "diagnostic").items()]
    return Page(
        title=f"Run {run.name}",
        privacy=(privacy_statement(summary),),
        sections=(
            Section(
                "Results", (about, *stopped), (accuracy, privacy),
                tuple(Grid(title, ("what", "value"), tuple(rows)) for title, rows in groups.items()),
            ),
            Section(
                "Diagnostics", (DIAGNOSTICS,), (lagrangian,),
                (Grid("After the last round", ("what", "value"), tuple(diagnostic), DIAGNOSTIC), *_conditions([run])),
            ),
        ),
        configurations=((run.name, run.configuration),),
        environment=run.environment,
    )  # fmt: skip


def _several(runs: Sequence[RecordedRun]) -> Page:
    accuracy, lagrangian, privacy = _overlaid(runs)
    names = [run.name for run in runs]
    return Page(
        title=f"{len(runs)} runs: {', '.join(names)}" if len(runs) <= NAMED_IN_TITLE else f"{len(runs)} runs",
        privacy=tuple(f"{run.name}: {privacy_statement(run.summary)}" for run in runs),
        sections=(
            Section("Results", (), (accuracy, privacy), _compared(runs, "public")),
            Section("Diagnostics", (DIAGNOSTICS,), (lagrangian,), (*_compared(runs, "diagnostic"), *_conditions(runs))),
        ),
        configurations=tuple((run.name, run.configuration) for run in runs),
        environment=merged_environment({run.name: run.environment for run in runs}),
    )


def _overlaid(runs: Sequence[RecordedRun]) -> tuple[Chart, ...]:
    """The charts of all runs over each other: of every chart the first series of each run, under the run's name."""
    charts = [run_charts(run.summary, run.history) for run in runs]
    names = [run.name for run in runs]
    claims = [f"{run.name} ({run.summary['guarantee']}, delta {run.summary['delta']:g})" for run in runs]
    accuracy, lagrangian, privacy = (
        replace(
            drawn[0],
            series=tuple(replace(chart.series[0], name=name) for name, chart in zip(labels, drawn, strict=True)),
            references=_references(names, drawn),
        )
        for labels, drawn in zip((names, names, claims), zip(*charts, strict=True), strict=True)
    )
    note = "Epsilon of the client that spent most; only what is called proved is proved."
    return accuracy, lagrangian, replace(privacy, title="Privacy spent", y_label="epsilon", note=note)


def _references(names: Sequence[str], charts: Sequence[Chart]) -> tuple[tuple[str, float], ...]:
    """A line that all runs share stands once, others with the names of their runs."""
    owners: dict[tuple[str, float], list[str]] = {}
    for name, chart in zip(names, charts, strict=True):
        for reference in chart.references:
            owners.setdefault(reference, []).append(name)
    return tuple(
        (label if len(runs) == len(names) else f"{label}, {', '.join(runs)}", value)
        for (label, value), runs in owners.items()
    )


def _compared(runs: Sequence[RecordedRun], kind: str) -> tuple[Grid, ...]:
    """One row per run with the headlines and whatever differs; the rest is said once."""
    found = [_numbers_of(run.summary, kind) for run in runs]
    keys = list(dict.fromkeys(key for numbers in found for key in numbers))
    differing = [key for key in keys if any(numbers.get(key) != found[0].get(key) for numbers in found)]
    shown = [key for key in HEADLINES if key in keys]
    shown += [key for key in differing if key not in shown]
    rows = tuple(
        (run.name, *(_cell(key, numbers.get(key)) for key in shown)) for run, numbers in zip(runs, found, strict=True)
    )
    rest = tuple((_label(key), _cell(key, found[0][key])) for key in keys if key not in shown)
    note = DIAGNOSTIC if kind == "diagnostic" else ""
    grids = (
        Grid("After the last round", ("run", *map(_label, shown)), rows, note),
        Grid("The same in all runs", ("what", "value"), rest, note),
    )
    return tuple(grid for grid in grids if grid.rows)


def _numbers_of(summary: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a summary says in one number or word, of one kind; what is nested is shown elsewhere or not at all."""
    plain = {key: value for key, value in summary.items() if not isinstance(value, Mapping | list)}
    chosen = {key: value for key, value in plain.items() if summary["columns"].get(key, "public") == kind}
    if kind == "diagnostic":
        return chosen | {key: value for key, value in (summary["convergence"] or {}).items() if key != "conditions"}
    return {key: value for key, value in chosen.items() if key != "convergence"}


def _conditions(runs: Sequence[RecordedRun]) -> tuple[Grid, ...]:
    """The conditions of the convergence theorem, held against the runs that were asked about them."""
    rows = tuple(
        (run.name, name, "holds" if condition["holds"] else "fails", condition["detail"])
        for run in runs
        for name, condition in (run.summary["convergence"] or {}).get("conditions", {}).items()
    )
    return (
        (Grid("Conditions of Theorem 2", ("run", "condition", "outcome", "detail"), rows, DIAGNOSTIC),) if rows else ()
    )


def _group(key: str) -> str:
    if key in ABOUT_PRIVACY or key.startswith("epsilon"):
        return "Privacy"
    return "On the test set" if "accuracy" in key or key.startswith("test_") else "The run"


def _label(key: str) -> str:
    return key.replace("_", " ").replace("alfv", "ALFV") + (", %" if "accuracy" in key else "")


def _cell(key: str, value: Any) -> Cell:
    """A value as people read it: shares of accuracy in percent, bounds on epsilon rounded up, what is reconstructed."""
    if key == "algorithm":
        return label(value, value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and "accuracy" in key:
        return 100 * value
    if isinstance(value, float) and key.startswith("epsilon"):
        return reported(value, up=True)
    return value
