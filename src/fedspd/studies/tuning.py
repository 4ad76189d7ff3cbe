"""Step sizes by one protocol for every method: equal grids, one validation split, equal numbers of trials.

Every point of a grid is tried with one seed, and the best of them with all seeds. Points of a grid have the same deal
and the same noise, so that one seed is enough to see which are far from the best.

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
from fedspd.studies.jobs import Result, run_possible

SEEDS = (1000, 1001, 1002)  # never used for results
POINTS = 9
FINALISTS = 3
TRIALS = POINTS + FINALISTS * (len(SEEDS) - 1)  # of every tuned configuration
PROTOCOL = (
    "Step sizes of every method were chosen on a fixed validation split, a fifth of the training records: of a grid of "
    f"{POINTS} points the {FINALISTS} with the best accuracy of one seed, and of those the one with the best mean of "
    f"{len(SEEDS)} seeds, the same numbers for every method. This choice is not charged to the budget."
)


def trials(config: Config, points: TuningGrid, seeds: Sequence[int]) -> list[Config]:
    """Every point with every seed, on the validation split; nothing is measured but what decides."""
    common = {
        "data.split": "validation",
        "metrics.criterion": False,
        "metrics.lagrangian": False,
        "metrics.objective_every": 0,
    }
    return [changed(config, {**point, **common, "run.seed": seed}) for point in points for seed in seeds]


def tune(
    configs: Sequence[Config], on_run: Callable[[], Any] = lambda: None, board: bool = False
) -> list[dict[str, Any]]:
    """For each configuration the point of its method's grid with the best mean validation accuracy, first of equals.

    Args:
        configs: what to tune.
        on_run: called after every run.
        board: take the grids of the leaderboard.
    """
    grids = [grid_of(config.algorithm.method, board) for config in configs]
    first = _reached(configs, grids, SEEDS[:1], on_run)
    best = [np.sort(np.argsort(-one[:, 0], kind="stable")[:FINALISTS]) for one in first]
    left = [tuple(grid[i] for i in chosen) for grid, chosen in zip(grids, best, strict=True)]
    later = _reached(configs, left, SEEDS[1:], on_run)
    means = [np.hstack([one[chosen], more]).mean(axis=1) for one, chosen, more in zip(first, best, later, strict=True)]
    return [points[mean.argmax()] for points, mean in zip(left, means, strict=True)]


def _reached(
    configs: Sequence[Config], grids: Sequence[TuningGrid], seeds: Sequence[int], on_run: Callable[[], Any]
) -> list[np.ndarray]:
    """For each configuration (points, seeds): validation accuracies, worst of all where one diverged or cannot be."""
    tried = [trials(config, grid, seeds) for config, grid in zip(configs, grids, strict=True)]
    results = iter(run_possible([trial for own in tried for trial in own], on_run))
    scores = [[_score(next(results)) for _ in own] for own in tried]
    return [np.array(own).reshape(-1, len(seeds)) for own in scores]


def _score(result: Result | InputError) -> float:
    score = None if isinstance(result, InputError) or result.summary.diverged else result.summary.score
    return -np.inf if score is None else score


def grid_of(method: Method, board: bool) -> TuningGrid:
    """The points that a method is tuned over, on the leaderboard or elsewhere."""
    grid = method.board_grid if board and method.board_grid is not None else method.grid
    if len(grid) != POINTS:
        raise InputError(
            f"every method is tuned over {POINTS} points, got {len(grid)} for {method.name}; give its grid as many."
        )
    return grid
