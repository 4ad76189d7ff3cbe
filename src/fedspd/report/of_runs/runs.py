"""The page of finished runs: one run by itself, several drawn over each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedspd.report.figures import DIAGNOSTIC, run_charts
from fedspd.report.numbers import at_most, reported, seed_words
from fedspd.report.of_runs.evaluation import evaluation_sections, inference_sections
from fedspd.report.of_runs.terminal import DIVERGED, beaten, privacy_statement
from fedspd.report.page import Cell, Chart, Grid, Page, Section, merged_environment
from fedspd.report.statement.sections import statement_sections
from fedspd.results import ABOUT, RunRecord, Summary, words
from fedspd.results.summary import SHARE

HEADLINES = (
    "algorithm", "guarantee", "epsilon", "delta", "epsilon_spent_max", "test_accuracy", "test_accuracy_average",
    "test_explained",    "rounds", "clients", "participants", "uploads", "seed",
)  # fmt: skip
GROUPS = {"test": "On the test set", "privacy": "Privacy", "run": "The run"}
NAMED_IN_TITLE = 5
DIAGNOSTICS = (
    "These numbers need the training records. Only a simulation knows them, they carry no noise, and the guarantee "
    "does not cover them. Do not publish them for real records."
)


def runs_page(runs: Mapping[str, RunRecord]) -> Page:
    """Privacy of every run, curves, numbers, diagnostics apart from what is public, configurations; runs by name."""
    return _several(runs) if len(runs) > 1 else _single(*next(iter(runs.items())))


def _single(name: str, run: RunRecord) -> Page:
    summary = run.summary
    accuracy, lagrangian, privacy = run_charts(summary, run.history)
    about = (
        f"{summary.title}: {summary.clients} clients, {summary.participants} per round, {summary.rounds} rounds, "
        f"{seed_words(summary)}."
    )
    stopped = (f"Stopped {summary.stopped}.",) if summary.stopped else ()
    stopped += (f"Diverged: {DIVERGED}.",) if summary.diverged else ()
    stopped += (f"Beware: {beaten(summary)}.",) if beaten(summary) else ()
    groups: dict[str, list[tuple[Cell, ...]]] = {group: [] for group in GROUPS}
    for field, value in _numbers_of(summary, "public").items():
        groups[ABOUT[field].group].append((words(field), _cell(field, value)))
    diagnostic = [(words(field), _cell(field, value)) for field, value in _numbers_of(summary, "diagnostic").items()]
    return Page(
        title=f"Run {name}",
        privacy=(_privacy(run),),
        sections=(
            *(() if run.statement is None else statement_sections(run.statement, run.outdated)),
            Section(
                "Results", (about, *stopped), (accuracy, privacy),
                tuple(Grid(GROUPS[group], ("what", "value"), tuple(rows)) for group, rows in groups.items()),
            ),
            Section(
                "Diagnostics", (DIAGNOSTICS,), (lagrangian,),
                (
                    Grid("After the last round", ("what", "value"), tuple(diagnostic), DIAGNOSTIC),
                    *_conditions({name: run}),
                ),
            ),
            *evaluation_sections(run.evaluations),
            *inference_sections(run.inferences),
        ),
        configurations=((name, run.configuration),),
        environment=run.environment,
    )  # fmt: skip


def _several(runs: Mapping[str, RunRecord]) -> Page:
    accuracy, lagrangian, privacy = _overlaid(runs)
    return Page(
        title=f"{len(runs)} runs: {', '.join(runs)}" if len(runs) <= NAMED_IN_TITLE else f"{len(runs)} runs",
        privacy=tuple(f"{name}: {_privacy(run)}" for name, run in runs.items()),
        sections=(
            Section("Results", (), (accuracy, privacy), _compared(runs, "public")),
            Section("Diagnostics", (DIAGNOSTICS,), (lagrangian,), (*_compared(runs, "diagnostic"), *_conditions(runs))),
        ),
        configurations=tuple((name, run.configuration) for name, run in runs.items()),
        environment=merged_environment({name: run.environment for name, run in runs.items()}),
    )


def _privacy(run: RunRecord) -> str:
    """What a run claims; where later releases raised it, what its statement claims now."""
    told, claim = privacy_statement(run.summary), None if run.statement is None else run.statement["guarantee"]
    if claim is not None and claim["standing"] == "proved" and claim["epsilon"] > (run.summary.epsilon or 0.0):
        told += f" With what was released after the run: ({at_most(claim['epsilon'])}, {claim['delta']:g})."
    return f"{told} {run.outdated}".rstrip()


def _overlaid(runs: Mapping[str, RunRecord]) -> tuple[Chart, ...]:
    """The charts of all runs over each other: of every chart the first series of each run, under the run's name."""
    charts = [run_charts(run.summary, run.history) for run in runs.values()]
    names = list(runs)
    claims = [f"{name} ({run.summary.guarantee}, delta {run.summary.delta:g})" for name, run in runs.items()]
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


def _compared(runs: Mapping[str, RunRecord], kind: str) -> tuple[Grid, ...]:
    """One row per run with the headlines and whatever differs; the rest is said once."""
    found = {name: _numbers_of(run.summary, kind) for name, run in runs.items()}
    first = next(iter(found.values()))
    fields = list(dict.fromkeys(field for numbers in found.values() for field in numbers))
    differing = [field for field in fields if any(numbers.get(field) != first.get(field) for numbers in found.values())]
    shown = [field for field in HEADLINES if field in fields]
    shown += [field for field in differing if field not in shown]
    rows = tuple((name, *(_cell(field, numbers.get(field)) for field in shown)) for name, numbers in found.items())
    rest = tuple((words(field), _cell(field, first.get(field))) for field in fields if field not in shown)
    note = DIAGNOSTIC if kind == "diagnostic" else ""
    grids = (
        Grid("After the last round", ("run", *map(words, shown)), rows, note),
        Grid("The same in all runs", ("what", "value"), rest, note),
    )
    return tuple(grid for grid in grids if grid.rows)


def _numbers_of(summary: Summary, kind: str) -> dict[str, Any]:
    """What a summary says in one number or word, of one kind; what is nested is shown elsewhere or not at all."""
    said: dict[str, Any] = {**summary.to_dict(), "algorithm": summary.title}
    nested = {"title", "columns", "convergence", "conditions"}
    flat = {**said, **(said["convergence"] or {})}
    return {field: value for field, value in flat.items() if ABOUT[field].kind == kind and field not in nested}


def _conditions(runs: Mapping[str, RunRecord]) -> tuple[Grid, ...]:
    """The conditions of the convergence theorem, held against the runs that were asked about them."""
    rows = tuple(
        (name, condition, "holds" if met.holds else "fails", met.detail)
        for name, run in runs.items()
        if run.summary.convergence is not None
        for condition, met in run.summary.convergence.conditions.items()
    )
    return (
        (Grid("Conditions of Theorem 2", ("run", "condition", "outcome", "detail"), rows, DIAGNOSTIC),) if rows else ()
    )


def _cell(field: str, value: Any) -> Cell:
    """A value as people read it: shares in percent, bounds rounded to their safe side."""
    about = ABOUT[field]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is not None and about.unit == SHARE:
        return 100 * value
    if isinstance(value, float) and about.rounding != "nearest":
        return reported(value, up=about.rounding == "up")
    return value
