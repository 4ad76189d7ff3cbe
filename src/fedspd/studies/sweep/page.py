"""A sweep as people see it: its page, and all files of its folder."""

import os
import shutil
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path

import tomli_w

from fedspd.algorithms import METHODS, label
from fedspd.report.figures import to_png
from fedspd.report.numbers import at_most
from fedspd.report.of_runs.terminal import protected
from fedspd.report.page import Grid, Page, Section
from fedspd.results import environment
from fedspd.studies.folder import StudyReport, save_study
from fedspd.studies.jobs import on_own_records
from fedspd.studies.relied import colluding, largest_alone
from fedspd.studies.sweep.charts import left_out, sweep_charts, sweep_figure
from fedspd.studies.sweep.plan import Sweep
from fedspd.studies.sweep.points import NOT_CHARGED, SECURE_SUMS, Point, claim_of, points_grid, points_of
from fedspd.studies.sweep.rows import COLUMNS, Row
from fedspd.studies.sweep.tidy import write_csv, write_parquet

MOST_TOLD = 40  # points in the terminal
FIGURE_FILE = "sweep.png"
PROVED = (
    "Runs marked “proved”, trust {trust}, unit {unit}, {relation}: each by itself is (epsilon, delta)-differentially "
    "private with the numbers of its row, for {protected} under {relation} neighbors, with noise on every release, "
)
EACH_UPLOAD = "against anyone who sees every upload and every model of that run, the server included."
SUMS = (
    "against a server, honest or not, that sees sums of cohorts, only if at most {colluding} members of a cohort "
    "collude (colluders, members and threshold of its row) and the cryptography of secure sums holds. Without these "
    "assumptions, by a client's own noise alone, it is (epsilon_alone, delta)-differentially private, with an "
    "epsilon_alone of {alone}."
)
STATEMENTS = {
    "as published": (
        "Runs marked “as published” carry the epsilon that their authors state. No bound is proved for them. Do not "
        "rely on it for real records."
    ),
    "none": "Runs marked “none” have no privacy.",
}
PURE = (
    "Conversion: {methods} release with spherical Laplace noise, so that each round is purely private, but for a small "
    "Gaussian where that noise is in an objective; their epsilon at delta follows from the law of such noise, or from "
    "the epsilons of rounds (docs/accounting.md)."
)
TOGETHER = (
    "A sweep looks at the same records in every run: all of it together has spent more than any one of its runs. "
)


def sweep_study(sweep: Sweep, rows: Sequence[Row], metric: str) -> StudyReport:
    """The page and the table of points."""
    points = points_of(sweep, rows)
    grid = points_grid(sweep, points, metric)
    return StudyReport(
        _page(sweep, points, metric, grid),
        told=(_told(grid, len(sweep.axes) + 1 + len(claim_of(points, metric))),),
        grids={"points": grid},
    )


def save_sweep(study: StudyReport, sweep: Sweep, rows: Sequence[Row], metric: str, folder: Path) -> None:
    """All files of a finished sweep, each complete or not there."""
    for left in folder.glob(".[0-9]*"):  # by a process that was killed here: one at a time is at work in a folder
        shutil.rmtree(left)
    staging = folder / f".{os.getpid()}"
    staging.mkdir()
    try:
        save_study(study, staging)
        figure = sweep_figure(sweep, points_of(sweep, rows), metric)
        (staging / FIGURE_FILE).write_bytes(to_png(figure))
        kinds = {axis.name: type(axis.values[0]) for axis in sweep.axes} | {"seed": int} | COLUMNS
        write_csv(kinds, rows, staging)
        write_parquet(kinds, rows, staging)
        for path in staging.iterdir():
            path.replace(folder / path.name)
    finally:
        shutil.rmtree(staging)


def _page(sweep: Sweep, points: Sequence[Point], metric: str, grid: Grid) -> Page:
    names = " and ".join(axis.name for axis in sweep.axes)
    guarantees = {row["guarantee"] for point in points for row in point.rows}
    names_run = dict.fromkeys(row["algorithm"] for point in points for row in point.rows)
    pure = [label(name) for name in names_run if name in METHODS and METHODS[name].noise == "spherical Laplace"]
    conversion = (PURE.format(methods=", ".join(pure)),) if pure else ()
    text = (
        f"{len(sweep.points)} points, {len(sweep.seeds)} seeds each. Lines are means over seeds, bands one standard "
        "error. Every run is a row of table.csv.",
        *filter(None, [left_out(sweep)]),
    )
    return Page(
        title=f"Sweep of {names}",
        privacy=(
            *_proved([row for point in points for row in point.rows if row["guarantee"] == "proved"]),
            *(text for name, text in STATEMENTS.items() if name in guarantees),
            *conversion,
            TOGETHER + NOT_CHARGED,
            *on_own_records(sweep.configs),
        ),
        sections=(Section(names, text, sweep_charts(sweep, points, metric), (grid,)),),
        configurations=(("sweep", tomli_w.dumps(sweep.declared())),),
        environment=environment(),
    )


def _proved(rows: Sequence[Row]) -> Iterator[str]:
    """A statement for each kind of trust, unit and neighbors that is there."""
    for kind in dict.fromkeys((row["trust"], row["unit"], row["relation"]) for row in rows):
        trust, unit, relation = kind
        mine = [row for row in rows if (row["trust"], row["unit"], row["relation"]) == kind]
        claim = PROVED.format(trust=trust, unit=unit, relation=relation, protected=protected(unit))
        yield claim + (_collusion(mine) if trust == SECURE_SUMS else EACH_UPLOAD)


def _collusion(rows: Sequence[Row]) -> str:
    """What the claim of such rows rests on, and what holds without it."""
    lowest = at_most(min(row["epsilon_alone"] or inf for row in rows))
    highest = largest_alone(rows)
    return SUMS.format(colluding=colluding(rows), alone=lowest if lowest == highest else f"{lowest} to {highest}")


def _told(grid: Grid, kept: int) -> Grid:
    """What a terminal has room for: settings, metric and what a claim rests on, of all points or of the best."""
    rows, title = grid.rows, grid.title
    if len(rows) > MOST_TOLD:
        rows = tuple(row for row in rows if row[-1] == "yes")[:MOST_TOLD]
        title = f"Best of {len(grid.rows)} points; all are in points.csv"
    return Grid(title, (*grid.columns[:kept], "best"), tuple((*row[:kept], row[-1]) for row in rows), grid.note)
