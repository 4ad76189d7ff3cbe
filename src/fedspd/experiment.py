"""From a configuration to a finished run: the only place that picks things by name."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import config as configuration
from fedspd.algorithms import FedSPDPublished
from fedspd.config import Config
from fedspd.data import Shards, Table, prepare, split
from fedspd.engine import Convergence, Outcome, Simulation, convergence, optimum, simulate, stream
from fedspd.errors import InputError
from fedspd.privacy import Published, PublishedPlan, plan_as_published
from fedspd.problem import LOSSES, Objective, make_regularizer, reference_solver
from fedspd.results import COLUMNS, History

PARTITION_OPTIONS = ("alpha", "at_least", "shards_per_client", "column", "exponent")


@dataclass(frozen=True)
class Constant:
    """The same γ in every round."""

    value: float

    def inverse_step(self, round: Any) -> float:
        """γ, whatever the round."""
        return self.value


@dataclass(frozen=True)
class Experiment:
    """A configuration made concrete: data handed out, method and plan built, nothing run yet."""

    config: Config
    simulation: Simulation
    plan: PublishedPlan
    formulas: Published
    columns: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A finished run."""

    config: Config
    summary: Mapping[str, Any]
    history: History
    weights: np.ndarray
    columns: tuple[str, ...]
    classes: tuple[str, ...]


def run(
    source: str | Path | Config,
    overrides: Mapping[str, Any] | None = None,
    on_round: Callable[[], Any] = lambda: None,
) -> Run:
    """Run a preset, a TOML file or a configuration, e.g. `run("published", {"run.seed": 1})`."""
    config = source if isinstance(source, Config) else configuration.load(source, overrides)
    experiment = prepare_experiment(config)
    begin = time.perf_counter()
    outcome = simulate(experiment.simulation, on_round)
    wall_seconds = time.perf_counter() - begin
    measured = _convergence(experiment, outcome) if config.metrics.criterion else None
    summary = summarize(experiment, outcome, measured, wall_seconds)
    return Run(config, summary, outcome.history, outcome.weights, experiment.columns, experiment.classes)


def prepare_experiment(config: Config) -> Experiment:
    """Load, hand out and check everything; refuses bad input before any work is done."""
    _check_clipping(config)
    train, test, shards = load_data(config)
    loss = LOSSES[config.problem.loss](len(train.classes))
    regularizer = _regularizer(config)
    if config.metrics.criterion:
        reference_solver(loss, regularizer, shards.clients)  # refuses now what it could not solve after the run
    dimension = train.features.shape[1] * loss.outputs
    plan = make_plan(config, shards)
    formulas = make_formulas(config, plan, shards, dimension)
    gamma = config.algorithm.inverse_step
    algorithm = FedSPDPublished(
        objective=Objective(loss, regularizer, config.problem.clip_norm),
        clients=shards.clients,
        penalty=config.algorithm.penalty,
        local_steps=config.algorithm.local_steps,
        schedule=formulas if gamma is None else Constant(gamma),
    )
    simulation = Simulation(
        shards=shards,
        test=test,
        algorithm=algorithm,
        plan=plan,
        batch_size=config.algorithm.batch_size,
        participants=config.run.participants,
        rounds=config.run.rounds,
        seed=config.run.seed,
        objective_every=config.metrics.objective_every,
    )
    simulation.check()
    return Experiment(config, simulation, plan, formulas, train.columns, train.classes)


def load_data(config: Config) -> tuple[Table, Table, Shards]:
    """Training and test tables, and the training records dealt to clients."""
    train, test = prepare(**asdict(config.data))
    options = {key: getattr(config.partition, key) for key in PARTITION_OPTIONS}
    shards = split(
        train,
        config.partition.kind,
        config.partition.clients,
        stream(config.run.seed, "partition"),
        **{key: value for key, value in options.items() if value is not None},
    )
    return train, test, shards


def make_plan(config: Config, shards: Shards) -> PublishedPlan:
    """The paper's plan, with the paper's average shard size and expected participations."""
    return plan_as_published(
        config.privacy.epsilon,
        config.privacy.budget,
        config.privacy.delta,
        config.algorithm.sampling,
        config.algorithm.local_steps * config.algorithm.batch_size,
        len(shards.labels) / shards.clients,
        config.run.rounds * config.run.participants / shards.clients,
    )


