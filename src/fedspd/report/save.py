"""Write a finished run, figure included, into its folder, and a report into its file."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from fedspd.assemble import Run
from fedspd.errors import InputError
from fedspd.report.figures import run_figure, to_png
from fedspd.report.html import render
from fedspd.report.page import Page
from fedspd.results import write_run


def save_run(run: Run, folder: Path) -> None:
    """config.toml, summary.json, environment.json, history.csv, model.npz and run.png."""
    write_run(
        folder,
        config=run.config.to_dict(),
        summary=run.summary,
        history=run.history,
        model={
            "weights": run.weights,
            "average": run.average,
            "columns": np.asarray(run.columns),
            "classes": np.asarray(run.classes),
            **run.scaling,
        },
        figures={"run": to_png(run_figure(run))},
    )


def save_report(page: Page, target: Path) -> None:
    """The page as HTML, written beside its place and moved there when complete; an earlier one is replaced."""
    place = target.resolve()
    staging = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        staging.write_text(render(page), "utf-8")
        staging.replace(place)
    except OSError as error:
        raise InputError(
            f"a report is written to a file in a folder that can be written to, got {target}: {error.strerror}; "
            "name another with --out."
        ) from error
    finally:
        with suppress(OSError):  # nothing is left of it where all went well
            staging.unlink()
