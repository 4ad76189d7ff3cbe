"""Run an experiment and collect what is left of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.algorithms import METHODS, Method
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.engines import compiled, pick_engine
from fedspd.assemble.optimum import cached_optimum
from fedspd.assemble.summary import summarize
from fedspd.config import Config, changed
from fedspd.data import Recipe
from fedspd.engine import Outcome, convergence, simulate
from fedspd.privacy.ledger import Ledger
from fedspd.problem import loss_name
from fedspd.results import Convergence, History, RunRecord, Summary, environment


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    summary: Summary
    history: History
    weights: np.ndarray  # after the last round
    average: np.ndarray  # over the last rounds
    recipe: Recipe  # how records became rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the rows of weights."""
        return self.recipe.columns

    @property
    def classes(self) -> tuple[str, ...]:
        """Of the target; none of a number or a count."""
        return self.recipe.schema.target.classes

    def record(self) -> RunRecord:
        """As its folder tells it."""
        return RunRecord(self.summary, self.history, tomli_w.dumps(self.config.to_dict()), environment())

    def model(self) -> dict[str, np.ndarray]:
        """Weights, with the names of their rows and columns, and all that scoring new records needs."""
        named = {"columns": np.asarray(self.columns), "classes": np.asarray(self.classes, str)}
        problem = self.config.problem
        loss = {"loss": np.asarray(loss_name(problem.loss, self.recipe.schema.target))}
        loss |= {"threshold": np.asarray(problem.threshold)}
        return {"weights": self.weights, "average": self.average, **named, **loss, **self.recipe.arrays()}


def run(
    source: str | Path | Config | Method,
    overrides: Mapping[str, Any] | None = None,
    on_round: Callable[[], Any] = lambda: None,
    ledger: Ledger | None = None,
) -> Run:
    """Run a preset, a TOML file, a configuration or a method, e.g. `run("proved", {"run.seed": 1})`.

    Args:
        source: what to run; a method of one's own is registered and run with the preset of its guarantee.
        overrides: settings to change, by "section.key".
        on_round: called after every round.
        ledger: what proved releases are charged to; None keeps counts in memory.
    """
    config = configured(source, overrides or {})
    return execute(prepare_experiment(config, None if ledger is None else lambda: ledger), on_round)


def configured(source: str | Path | Config | Method, overrides: Mapping[str, Any]) -> Config:
    """The configuration that a source and overrides mean."""
    if isinstance(source, Config):
        return changed(source, overrides) if overrides else source
    if isinstance(source, Method):
        METHODS.register(source)
        preset = "proved" if source.guarantee == "proved" else "published"
        return configuration.load(preset, {"algorithm.name": source.name, **overrides})
    return configuration.load(source, overrides)


def execute(experiment: Experiment, on_round: Callable[[], Any] = lambda: None) -> Run:
    """Run what was prepared."""
    engine = pick_engine(experiment.config, experiment.simulation, 1, experiment.gate is not None)
    begin = time.perf_counter()
    if engine == "jax":
        _, outcome = next(compiled([experiment.simulation], experiment.gate))
    else:
        outcome = simulate(experiment.simulation, on_round, experiment.gate)
    return conclude(experiment, outcome, engine, time.perf_counter() - begin)


def conclude(experiment: Experiment, outcome: Outcome, engine: str, wall_seconds: float) -> Run:
    """Sum up what a simulation led to."""
    config = changed(experiment.config, {"run.engine": engine})
    best = cached_optimum(experiment.simulation) if config.metrics.criterion else None
    measured = None if best is None else _convergence(experiment, outcome, best)
    average = outcome.average(config.run.average_last)
    summary = summarize(experiment, outcome, average, measured, best, engine, wall_seconds)
    return Run(
        config,
        summary,
        outcome.history,
        outcome.weights,
        average,
        experiment.recipe,
    )


def _convergence(experiment: Experiment, outcome: Outcome, best: np.ndarray) -> Convergence:
    simulation, made = experiment.simulation, experiment.made
    return convergence(simulation, outcome, made.formulas, made.dual_diameter, best)
