"""A study on disk: its page, its tables as CSV and Markdown, its figures."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedspd.errors import InputError
from fedspd.report import Chart, Grid, Page, draw, save_report, to_png
from fedspd.report.folders import STUDY_FILE, read_study
from fedspd.report.page import to_json
from fedspd.report.text import grid_csv, grid_markdown
from fedspd.results import RunFolder

SWEEP_FILE = "sweep.toml"


@dataclass(frozen=True)
class StudyReport:
    """All that is written of a study."""

    page: Page
    told: tuple[Grid, ...]  # in the terminal
    grids: Mapping[str, Grid]  # by file name
    figures: Mapping[str, tuple[Chart, ...]] = field(default_factory=dict)  # by file name
    data: Mapping[str, Grid] = field(default_factory=dict)  # by file name, as CSV only
    private: bool = False  # of records of somebody's own: for the owner of the folder alone


def study_folder(folder: Path) -> RunFolder:
    """Where a study will be written: a new folder, or one that holds a page that a study wrote.

    A sweep's folder holds rows that may have taken long, so it is never replaced.
    """
    RunFolder(folder, replaces=STUDY_FILE if _holds(folder, STUDY_FILE) else SWEEP_FILE)  # whether it can be written
    if _holds(folder, SWEEP_FILE):
        raise InputError(
            f"the output folder must be new or hold an earlier study, got the sweep {folder}; name another."
        )
    try:
        read_study(folder)
    except InputError:
        return RunFolder(folder)
    return RunFolder(folder, replaces=STUDY_FILE)


def _holds(folder: Path, name: str) -> bool:
    try:
        return (folder / name).exists()
    except (OSError, ValueError):  # no name of a folder
        return False


def save_study(study: StudyReport, folder: Path) -> None:
    """page.json and report.html, a CSV and a Markdown file per table, a PNG per figure."""
    (folder / STUDY_FILE).write_text(to_json(study.page))
    save_report(study.page, folder / "report.html")
    for name, grid in study.grids.items():
        (folder / f"{name}.csv").write_text(grid_csv(grid))
        (folder / f"{name}.md").write_text(grid_markdown(grid))
    for name, grid in study.data.items():
        (folder / f"{name}.csv").write_text(grid_csv(grid))
    for name, charts in study.figures.items():
        (folder / f"{name}.png").write_bytes(to_png(draw(charts)))
