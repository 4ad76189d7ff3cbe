"""The page of a reproduction: the verdict, then the paper's figures, each with both variants."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import tomli_w

from fedspd.algorithms import label
from fedspd.config import changed
from fedspd.report.figures import DIAGNOSTIC, ROUND
from fedspd.report.page import Chart, Grid, Page, Section, Series
from fedspd.results import environment, mean_over_seeds
from fedspd.studies.folder import StudyReport
from fedspd.studies.reproduce.run import Lines, Reproduced
from fedspd.studies.reproduce.verdict import Verdict
from fedspd.studies.tuning import PROTOCOL

VARIANTS = {"published": "as published", "proved": "proved"}
STATEMENTS = {
    "published": (
        "Curves marked “as published” carry the epsilon that the paper states. No bound is proved for them: un-noised "
        "state is carried from round to round, a clipping bound is taken from the records themselves, and the total is "
        "a formula without a proof. Do not rely on it for real records."
    ),
    "proved": (
        "Curves marked “proved”: every epsilon is an upper bound for one record of a client under replace-one "
        "neighbors, against anyone who sees every upload and every model, the server included, with Gaussian noise on "
        "every release, recomposed by the tight accountant; scaling is charged."
    ),
}


def reproduction_study(reproduced: Sequence[Reproduced], verdicts: Sequence[Verdict], seeds: int) -> StudyReport:
    """Verdict, curves, and a figure for every panel."""
    return StudyReport(
        page=reproduction_page(reproduced, verdicts, seeds),
        told=(verdict_overview(verdicts),) if verdicts else (),
        grids={"verdict": verdict_grid(verdicts)} if verdicts else {},
        figures={f"{item.study.figure}-{item.study.name}": study_charts(item) for item in reproduced},
        data={"curves": curves_grid(reproduced)},
    )


def reproduction_page(reproduced: Sequence[Reproduced], verdicts: Sequence[Verdict], seeds: int) -> Page:
    """Privacy, verdict, figures, what was tuned, and every study's configurations."""
    variants = dict.fromkeys(item.study.variant for item in reproduced)
    tuned = any(lines.chosen for item in reproduced for lines in item.lines)
    privacy = [STATEMENTS[variant] for variant in variants] + ([PROTOCOL] if tuned else [])
    sections = (
        [Section("Verdict", _about_verdicts(seeds), grids=(verdict_overview(verdicts), verdict_grid(verdicts)))]
        if verdicts
        else []
    )
    for figure, items in groupby(reproduced, key=lambda item: item.study.figure):
        sections.append(_figure_section(figure, list(items), seeds))
    return Page(
        title="Reproduction of Section V",
        privacy=tuple(privacy),
        sections=tuple(sections),
        configurations=tuple(
            (
                f"{item.study.figure}, {item.study.name}: {_name(lines)}",
                tomli_w.dumps(changed(lines.curve.config, lines.chosen).to_dict()),
            )
            for item in reproduced
            for lines in item.lines
        ),
        environment=environment(),
    )


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """One row per claim and variant."""
    columns = ("claim", "variant", "verdict", "measured", "test", "p (Holm)", "source")
    rows = tuple(
        (v.claim, VARIANTS[v.variant], v.verdict, v.measured, v.test, _p(v.p_value), v.source) for v in verdicts
    )
    return Grid("What was measured", columns, rows, PROTOCOL)


def verdict_overview(verdicts: Sequence[Verdict]) -> Grid:
    """One row per claim, one column per variant."""
    found = {(v.claim, v.variant): v.verdict for v in verdicts}
    rows = tuple(
        (claim, *(found.get((claim, variant)) for variant in VARIANTS))
        for claim in dict.fromkeys(v.claim for v in verdicts)
    )
    return Grid("The paper's claims", ("claim", *VARIANTS.values()), rows)


def study_charts(item: Reproduced) -> tuple[Chart, ...]:
    """Accuracy and ALFV against rounds, or the total loss."""
    panel = f"{item.study.title} ({VARIANTS[item.study.variant]})"
    if item.study.measure == "privacy":
        series = tuple(Series(_name(lines), _floats(lines.rounds), _floats(lines.loss)) for lines in item.lines)
        note = "Of a client that took part in its share of the rounds."
        return (Chart(panel, ROUND, "total epsilon", series, markers=True, note=note),)
    majority = 100 * item.lines[0].results[0].summary["majority_accuracy"]
    accuracy = tuple(_band(_name(lines), 100 * lines.column("test_accuracy")) for lines in item.lines)
    alfv = tuple(_band(_name(lines), lines.column("alfv_per_client")) for lines in item.lines)
    return (
        Chart(f"{panel}: accuracy", ROUND, "test accuracy, %", accuracy, (("majority class", majority),)),
        Chart(f"{panel}: ALFV", ROUND, "augmented Lagrangian per client", alfv, note=DIAGNOSTIC),
    )


def curves_grid(reproduced: Sequence[Reproduced]) -> Grid:
    """Every point of every curve, tidy, for one's own figures."""
    rows: list[tuple[Any, ...]] = []
    for item in reproduced:
        for chart in study_charts(item):
            for series in chart.series:
                name = (item.study.figure, item.study.name, chart.y_label, series.name)
                high = np.array(series.y if series.high is None else series.high, dtype=float)
                errors = (high - np.array(series.y, dtype=float)).tolist()
                rows += [(*name, *point) for point in zip(series.x, series.y, errors, strict=True)]
    return Grid("Curves", ("figure", "panel", "measure", "curve", "round", "mean", "s.e."), tuple(rows))


def _figure_section(figure: str, items: list[Reproduced], seeds: int) -> Section:
    trained = items[0].study.measure == "runs"
    text = (f"Lines are means over {seeds} seeds, bands one standard error.",) if trained else ()
    grid = _tuned_grid(items)
    charts = tuple(chart for item in items for chart in study_charts(item))
    return Section(f"Figure {figure.removeprefix('fig')}", text, charts, (grid,) if grid.rows else ())


def _tuned_grid(items: list[Reproduced]) -> Grid:
    rows = tuple(
        (item.study.title, VARIANTS[item.study.variant], _name(lines), _settings(lines.chosen))
        for item in items
        for lines in item.lines
        if lines.chosen
    )
    return Grid("Chosen on the validation split, not charged", ("panel", "variant", "curve", "settings"), rows)


def _about_verdicts(seeds: int) -> tuple[str, ...]:
    return (
        f"Every claim that Section V and the remarks of the paper state, tested on {seeds} seeds. A claim about random "
        "results holds if a one-sided test rejects its contrary at 5 % after Holm’s correction over all tests of its "
        "variant: Page’s trend test over the seeds, or Student’s t on differences paired by seed. Accuracies are means "
        "over the last ten rounds, with standard errors.",
    )


def _name(lines: Lines) -> str:
    """What a curve is called: a reconstruction says so."""
    return label(lines.curve.config.algorithm.name, lines.curve.label)


def _band(name: str, values: np.ndarray) -> Series:
    """Mean over seeds with one standard error around it."""
    mean, error = mean_over_seeds(values)
    error = np.zeros_like(mean) if len(values) == 1 else error
    rounds = _floats(np.arange(1, values.shape[1] + 1))
    return Series(name, rounds, _floats(mean), _floats(mean - error), _floats(mean + error))


def _floats(values: np.ndarray | None) -> tuple[float, ...]:
    assert values is not None
    return tuple(values.astype(float).tolist())


def _settings(chosen: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.partition('.')[2]} {value:.4g}" for name, value in chosen.items())


def _p(value: float | None) -> str | None:
    return None if value is None else f"{value:.2g}"
