"""Write a finished run, figure included, into its folder, and a report into its file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedspd.errors import InputError
from fedspd.report.figures import run_figure, to_png
from fedspd.report.html import render
from fedspd.report.page import Page
from fedspd.results import RunRecord, write_run, write_whole

PICTURE = "run.png"


def save_run(folder: Path, record: RunRecord, model: Mapping[str, np.ndarray]) -> None:
    """config.toml, summary.json, environment.json, history.csv, model.npz and run.png."""
    write_run(folder, record, model)
    draw_run(folder, record)


def draw_run(folder: Path, record: RunRecord) -> None:
    """run.png, of a run that its folder holds already: nothing that was paid for hangs on a picture."""
    write_whole(folder / PICTURE, to_png(run_figure(record.summary, record.history)))


def save_report(page: Page, target: Path) -> None:
    """The page as HTML, complete or not there; an earlier one is replaced."""
    content = render(page).encode()
    try:
        write_whole(target, content)
    except OSError as error:
        raise InputError(
            f"a report is written to a file in a folder that can be written to, got {target}: {error.strerror}; "
            "name another with --out."
        ) from error
