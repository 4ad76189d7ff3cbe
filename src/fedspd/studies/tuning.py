"""Step sizes by one protocol for every method: equal grids, one validation split, equal numbers of trials.

The models of the trials are never released, but which trial won depends on the records: what is
chosen here is **not charged** to any budget, and every table that rests on it says so.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedspd.algorithms import Method
from fedspd.algorithms.method import TuningGrid
from fedspd.config import Config, changed
from fedspd.errors import InputError
from fedspd.studies.jobs import run_all

SEEDS = (1000, 1001, 1002, 1003)  # never used for results
POINTS = 9
TRIALS = POINTS * len(SEEDS)  # of every tuned configuration
PROTOCOL = (
    f"Step sizes of every method were chosen on a fixed validation split, a fifth of the training records: the best "
    f"mean accuracy of {len(SEEDS)} seeds over a grid of {POINTS} points, the same number for every method. This "
    "choice is not charged to the budget."
)


def trials(config: Config, grid: TuningGrid | None = None) -> list[Config]:
    """Every point of a grid, the method's own by default, with every seed of the protocol, on the validation split."""
    common = {"data.split": "validation", "metrics.criterion": False, "metrics.objective_every": 10**6}
    return [
        changed(config, {**point, **common, "run.seed": seed})
        for point in grid or config.algorithm.method.grid
        for seed in SEEDS
    ]


def tune(
    configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None, board: bool = False
) -> list[dict[str, Any]]:
    """For each configuration the point of its method's grid with the best mean validation accuracy, first of equals.

    Args:
        configs: what to tune.
        on_run: called after every run.
        board: take the grids of the leaderboard.
    """
    own = [_grid(config.algorithm.method, board) for config in configs]
    results = run_all(
        [trial for config, grid in zip(configs, own, strict=True) for trial in trials(config, grid)], on_run
    )
    score = np.array([result.summary.score or 0.0 for result in results])  # None: it diverged
    means = score.reshape(len(configs), POINTS, len(SEEDS)).mean(axis=-1)
    return [grid[best] for grid, best in zip(own, means.argmax(axis=1), strict=True)]


def _grid(method: Method, board: bool) -> TuningGrid:
    grid = method.board_grid if board and method.board_grid is not None else method.grid
    if len(grid) != POINTS:
        raise InputError(
            f"every method is tuned over {POINTS} points, got {len(grid)} for {method.name}; give its grid as many."
        )
    return grid
