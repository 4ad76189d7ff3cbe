"""The pages that the browser is shown: real runs, a study, and one that means harm."""

import csv
from pathlib import Path

from fedspd.report import Chart, Grid, Measured, Page, Section, Series, render
from tests.support.command import run_all

SMALL = ("--set", "metrics.criterion=false", "--quiet", "--out", "run")
CASES: dict[str, tuple[str, ...]] = {
    "proved": ("run", "--set", "run.rounds=4", *SMALL),
    "published": ("run", "published", "--set", "run.rounds=9", *SMALL),
    "other": ("run", "published", "--set", "run.rounds=9", "--set", "run.seed=1", *SMALL),
    "one": ("report", "../proved/run", "--out", "page.html"),
    "three": ("report", "../proved/run", "../published/run", "../other/run", "--out", "page.html"),
}
HOSTILE = """</script></title></style>--><img src=x onerror="window.hit=1"><script>window.hit=1</script>'"$title&amp;"""


def write_pages(folder: Path) -> None:
    """Make the runs and all pages."""
    assert {name: done.err for name, done in run_all(folder, CASES).items()} == dict.fromkeys(CASES, "")
    for name, made in (("study", study()), ("hostile", hostile_page())):
        (folder / name).mkdir()
        page(folder, name).write_text(render(made), "utf-8")


def study() -> Page:
    """Eight charts with bands and a wide, long table."""
    x = tuple(100.0 * place for place in range(1, 21))
    charts = tuple(
        Chart(
            f"Accuracy on partition {place}", "communication round", "test accuracy, %",
            tuple(
                Series(
                    name, x, tuple(base + 10 - 2000 / at for at in x), tuple(base + 9 - 2000 / at for at in x),
                    tuple(base + 11 - 2000 / at for at in x),
                )
                for name, base in (("FedSPD-DP, released state", 74.0), ("a method of another paper", 62.0))
            ),
            references=(("majority class", 76.4),), log_x=place % 2 == 0, markers=place % 2 == 0,
        )
        for place in range(8)
    )  # fmt: skip
    rows = tuple(
        (
            f"method {place}", "a partition by labels", 10.0 ** (place % 4 - 2), Measured(80 - place / 7, 0.06, 2),
            (place * 37) % 40 * 100, None if place % 5 == 0 else place / 3, "replace-one neighbors, whole shards",
        )
        for place in range(40)
    )  # fmt: skip
    columns = ("method", "partition", "epsilon", "accuracy", "uploads", "seconds", "privacy")
    sections = (
        Section("Curves", ("Means of seeds.",), charts),
        Section("Numbers", (), (), (Grid("All", columns, rows),)),
    )
    return Page("A study of methods", ("All of it is proved.",), sections, (("study", "seeds = 10"),), {"python": "3"})


def hostile_page() -> Page:
    """The same bad name wherever a name can stand."""
    chart = Chart(
        HOSTILE, HOSTILE, HOSTILE, (Series(HOSTILE, (1.0, 2.0), (1.0, 2.0)),), ((HOSTILE, 1.0),), note=HOSTILE
    )
    grid = Grid(HOSTILE, (HOSTILE, "number"), ((HOSTILE, 1), ("=1+1", 2)), HOSTILE)
    sections = (Section(HOSTILE, (HOSTILE,), (chart,), (grid,)), Section("Second"))
    return Page(HOSTILE, (HOSTILE,), sections, ((HOSTILE, HOSTILE),), {HOSTILE: {HOSTILE: HOSTILE}})


def page(root: Path, name: str) -> Path:
    """Where a page lies."""
    return root / name / "page.html"


def history(root: Path, run: str, column: str) -> list[float]:
    """A column of the history of a run, as its folder has it."""
    with (root / run / "run" / "history.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file)]
