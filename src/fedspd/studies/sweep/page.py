"""A sweep as people see it: its page, and all files of its folder."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from fedspd.algorithms import METHODS, label
from fedspd.report.figures import to_png
from fedspd.report.page import Grid, Page, Section
from fedspd.results import environment
from fedspd.studies.folder import StudyReport, save_study
from fedspd.studies.jobs import on_own_records
from fedspd.studies.sweep.charts import left_out, sweep_charts, sweep_figure
from fedspd.studies.sweep.plan import Sweep
from fedspd.studies.sweep.points import NOT_CHARGED, Point, points_grid, points_of
from fedspd.studies.sweep.rows import COLUMNS, Row
from fedspd.studies.sweep.tidy import write_csv, write_parquet

MOST_TOLD = 40  # points in the terminal
FIGURE_FILE = "sweep.png"
STATEMENTS = {
    "proved": (
        "Runs marked “proved”: each by itself is (epsilon, delta)-differentially private with the numbers of its row, "
        "for one record of a client under replace-one neighbors, with noise on every release, against anyone who sees "
        "every upload and every model of that run, the server included."
    ),
    "as published": (
        "Runs marked “as published” carry the epsilon that their authors state. No bound is proved for them. Do not "
        "rely on it for real records."
    ),
    "none": "Runs marked “none” have no privacy.",
}
PURE = (
    "Conversion: {methods} release with spherical Laplace noise, so that each round is purely private; their epsilon "
    "at delta follows from the law of such noise, or from the epsilons of rounds (docs/accounting.md)."
)
TOGETHER = (
    "A sweep looks at the same records in every run: all of it together has spent more than any one of its runs. "
)


def sweep_study(sweep: Sweep, rows: Sequence[Row], metric: str) -> StudyReport:
    """The page and the table of points."""
    points = points_of(sweep, rows)
    grid = points_grid(sweep, points, metric)
    return StudyReport(_page(sweep, points, metric, grid), told=(_told(sweep, grid),), grids={"points": grid})


def save_sweep(study: StudyReport, sweep: Sweep, rows: Sequence[Row], metric: str, folder: Path) -> None:
    """All files of a finished sweep, each complete or not there."""
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
            *(text for name, text in STATEMENTS.items() if name in guarantees),
            *conversion,
            TOGETHER + NOT_CHARGED,
            *on_own_records(sweep.configs),
        ),
        sections=(Section(names, text, sweep_charts(sweep, points, metric), (grid,)),),
        configurations=(("sweep", tomli_w.dumps(sweep.declared())),),
        environment=environment(),
    )


def _told(sweep: Sweep, grid: Grid) -> Grid:
    """What a terminal has room for: settings and metric, of all points or of the best."""
    rows, title = grid.rows, grid.title
    if len(rows) > MOST_TOLD:
        rows = tuple(row for row in rows if row[-1] is not None)[:MOST_TOLD]
        title = f"Best of {len(grid.rows)} points; all are in points.csv"
    beyond = len(sweep.axes) + 1
    return Grid(title, (*grid.columns[:beyond], "best"), tuple((*row[:beyond], row[-1]) for row in rows), grid.note)
