"""A study on disk: its page, its tables as CSV and Markdown, its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedspd.report.comparison import (
    behind_grid,
    by_situation,
    bytes_charts,
    comparison_page,
    epsilon_charts,
    groups,
    leaderboard,
)
from fedspd.report.figures import draw, to_png
from fedspd.report.folders import STUDY_FILE
from fedspd.report.page import Chart, Grid, Page, to_json
from fedspd.report.reproduction import curves_grid, reproduction_page, study_charts, verdict_grid, verdict_overview
from fedspd.report.save import save_report
from fedspd.report.text import grid_csv, grid_markdown
from fedspd.studies import Reproduced, Verdict
from fedspd.studies.compare import Entry


@dataclass(frozen=True)
class StudyReport:
    """All that is written of a study."""

    page: Page
    told: tuple[Grid, ...]  # in the terminal
    grids: Mapping[str, Grid]  # by file name
    figures: Mapping[str, tuple[Chart, ...]]  # by file name
    data: Mapping[str, Grid]  # by file name, as CSV only


def reproduction_study(reproduced: Sequence[Reproduced], verdicts: Sequence[Verdict], seeds: int) -> StudyReport:
    """Verdict, curves, and a figure for every panel."""
    return StudyReport(
        page=reproduction_page(reproduced, verdicts, seeds),
        told=(verdict_overview(verdicts),) if verdicts else (),
        grids={"verdict": verdict_grid(verdicts)} if verdicts else {},
        figures={f"{item.study.figure}-{item.study.name}": study_charts(item) for item in reproduced},
        data={"curves": curves_grid(reproduced)},
    )


def comparison_study(entries: Sequence[Entry], central: tuple[float, float], seeds: int) -> StudyReport:
    """Leaderboard, where our method is behind, and the two figures."""
    return StudyReport(
        page=comparison_page(entries, central, seeds),
        told=(*by_situation(entries, central), behind_grid(entries)),
        grids={"leaderboard": leaderboard(entries, central), "behind": behind_grid(entries)},
        figures=_figures(entries, central),
        data={},
    )


def _figures(entries: Sequence[Entry], central: tuple[float, float]) -> dict[str, tuple[Chart, ...]]:
    """Two for the first company, and two more for each other one."""
    found = {}
    for place, (company, group) in enumerate(groups(entries).items()):
        suffix = "" if place == 0 else "-" + company.lower().replace(" ", "-")
        found[f"accuracy-epsilon{suffix}"] = epsilon_charts(group, central, company)
        found[f"accuracy-bytes{suffix}"] = bytes_charts(group, company)
    return found


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
