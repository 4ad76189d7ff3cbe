"""Write a finished run, figure included, into its folder."""

from pathlib import Path

import numpy as np

from fedspd.experiment import Run
from fedspd.report.figures import run_figure, to_png
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
        },
        figures={"run": to_png(run_figure(run))},
    )
