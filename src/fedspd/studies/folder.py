"""A study on disk: its page, its tables as CSV and Markdown, its figures."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedspd.errors import InputError
from fedspd.report import Chart, Grid, Page, draw, save_report, to_png
from fedspd.report.of_runs.folders import STUDY_FILE, read_study
from fedspd.report.page import to_json
from fedspd.report.text import grid_csv, grid_markdown
from fedspd.results import WORK_FILE, RunFolder, read_work

SWEEP_FILE = "sweep.toml"
STUDIES = (("reproduce",), ("compare",))  # commands that write one


@dataclass(frozen=True)
class StudyReport:
    """All that is written of a study."""

    page: Page
    told: tuple[Grid, ...]  # in the terminal
    grids: Mapping[str, Grid]  # by file name
    figures: Mapping[str, tuple[Chart, ...]] = field(default_factory=dict)  # by file name
    data: Mapping[str, Grid] = field(default_factory=dict)  # by file name, as CSV only
    private: bool = False  # of records of somebody's own: for the owner of the folder alone


def check_study_folder(folder: Path) -> None:
    """Refuse what is neither a new folder nor one that holds a page that a study wrote, or a study that was cut off.

    A sweep's folder holds rows that may have taken long, so it is never replaced.
    """
    if _holds(folder, SWEEP_FILE):
        raise InputError(
            f"the output folder must be new or hold an earlier study, got the sweep {folder}; name another."
        )
    if _holds(folder, WORK_FILE) and read_work(folder).command in STUDIES:
        RunFolder(folder, replaces=WORK_FILE)
        return
    RunFolder(folder, replaces=STUDY_FILE)  # whether it can be written
    with suppress(InputError):
        read_study(folder)
        return
    RunFolder(folder)


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
