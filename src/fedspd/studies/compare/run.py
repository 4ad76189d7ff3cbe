"""All methods in all situations: tuned by one protocol, then run with every seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedspd.config import Config, changed, load
from fedspd.data import SOURCES, prepare
from fedspd.engine.measuring.measures import optimum_measures
from fedspd.errors import InputError
from fedspd.problem import L1, make_loss
from fedspd.problem.solve import solve
from fedspd.studies.compare.plan import Cell, Ground, Refused, configuration
from fedspd.studies.jobs import Result, run_possible
from fedspd.studies.lineup import UNTUNED
from fedspd.studies.tuning import tune
from fedspd.target import Classes, Count, Number

NEAR = 1e-3  # of the gradient at zero: accuracies are then a few hundredths of a point from the optimum's


@dataclass(frozen=True)
class Entry:
    """What a method reached there."""

    cell: Cell
    config: Config
    chosen: Mapping[str, Any]
    results: tuple[Result, ...]

    def values(self, key: str) -> np.ndarray:
        """A number of the summaries, one per seed; what diverged is nan."""
        return np.array([np.nan if result.summary[key] is None else result.summary[key] for result in self.results])

    @property
    def score(self) -> np.ndarray:
        """Percent, one per seed: accuracy, or what is explained of a number or a count; what diverged is nan."""
        found = (None if result.summary.diverged else result.summary.score for result in self.results)
        return 100 * np.array([np.nan if one is None else one for one in found])


def compare(
    chosen: Sequence[Cell], seeds: int, on_run: Callable[[], Any] = lambda: None
) -> tuple[list[Entry], list[Refused]]:
    """Tune every method in every situation by the same protocol, then run it with every seed.

    Returns:
        What was reached, and which methods some situations are not for: a seed's deal may have a client that a method
        refuses, by its size.
    """
    configs = [configuration(cell) for cell in chosen]
    tuned = [config for cell, config in zip(chosen, configs, strict=True) if cell.method not in UNTUNED]
    found = iter(tune(tuned, on_run, board=True))
    points = [{} if cell.method in UNTUNED else next(found) for cell in chosen]
    final = [changed(config, point) for config, point in zip(configs, points, strict=True)]
    results = run_possible([changed(config, {"run.seed": seed}) for config in final for seed in range(seeds)], on_run)
    entries, refused = [], []
    for i, cell in enumerate(chosen):
        own = results[i * seeds : (i + 1) * seeds]
        reached = tuple(result for result in own if isinstance(result, Result))
        why = next((str(result) for result in own if isinstance(result, InputError)), None)
        if why is None:
            entries.append(Entry(cell, final[i], points[i], reached))
        else:
            refused.append(
                Refused(cell.ground, cell.method, why, f"{cell.deal}, {cell.participation}, {cell.epsilon:g}")
            )
    return entries, refused


@dataclass(frozen=True)
class Central:
    """What the l1 optimum on all records together reaches without privacy."""

    ground: Ground
    score: float  # in percent
    loss: float
    title: str  # of the model
    classes: bool

    @property
    def measure(self) -> str:
        """What the score is."""
        return "accuracy" if self.classes else "explained"

    @property
    def loss_name(self) -> str:
        """What the loss is."""
        return "log-loss" if self.classes else "test loss"


def central(ground: Ground) -> Central:
    """Accuracy, or what is explained, and mean loss of the optimum on all records together."""
    config = load("proved", dict(ground.settings))
    cells = SOURCES[config.data.name].read(config.data.source)
    train, test = prepare(cells, "z-score", 1.0)
    if test is None:
        raise InputError("a comparison measures models, got no records for it; add --test or --test-share.")
    loss = make_loss(config.problem.loss, train.predicted, config.problem.threshold)
    weights = np.full(len(train), ground.clients / len(train))
    regularizer = L1(ground.clients * config.problem.strength)
    best = solve(loss, regularizer, train.features, train.labels, weights, NEAR)
    reached = optimum_measures(loss, test, best)
    classes = isinstance(train.predicted, Classes)
    score = reached["optimum_accuracy" if classes else "optimum_explained"]
    return Central(ground, 100 * score, reached["optimum_loss"], TITLES[type(train.predicted)], classes)


TITLES = {Classes: "l1 logistic regression", Number: "l1 least squares", Count: "l1 Poisson regression"}
