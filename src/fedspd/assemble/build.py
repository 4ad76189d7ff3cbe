"""A configuration made concrete: data dealt out, method and plan built, nothing run yet."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from fedspd.algorithms import Algorithm, Made, Public
from fedspd.config import Config
from fedspd.config.sections import Partition
from fedspd.data import Holdings, Shards, Table, hold_out, split
from fedspd.engine import Simulation, stream
from fedspd.engine.spending import Gate
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan
from fedspd.privacy.ledger import Ledger
from fedspd.problem import LOSSES, Objective, make_regularizer, reference_solver

AnyPlan = TypeVar("AnyPlan", bound=PublishedPlan | ProvedPlan)

PARTITION_OPTIONS = ("alpha", "at_least", "shards_per_client", "column", "exponent")


@dataclass(frozen=True)
class Experiment:
    """What a run needs, and what its summary says besides the simulation."""

    config: Config
    simulation: Simulation
    plan: PublishedPlan | ProvedPlan
    made: Made
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    gate: Gate | None = None


class Agreed(NamedTuple, Generic[AnyPlan]):
    """What follows from settings and public numbers alone, and is the same for the server and every client."""

    made: Made
    plan: AnyPlan

    @property
    def algorithm(self) -> Algorithm:
        """The method at work."""
        return self.made.algorithm

    @property
    def rounds(self) -> int:
        """T."""
        return self.made.rounds


def prepare_experiment(config: Config, open_ledger: Callable[[], Ledger] | None = None) -> Experiment:
    """Load, deal out and check everything; refuses bad input before any work is done.

    Args:
        config: what to build.
        open_ledger: gives the ledger that every proved release is charged to, opened only when everything
            else was found good; None keeps counts in memory.
    """
    from fedspd.assemble import proved, published

    method = config.algorithm.method
    if method.guarantee == "proved":
        return proved.build(config, open_ledger)
    if open_ledger is not None:
        raise InputError(
            f"a ledger takes proved events only, got the method {method.name!r}, whose guarantee is "
            f"{method.guarantee!r}; leave out --ledger."
        )
    return published.build(config)


def agree(config: Config, holdings: Holdings, columns: int, classes: int) -> Agreed[Any]:
    """What server and clients of one run agree on before any record is seen.

    Args:
        config: the settings; `partition.clients` is the number of clients.
        holdings: how many records each client has.
        columns: of the features, a bias included.
        classes: of the label.
    """
    from fedspd.assemble import proved, published

    if config.algorithm.method.guarantee == "proved":
        return proved.agree(config, holdings, columns, classes)
    return published.agree(config, holdings, columns, classes)


def settings_of(config: Config) -> dict[str, Any]:
    """What every simulation takes from its configuration as it stands there."""
    if config.metrics.criterion and not config.metrics.lagrangian:
        raise InputError(
            "metrics.criterion needs every client's average over the rounds, got metrics.lagrangian = false; set "
            "metrics.criterion = false too."
        )
    return {
        "batch_size": config.algorithm.work.batch_size,
        "participants": config.run.participants,
        "seed": config.run.seed,
        "objective_every": config.metrics.objective_every,
        "spent_every_round": config.metrics.spent_every_round,
        "lagrangian": config.metrics.lagrangian,
        "min_participants": config.partition.clients
        if config.algorithm.method.needs.everybody
        else config.run.min_participants,
        "same_participants": config.run.selection == "fixed",
        "most_stale": config.run.most_stale,
    }


def measured_on(config: Config, train: Table, test: Table) -> tuple[Table, Table]:
    """What is trained on and what models are measured on."""
    return hold_out(train) if config.data.split == "validation" else (train, test)


def deal(config: Config, train: Table) -> Shards:
    """The training records, handed out to clients."""
    return _dealt(train, config.partition, deal_seed(config), config.problem.counts)


@lru_cache(maxsize=2)  # runs of a sweep that share a seed share the deal
def _dealt(train: Table, partition: Partition, seed: int, counts: Any) -> Shards:
    options = {key: getattr(partition, key) for key in PARTITION_OPTIONS}
    shards = split(
        train,
        partition.kind,
        partition.clients,
        stream(seed, "partition"),
        **{key: value for key, value in options.items() if value is not None},
    )
    return replace(shards, counts=counts)


def deal_seed(config: Config) -> int:
    """The seed that decides which client holds which record."""
    return config.run.seed if config.partition.seed is None else config.partition.seed


def public_numbers(
    config: Config, holdings: Holdings, columns: int, classes: int, plan: PublishedPlan | None = None
) -> Public:
    """What a method is made from."""
    check_needs(config)
    privacy, run = config.privacy, config.run
    return Public(
        objective=client_objective(config, classes),
        row_norm=config.data.row_norm,
        columns=columns,
        holdings=holdings,
        clients=averaged_clients(config),
        participants=run.participants,
        rounds=run.rounds,
        most_participations=run.most_participations,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        budget=privacy.budget,
        graphs=stream(deal_seed(config), "topology"),
        plan=plan,
    )


def client_objective(config: Config, classes: int) -> Objective:
    """The loss and one client's regularizer."""
    problem = config.problem
    loss = LOSSES[problem.loss](classes)
    regularizer = make_regularizer(problem.regularizer, problem.strength, problem.ratio)
    regularizer = regularizer.scaled(1 / config.partition.clients if problem.per_client == "share" else 1.0)
    if config.metrics.criterion:
        reference_solver(loss, regularizer, config.partition.clients)  # refuses now what it could not solve later
    return Objective(loss, regularizer, problem.clip_norm)


def check_needs(config: Config) -> None:
    """Refuse rounds and participants that a method does not have."""
    method, run = config.algorithm.method, config.run
    if method.needs.one_round and (run.rounds or 1) != 1:
        raise InputError(f"{method.name} has one round, got run.rounds = {run.rounds}; set it to 1.")
    if method.needs.everybody and run.participants != config.partition.clients:
        raise InputError(
            f"{method.name} needs every client in every round, got run.participants = {run.participants} of "
            f"{config.partition.clients}; set it to {config.partition.clients}."
        )


def averaged_clients(config: Config) -> int:
    """How many clients a server that averages the latest uploads of all averages over."""
    return config.run.participants if config.run.selection == "fixed" else config.partition.clients
