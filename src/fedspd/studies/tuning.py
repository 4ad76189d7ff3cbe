"""Step sizes by one protocol for every method: equal grids, one validation split, equal numbers of trials.

The models of the trials are never released, but which trial won depends on the records: what is
chosen here is **not charged** to any budget, and every table that rests on it says so.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from fedspd.config import Config, changed
from fedspd.studies.jobs import run_all
from fedspd.studies.lineup import Settings

SEEDS = (1000, 1001, 1002, 1003)  # never used for results
POINTS = 9
TRIALS = POINTS * len(SEEDS)  # of every tuned configuration
PROTOCOL = (
    f"Step sizes of every method were chosen on a fixed validation split, a fifth of the training records: the best "
    f"mean accuracy of {len(SEEDS)} seeds over a grid of {POINTS} points, the same number for every method. This "
    "choice is not charged to the budget."
)

Grid = tuple[Settings, ...]

_OCTAVES = tuple({"algorithm.step_scale": 2.0**power} for power in range(-4, 5))
_DECADES = tuple({"algorithm.inverse_step": 10.0 ** (power / 2)} for power in range(-2, 7))


def square(first: str, firsts: Sequence[float], second: str, seconds: Sequence[float]) -> Grid:
    """All pairs of two settings' values."""
    return tuple({first: a, second: b} for a, b in product(firsts, seconds))


_STEPS = square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.local_steps", (1, 2, 5))
_TWO_STEPS = square("algorithm.inverse_step", (0.1, 1.0, 10.0), "algorithm.penalty", (0.01, 0.1, 1.0))

GRIDS: dict[str, Grid] = {
    "fedspd": _OCTAVES,
    "dp-sgd": _OCTAVES,
    "dp-fedavg": _OCTAVES,
    "dp-admm": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.penalty_share", (0.1, 1 / 3, 2 / 3)),
    "fedspd-published": square("algorithm.penalty", (2.0, 20.0, 200.0), "algorithm.diameter", (1.0, 10.0, 100.0)),
    "dp-admm-published": square("algorithm.penalty", (0.1, 1.0, 10.0), "algorithm.diameter", (1.0, 10.0, 100.0)),
    "dp-sgd-published": _DECADES,
    "dp-fedavg-published": _DECADES,
    "ddp-admm-dvp": _OCTAVES,
    "ddp-admm-pvp": _OCTAVES,
    "ddp-admm-pvp-published": square("algorithm.penalty", (0.1, 1.0, 10.0), "problem.strength", (1.0, 10.0, 100.0)),
    "dp-madmm": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.growth", (1.02, 1.2, 1.5)),
    "dp-radmm": _OCTAVES,
    "dp-aadmm": tuple({"algorithm.penalty": 10.0 ** (power / 2)} for power in range(-6, 3)),
    "dp-lr-admm": _OCTAVES,
    "ps-admm": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.penalty_share", (0.1, 1 / 3, 2 / 3)),
    "multi-step-dp-admm": _STEPS,
    "private-admm": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.relaxation", (0.5, 0.75, 1.0)),
    "dp-scaffold": _STEPS,
    "noisy-prox-gd": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.momentum", (0.0, 0.4, 0.8)),
    "dp-ftrl": square("algorithm.step_scale", (0.4, 1.0, 2.5), "algorithm.bands", (1, 2, 5)),
    "one-shot": _OCTAVES,
    "fedavg": _DECADES,
    "fedprox": _TWO_STEPS,
    "fedpd": _TWO_STEPS,
}


def trials(config: Config, grid: Grid | None = None) -> list[Config]:
    """Every point of a grid, the method's own by default, with every seed of the protocol, on the validation split."""
    common = {"data.split": "validation", "metrics.criterion": False, "metrics.objective_every": 10**6}
    return [
        changed(config, point | common | {"run.seed": seed})
        for point in grid or GRIDS[config.algorithm.name]
        for seed in SEEDS
    ]


def tune(
    configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None, grids: Mapping[str, Grid] = GRIDS
) -> list[Settings]:
    """For each configuration the point of its method's grid with the best mean validation accuracy, first of equals."""
    own = [grids[config.algorithm.name] for config in configs]
    results = run_all(
        [trial for config, grid in zip(configs, own, strict=True) for trial in trials(config, grid)], on_run
    )
    accuracy = np.array([result.summary["test_accuracy"] or 0.0 for result in results])  # None: it diverged
    means = accuracy.reshape(len(configs), POINTS, len(SEEDS)).mean(axis=-1)
    return [grid[best] for grid, best in zip(own, means.argmax(axis=1), strict=True)]
