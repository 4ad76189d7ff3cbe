"""Run an experiment and collect what is left of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w

from fedspd import config as configuration
from fedspd.algorithms import METHODS, Method
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.engines import compiled, pick_engine
from fedspd.assemble.optimum import cached_optimum
from fedspd.assemble.records.held_out import Apart
from fedspd.assemble.records.memory import of_records
from fedspd.assemble.summary import summarize
from fedspd.config import Config, changed
from fedspd.data import Recipe, Schema, frame_cells, read_schema
from fedspd.data.frames import is_frame
from fedspd.data.source import OWN_SOURCES
from fedspd.engine import Outcome, convergence, optimum, simulate
from fedspd.engine.keeping import Keeper
from fedspd.engine.measuring.measures import measures_on
from fedspd.errors import InputError
from fedspd.privacy.accounting import Event
from fedspd.problem import loss_name, make_loss
from fedspd.results import Convergence, History, RunRecord, Summary, environment
from fedspd.results.evaluation import Evaluation
from fedspd.results.inference import Inference

if TYPE_CHECKING:  # a run without a ledger starts without SQLite
    from fedspd.privacy.ledger import Ledger


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    summary: Summary
    history: History
    weights: np.ndarray  # after the last round
    average: np.ndarray  # over the last rounds
    recipe: Recipe  # how records became rows
    planned: tuple[tuple[Event, int], ...]  # releases of the client that may spend most; none where nothing is proved
    held_out: Apart | None = None  # records to measure the model on

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
        from fedspd.report.of_runs.inline import run_html

        return run_html(self.summary, self.history)

    def record(self) -> RunRecord:
        """As its folder tells it."""
        facts = None if self.held_out is None else self.held_out.facts()
        configuration = tomli_w.dumps(self.config.to_dict())
        return RunRecord(self.summary, self.history, configuration, environment(), held_out=facts)

    def evaluate(self, *, again: bool = False, **asked: Any) -> Evaluation:
        """Measure the model on the records that were held out, with noise, charged like any other release.

        Args:
            again: measure anew, for another charge, also where this was measured.
            asked: `average`, `bins`, `subgroup`, `least_size`, as of `fedspd evaluate`.
        """
        from fedspd.assemble.finished.evaluation import Asked, evaluate_run
        from fedspd.scoring.model import Model

        question = Asked(**asked)
        weights = self.average if question.average else self.weights
        problem = self.config.problem
        loss = make_loss(problem.loss, self.recipe.schema.target, problem.threshold)
        return evaluate_run(self.held_out, Model(weights, self.recipe, loss), question, again)

    def infer(self, columns: Sequence[str] = ()) -> Inference:
        """Coefficients in original units with intervals, from noised Newton steps on the records that were held out.

        They are charged to the ledger of the run. Another call goes on from where the last one on these columns ended.

        Args:
            columns: of a regression of its own on these alone; none: all of the model's, from its weights on.
        """
        from fedspd.assemble.finished.inference import infer_run
        from fedspd.scoring.model import Model

        loss = make_loss(self.config.problem.loss, self.recipe.schema.target, self.config.problem.threshold)
        return infer_run(self.held_out, Model(self.average, self.recipe, loss), tuple(columns))

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
    ledger: "Ledger | None" = None,
    *,
    schema: Schema | str | Path | None = None,
    client: str | None = None,
    person: str | None = None,
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
        person: of a data frame: the column that says whom a record is about; None: the one in the schema, if any.
        client: of a data frame: the column that names the client of each record; None: the one in the schema, or
            records are dealt to `partition.clients` of the overrides.
        ledger_epsilon: what a client may spend on the ledger in all its runs; None: the epsilon of this one.
    """
    opened = None if ledger is None else lambda: ledger
    if isinstance(source, str | Path | Config | Method):
        if schema is not None or client is not None or person is not None:
            raise InputError(
                "schema, client and person belong to a data frame, got one with something else; leave it out."
            )
        return execute(prepare_experiment(configured(source, overrides or {}), opened, None, ledger_epsilon), on_round)
    if schema is None and not is_frame(source):
        kind = type(source).__name__  # and not the value, which may hold records
        raise InputError(f"expected a preset, a TOML file, a configuration, a method or a data frame, got {kind}.")
    if schema is None:
        raise InputError(
            "a data frame needs a schema, which says what is public about its columns, got none; pass schema=, a "
            "`fedspd.data.Schema` or the path to a schema.toml."
        )
    cells = frame_cells(source, schema if isinstance(schema, Schema) else read_schema(schema), client, person)
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


def execute(experiment: Experiment, on_round: Callable[[], Any] = lambda: None, keeper: Keeper | None = None) -> Run:
    """Run what was prepared; a keeper keeps where it stands."""
    engine = pick_engine(experiment.config, experiment.simulation, 1, experiment.gate is not None)
    begin = time.perf_counter()
    if engine == "jax":
        _, outcome = next(compiled([experiment.simulation], experiment.gate, keeper, on_round))
    else:
        outcome = simulate(experiment.simulation, on_round, experiment.gate, keeper=keeper)
    before = 0.0 if keeper is None else keeper.seconds
    return conclude(experiment, outcome, engine, before + time.perf_counter() - begin)


def on_engine(config: Config, engine: str) -> Config:
    """The configuration with its engine decided; nothing else depends on it, so nothing is read again."""
    return config if config.run.engine == engine else replace(config, run=replace(config.run, engine=engine))


def conclude(
    experiment: Experiment,
    outcome: Outcome,
    engine: str,
    wall_seconds: float,
    measures: Mapping[str, Any] | None = None,
) -> Run:
    """Sum up what a simulation led to; its models are measured on the test set unless that was done."""
    config = on_engine(experiment.config, engine)
    best = _optimum(experiment) if config.metrics.criterion else None
    measured = _convergence(experiment, outcome, best) if config.metrics.criterion else None
    if config.run.seed is None or config.data.name in OWN_SOURCES:
        outcome = replace(outcome, history=_without_clipping(outcome.history))
    average = outcome.average(config.run.average_last)
    if measures is None:
        simulation = experiment.simulation
        measures = measures_on(simulation.test, simulation.algorithm.objective.loss, outcome.weights, average)
    summary = summarize(experiment, outcome, average, measured, best, engine, wall_seconds, measures)
    return Run(
        config,
        summary,
        outcome.history,
        outcome.weights,
        average,
        experiment.recipe,
        tuple(experiment.plan.largest),
        experiment.held_out,
    )


def _optimum(experiment: Experiment) -> np.ndarray | None:
    """Remembered, but for somebody's own records, of which it is a model without noise."""
    own = experiment.config.data.name in OWN_SOURCES
    return optimum(experiment.simulation) if own else cached_optimum(experiment.simulation)


def _without_clipping(history: History) -> History:
    """Nothing that was computed from records is left without noise where the noise is kept secret."""
    return History({**history.columns, "clipped_share": np.full(len(history["round"]), np.nan)})


def _convergence(experiment: Experiment, outcome: Outcome, best: np.ndarray | None) -> Convergence:
    simulation, made = experiment.simulation, experiment.made
    return convergence(simulation, outcome, made.formulas, made.dual_diameter, best)
