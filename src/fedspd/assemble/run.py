"""Run an experiment and collect what is left of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import config as configuration
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.engines import compiled, pick_engine
from fedspd.assemble.optimum import cached_optimum
from fedspd.assemble.summary import summarize
from fedspd.config import Config, changed
from fedspd.engine import Convergence, Outcome, convergence, simulate
from fedspd.privacy.ledger import Ledger
from fedspd.results import History


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    summary: Mapping[str, Any]
    history: History
    weights: np.ndarray  # after the last round
    average: np.ndarray  # over the last rounds
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    scaling: Mapping[str, np.ndarray] = field(
        default_factory=dict
    )  # released `mean` and `deviation`, where it is known


def run(
    source: str | Path | Config,
    overrides: Mapping[str, Any] | None = None,
    on_round: Callable[[], Any] = lambda: None,
    ledger: Ledger | None = None,
) -> Run:
    """Run a preset, a TOML file or a configuration, e.g. `run("proved", {"run.seed": 1})`.

    Args:
        source: what to run.
        overrides: settings to change, by "section.key".
        on_round: called after every round.
        ledger: what proved releases are charged to; None keeps counts in memory.
    """
    config = source if isinstance(source, Config) else configuration.load(source, overrides)
    return execute(prepare_experiment(config, None if ledger is None else lambda: ledger), on_round)


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
    measured = _convergence(experiment, outcome) if config.metrics.criterion else None
    average = outcome.average(config.run.average_last)
    single = engine == "jax" and not experiment.simulation.algorithm.exact  # noise and states of clients
    summary = summarize(experiment, outcome, average, measured, wall_seconds)
    summary |= {"engine": engine, "precision": "float32" if single else summary["precision"]}
    return Run(config, summary, outcome.history, outcome.weights, average, experiment.columns, experiment.classes)


def _convergence(experiment: Experiment, outcome: Outcome) -> Convergence:
    uses_theorem = experiment.config.algorithm.inverse_step is None
    return convergence(
        experiment.simulation,
        outcome,
        experiment.formulas if uses_theorem else None,
        experiment.config.algorithm.dual_diameter,
        cached_optimum(experiment.simulation),
    )