def make_formulas(config: Config, plan: PublishedPlan, shards: Shards, dimension: int) -> Published:
    """The public numbers behind the paper's γ, σ and Theorem 2."""
    return Published(
        epsilon=plan.epsilon_per_round,
        delta=plan.delta,
        penalty=config.algorithm.penalty,
        local_steps=config.algorithm.local_steps,
        batch_size=config.algorithm.batch_size,
        dimension=dimension,
        participation=config.run.participants / shards.clients,
        gradient_bound=config.problem.clip_norm,
        diameter=config.algorithm.diameter,
        dual_diameter=config.algorithm.dual_diameter,
        gradient_deviation=config.algorithm.gradient_deviation,
    )


def summarize(
    experiment: Experiment, outcome: Outcome, measured: Convergence | None, wall_seconds: float
) -> dict[str, Any]:
    """The numbers a run is remembered by."""
    config, plan, simulation = experiment.config, experiment.plan, experiment.simulation
    shards, history = simulation.shards, outcome.history
    return {
        "algorithm": config.algorithm.name,
        "guarantee": plan.guarantee,
        "epsilon": stated_epsilon(experiment),
        "delta": plan.delta,
        "epsilon_per_round": plan.epsilon_per_round,
        "epsilon_spent_max": history.last("epsilon_max"),
        "epsilon_spent_mean": history.last("epsilon_mean"),
        "unit": "record",
        "relation": plan.relation,
        "sampling": plan.sampling,
        "rounds": simulation.rounds,
        "clients": shards.clients,
        "participants": simulation.participants,
        "participations_max": int(outcome.participations.max()),
        "records_min": int(shards.sizes.min()),
        "records_max": int(shards.sizes.max()),
        "dimension": experiment.formulas.dimension,
        "test_accuracy": history.last("test_accuracy"),
        "majority_accuracy": float(np.bincount(simulation.test.labels).max() / len(simulation.test)),
        "objective": history.last("objective"),
        "alfv": history.last("alfv"),
        "consensus_error": history.last("consensus_error"),
        "weights_norm": history.last("weights_norm"),
        "clipped_share": float(np.mean(history["clipped_share"])),
        "convergence": None if measured is None else asdict(measured),
        "wall_seconds": wall_seconds,
        "seed": simulation.seed,
        "columns": COLUMNS,
    }


def stated_epsilon(experiment: Experiment) -> float:
    """What the paper would state for the whole run: Theorem 1 at the average shard and p T participations."""
    plan, shards, simulation = experiment.plan, experiment.simulation.shards, experiment.simulation
    expected = simulation.rounds * simulation.participants / shards.clients
    return float(plan.spent(expected, len(shards.labels) / shards.clients))


def _check_clipping(config: Config) -> None:
    if config.problem.clip_norm < inf:
        return
    if config.privacy.epsilon < inf:
        raise InputError(
            "problem.clip_norm must be finite when privacy.epsilon is, since noise must cover the largest gradient, "
            "got inf; set a finite clip_norm, or epsilon = inf for no privacy."
        )
    if config.algorithm.inverse_step is None:
        raise InputError(
            "problem.clip_norm must be finite when algorithm.inverse_step is absent, since Theorem 2's step size "
            "depends on it, got inf; set a finite clip_norm or an inverse_step."
        )


def _regularizer(config: Config) -> Any:
    problem = config.problem
    if problem.regularizer == "elastic-net" and problem.ratio > 1:
        raise InputError(f"problem.ratio must be at most 1, got {problem.ratio}.")
    regularizer = make_regularizer(problem.regularizer, problem.strength, problem.ratio)
    return regularizer.scaled(1 / config.partition.clients if problem.per_client == "share" else 1.0)


def _convergence(experiment: Experiment, outcome: Outcome) -> Convergence:
    uses_theorem = experiment.config.algorithm.inverse_step is None
    return convergence(
        experiment.simulation,
        outcome,
        experiment.formulas if uses_theorem else None,
        experiment.config.algorithm.dual_diameter,
        cached_optimum(experiment.simulation),
    )


def cached_optimum(simulation: Simulation) -> np.ndarray:
    """The reference optimum, solved once per problem and kept in the user's cache folder."""
    objective, shards = simulation.algorithm.objective, simulation.shards
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((objective.loss, objective.regularizer, shards.offsets.tolist())).encode())
    digest.update(np.ascontiguousarray(shards.features).data)
    digest.update(np.ascontiguousarray(shards.labels).data)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedspd" / "optima"
    path = home / f"{digest.hexdigest()}.npy"
    if path.exists():
        return np.load(path)
    best = optimum(simulation)
    home.mkdir(parents=True, exist_ok=True)
    staging = path.with_suffix(f".{os.getpid()}.tmp")
    with staging.open("wb") as file:
        np.save(file, best)
    staging.replace(path)
    return best
