"""Write the golden runs anew: `python -m tests.golden.write`. Only where numbers are meant to change."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import run
from fedspd.algorithms import METHODS
from fedspd.config import Config, load
from tests.support.small_runs import SMALL

STEP = {"algorithm.inverse_step": 1.0}
SMOOTH = {"problem.regularizer": "squared-l2"}
EVERYBODY = {"run.participants": 10}
NEEDED: dict[str, dict[str, Any]] = {
    "fedspd": {},
    "dp-sgd": {},
    "dp-fedavg": {"algorithm.local_steps": 2},
    "dp-admm": {},
    "fedspd-published": {},
    "dp-sgd-published": STEP,
    "dp-fedavg-published": STEP,
    "dp-admm-published": {},
    "ddp-admm-dvp": SMOOTH | EVERYBODY,
    "ddp-admm-pvp": SMOOTH | EVERYBODY,
    "ddp-admm-pvp-published": SMOOTH | EVERYBODY,
    "dp-madmm": SMOOTH | EVERYBODY,
    "dp-radmm": SMOOTH | EVERYBODY,
    "dp-aadmm": {},
    "dp-lr-admm": SMOOTH | EVERYBODY,
    "ps-admm": {},
    "multi-step-dp-admm": {"algorithm.local_steps": 2},
    "private-admm": {},
    "dp-scaffold": {"algorithm.local_steps": 2},
    "noisy-prox-gd": {},
    "dp-ftrl": {},
    "one-shot": SMOOTH | {"run.rounds": 1},
    "fedavg": STEP,
    "fedprox": STEP,
    "fedpd": STEP | EVERYBODY,
}
FILE = Path(__file__).parent / "runs.json"
COLUMNS = ("test_accuracy", "weights_norm", "inverse_step", "noise_scale", "participants", "epsilon_max", "alfv")
VARIANTS: dict[str, dict[str, Any]] = {
    "fedspd in batches": {"algorithm.batch_size": 50, "algorithm.local_steps": 2},
    "fedspd with poisson batches": {"algorithm.batch_size": 50, "algorithm.sampling": "poisson"},
    "fedspd by label": {"partition.kind": "dirichlet", "partition.alpha": 0.5},
    "ddp-admm-dvp on a ring": {"algorithm.topology": "ring"},
}
"""Runs beside the plain one of every method; the method's name comes first."""


def golden(what: str) -> dict[str, list[str]]:
    """A run's weights and history, to the last bit."""
    changes = VARIANTS.get(what, {})
    finished = run(settings(what.split()[0], changes))
    values = {"weights": finished.weights.ravel(), "average": finished.average.ravel()}
    values |= {name: np.asarray(finished.history[name], float) for name in COLUMNS}
    return {name: [float(value).hex() for value in array] for name, array in values.items()}


def settings(name: str, changes: dict[str, Any]) -> Config:
    """A small run of a method."""
    preset = "proved" if METHODS[name].guarantee == "proved" else "published"
    usual = {"problem.strength": 0.001} if preset == "proved" else {}  # a tenth of what is usual for a sum over ten
    usual |= {"data.encode": "declared"}  # the columns that these numbers were written down for
    return load(preset, SMALL | NEEDED[name] | {"algorithm.name": name, "run.engine": "numpy"} | changes, usual)


def names() -> list[str]:
    """All golden runs."""
    return [*NEEDED, *VARIANTS]


if __name__ == "__main__":
    FILE.write_text(json.dumps({what: golden(what) for what in names()}, indent=0) + "\n")
