"""Studies made by hand, whose numbers are known, and what all workers of a test session make once."""

import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.config import Config, load
from fedspd.results import COLUMNS, History
from fedspd.studies.compare import ADULT, Cell, Central, Entry, configuration
from fedspd.studies.jobs import Result
from fedspd.studies.reproduce import Curve, Lines, Reproduced, Study, load_studies
from tests.results.made import SUMMARY

SEEDS, ROUNDS, LAST = 4, 30, 10
CENTRAL = Central(ADULT, 84.62, 0.3326, "l1 logistic regression", True)
TINY: dict[str, Any] = {
    "partition.clients": 10, "run.participants": 5, "run.rounds": 2, "metrics.criterion": False,
    "metrics.objective_every": 10**6,
}  # fmt: skip


def tiny(**changes: Any) -> Config:
    """A proved run that takes a tenth of a second; `run__seed=1` changes run.seed."""
    return load("proved", TINY | {name.replace("__", "."): value for name, value in changes.items()})


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that one worker of the session makes and the others find made."""
    root = factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / f"{name}.made").exists():
            folder.mkdir()
            make(folder)
            (root / f"{name}.made").touch()
    return folder


# Its best step size is inside the grid.
STEEP = tiny(algorithm__name="dp-sgd", privacy__epsilon=0.02, run__rounds=20)
# Least squares with steps that are too long for it: after 180 of them nothing is finite any more.
UNSTABLE = load(
    "published",
    {
        "algorithm.name": "fedavg", "algorithm.inverse_step": 0.1, "problem.loss": "least-squares",
        "problem.clip_norm": inf, "partition.clients": 4,
        "run.participants": 4, "run.rounds": 3, "algorithm.local_steps": 60, "metrics.criterion": False,
        "algorithm.batch_size": None,
    },
)  # fmt: skip
SMALL = Study(
    "fig5", "proved-small", "proved", "A small study", "runs",
    (
        Curve("tuned", STEEP, None, True),
        Curve("plain", tiny(), 1.0, False),
        Curve("published", load("published", TINY | {"algorithm.penalty": 5.0}), 2.0, False),
    ),
)  # fmt: skip
SMALL_SEEDS = 2


def result(summary: dict[str, Any], **columns: np.ndarray) -> Result:
    """A run of which only some numbers and columns matter."""
    rounds = len(next(iter(columns.values())))
    return Result(replace(SUMMARY, **summary), History({name: np.zeros(rounds) for name in COLUMNS} | columns))


def wiggled(place: int, seed: int) -> float:
    """What differs from curve to curve and from seed to seed, and on average over four seeds not at all."""
    return (place + (seed if place < 4 else -seed)) % 4 / 10


def rank(study: Study, place: int, seed: int, way: int) -> float:
    """How good a curve is: by the paper's claim (way 1), the other way round (-1), or by a Latin square (0)."""
    wiggle = wiggled(place, seed if "0.1" in study.name else -seed)
    if way == 0:
        return wiggle
    label = study.curves[place].label
    if study.figure != "fig5":
        return way * place + wiggle
    worst = -1.0 if label == "DP-FedAvg" and "0.1" in study.name else 0.0
    return way * (2.0 if label.startswith("FedSPD-DP") else worst) + wiggle


def run_of(study: Study, place: int, seed: int, way: int) -> Result:
    """One run of a curve: the last ten rounds, the objective and the ALFV say what `way` says, the start does not."""
    good, t = rank(study, place, seed, way), np.arange(1.0, ROUNDS + 1)
    accuracy = 0.7 + 0.02 * np.where(t > ROUNDS - LAST, good, -good)
    slope = way if way else (-1) ** seed
    own = study.curves[place].label.startswith("FedSPD-DP")
    return result(
        {"penalty": 20.0, "majority_accuracy": 0.76},
        test_accuracy=accuracy,
        objective=1 - 0.01 * good + np.exp(-0.2 * t * 1.2**good),
        alfv=50.0 - slope * 0.1 * (1 + seed / 10) * t,
        alfv_per_client=0.5 - slope * 0.001 * t,
        inverse_step=np.linspace(100.0, 399.0 if way == 1 else 401.0, ROUNDS),
        noise_scale=np.full(ROUNDS, 1.0 + (0.5 if own else 0.0) * -way),
    )


def loss_of(study: Study, curve: Curve, way: int) -> np.ndarray:
    """The total loss after every round."""
    sizes = {"DP-ADMM": 3.0, "FedSPD-DP, without replacement": 0.5, "FedSPD-DP, with replacement": 0.4}
    share = 1.0 if study.name.endswith("fcp") else 0.2
    return np.arange(1.0, ROUNDS + 1) ** 0.5 * (share * sizes[curve.label]) ** way


def made(study: Study, way: int, seeds: int = SEEDS) -> Reproduced:
    """A study of the paper with numbers that say what `way` says."""
    if study.measure == "privacy":
        rounds = np.arange(1.0, ROUNDS + 1)
        return Reproduced(study, tuple(Lines(c, {}, rounds=rounds, loss=loss_of(study, c, way)) for c in study.curves))
    return Reproduced(
        study,
        tuple(
            Lines(
                curve,
                dict(curve.config.algorithm.method.grid[0]) if curve.tuned else {},
                tuple(run_of(study, place, seed, way) for seed in range(seeds)),
            )
            for place, curve in enumerate(study.curves)
        ),
    )


def paper(way: int, figure: str = "all", seeds: int = SEEDS) -> list[Reproduced]:
    """All panels of a figure."""
    return [made(study, way, seeds) for study in load_studies(figure)]


def entry(cell: Cell, accuracies: list[float | None], seconds: float = 0.5) -> Entry:
    """What a method reached, in shares of one; None: it diverged."""
    results = tuple(
        result(
            {
                "test_accuracy": value, "test_loss": None if value is None else 1 - value, "bytes_uploaded": 648_000,
                "uploads": 500, "rounds": 5, "wall_seconds": seconds,
            },
            test_accuracy=np.linspace(0.5, np.nan if value is None else value, 5),
            participants=np.full(5, 100),
        )
        for value in accuracies
    )  # fmt: skip
    chosen = {"algorithm.step_scale": 0.25} if cell.epsilon < inf else {"algorithm.inverse_step": 1.0}
    return Entry(cell, configuration(cell), chosen, results)
