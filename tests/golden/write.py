"""Write the golden runs anew: `python -m tests.golden.write`. Only where numbers are meant to change."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import run
from fedspd.algorithms import METHODS
from tests.studies.test_methods import settings

FILE = Path(__file__).parent / "runs.json"
COLUMNS = ("test_accuracy", "weights_norm", "inverse_step", "noise_scale", "participants", "epsilon_max", "alfv")
VARIANTS: dict[str, dict[str, Any]] = {
    "fedspd in batches": {"algorithm__batch_size": 50, "algorithm__local_steps": 2},
    "fedspd with poisson batches": {"algorithm__batch_size": 50, "algorithm__sampling": "poisson"},
    "fedspd by label": {"partition__kind": "dirichlet", "partition__alpha": 0.5},
    "ddp-admm-dvp on a ring": {"algorithm__topology": "ring"},
}
"""Runs beside the plain one of every method; the method's name comes first."""


def golden(what: str) -> dict[str, list[str]]:
    """A run's weights and history, to the last bit."""
    changes = VARIANTS.get(what, {})
    finished = run(settings(what.split()[0], run__engine="numpy", **changes))
    values = {"weights": finished.weights.ravel(), "average": finished.average.ravel()}
    values |= {name: np.asarray(finished.history[name], float) for name in COLUMNS}
    return {name: [float(value).hex() for value in array] for name, array in values.items()}


def names() -> list[str]:
    """All golden runs."""
    return [*METHODS, *VARIANTS]


if __name__ == "__main__":
    FILE.write_text(json.dumps({what: golden(what) for what in names()}, indent=0) + "\n")
