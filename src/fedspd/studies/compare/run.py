"""All methods in all situations: tuned by one protocol, then run with every seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedspd.config import Config, changed, load
from fedspd.data import AdultSettings, prepare, read_adult
from fedspd.problem import L1, Softmax, reference_optimum
from fedspd.studies.compare.plan import Cell, configuration
from fedspd.studies.jobs import Result, run_all
from fedspd.studies.lineup import BY_RULE
from fedspd.studies.tuning import tune


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
    def accuracy(self) -> np.ndarray:
        """Percent, one per seed."""
        return 100 * self.values("test_accuracy")


def compare(chosen: Sequence[Cell], seeds: int, on_run: Callable[[], Any] = lambda: None) -> list[Entry]:
    """Tune every method in every situation by the same protocol, then run it with every seed."""
    configs = [configuration(cell) for cell in chosen]
    tuned = [config for cell, config in zip(chosen, configs, strict=True) if cell.method not in BY_RULE]
    found = iter(tune(tuned, on_run, board=True))
    points = [{} if cell.method in BY_RULE else next(found) for cell in chosen]
    final = [changed(config, point) for config, point in zip(configs, points, strict=True)]
    results = run_all([changed(config, {"run.seed": seed}) for config in final for seed in range(seeds)], on_run)
    return [
        Entry(cell, final[i], points[i], tuple(results[i * seeds : (i + 1) * seeds])) for i, cell in enumerate(chosen)
    ]


def central() -> tuple[float, float]:
    """Test accuracy in percent and log-loss of l1 logistic regression on all records together, without privacy."""
    train, test = prepare(read_adult(AdultSettings(log_capital=True)), "z-score", 1.0)
    assert test is not None, "Adult has one"
    config = load("proved")
    clients, strength = config.partition.clients, config.problem.strength
    weights = np.full(len(train), clients / len(train))
    loss = Softmax(2)
    best = reference_optimum(loss, L1(clients * strength), train.features, train.labels, weights)
    scores = test.features @ best
    return 100 * float(np.mean(loss.predict(scores) == test.labels)), float(np.mean(loss.values(scores, test.labels)))
