"""Run an experiment and collect what is left of it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.algorithms import METHODS, Method
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.engines import compiled, pick_engine
from fedspd.assemble.memory import of_records
from fedspd.assemble.optimum import cached_optimum
from fedspd.assemble.summary import summarize
from fedspd.config import Config, changed
from fedspd.data import Recipe, Schema, frame_cells, read_schema
from fedspd.data.frames import is_frame
from fedspd.data.source import OWN_SOURCES
from fedspd.engine import Outcome, convergence, optimum, simulate
from fedspd.errors import InputError
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

    def _repr_html_(self) -> str:
        """In a notebook: the privacy statement, the figure, the numbers."""
        from fedspd.report.inline import run_html

        return run_html(self.summary, self.history)

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
    source: Any,
    overrides: Mapping[str, Any] | None = None,
    on_round: Callable[[], Any] = lambda: None,
    ledger: Ledger | None = None,
    *,
    schema: Schema | str | Path | None = None,
    client: str | None = None,
    ledger_epsilon: float | None = None,
) -> Run:
    """Run a preset, a TOML file, a configuration or a method, e.g. `run("proved", {"run.seed": 1})`, or a data frame.

    Args:
        source: what to run; a method of one's own is registered and run with the preset of its guarantee. Of a data
            frame (pandas, polars, Arrow) all records are trained on, under a schema. Unless overrides say otherwise,
            its noise comes from the operating system and nothing is measured that carries none.
        overrides: settings to change, by "section.key".
        on_round: called after every round.
        ledger: what proved releases are charged to; None keeps counts in memory.
        schema: of a data frame: what is public about it, or the path to its `schema.toml`.
        client: of a data frame: the column that names the client of each record; None: the one in the schema, or
            records are dealt to `partition.clients` of the overrides.
        ledger_epsilon: what a client may spend on the ledger in all its runs; None: the epsilon of this one.
    """
    opened = None if ledger is None else lambda: ledger
    if isinstance(source, str | Path | Config | Method):
        if schema is not None or client is not None:
            raise InputError("schema and client belong to a data frame, got them with something else; leave them out.")
        return execute(prepare_experiment(configured(source, overrides or {}), opened, None, ledger_epsilon), on_round)
    if schema is None and not is_frame(source):
        kind = type(source).__name__  # and not the value, which may hold records
        raise InputError(f"expected a preset, a TOML file, a configuration, a method or a data frame, got {kind}.")
    if schema is None:
        raise InputError(
            "a data frame needs a schema, which says what is public about its columns, got none; pass schema=, a "
            "`fedspd.data.Schema` or the path to a schema.toml."
        )
    cells = frame_cells(source, schema if isinstance(schema, Schema) else read_schema(schema), client)
    return execute(prepare_experiment(of_records(cells, overrides or {}), opened, cells, ledger_epsilon), on_round)


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
    best = _optimum(experiment) if config.metrics.criterion else None
    measured = None if best is None else _convergence(experiment, outcome, best)
    if config.run.seed is None or config.data.name in OWN_SOURCES:
        outcome = replace(outcome, history=_without_clipping(outcome.history))
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


def _optimum(experiment: Experiment) -> np.ndarray:
    """Remembered, but for somebody's own records, of which it is a model without noise."""
    own = experiment.config.data.name in OWN_SOURCES
    return optimum(experiment.simulation) if own else cached_optimum(experiment.simulation)


def _without_clipping(history: History) -> History:
    """Nothing that was computed from records is left without noise where the noise is kept secret."""
    return History({**history.columns, "clipped_share": np.full(len(history["round"]), np.nan)})


def _convergence(experiment: Experiment, outcome: Outcome, best: np.ndarray) -> Convergence:
    simulation, made = experiment.simulation, experiment.made
    return convergence(simulation, outcome, made.formulas, made.dual_diameter, best)
