"""A configuration made concrete: one way from cells to a run, in which nothing has been played yet.

Records are declared, dealt out, and scaled: by moments that were released and paid for where the guarantee is proved.
Only then is there a simulation, complete and checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedspd.algorithms import Made
from fedspd.algorithms.base import FlipsLabels
from fedspd.assemble.agreement import Agreed, agree
from fedspd.assemble.deal import deal, measured_on
from fedspd.assemble.engines import check_engine
from fedspd.assemble.gate import LedgerGate, open_gate
from fedspd.assemble.scaling import scaled_by_release
from fedspd.config import Config
from fedspd.data import SOURCES, Shards, Table, check_bias, declare, prepare
from fedspd.engine import Simulation, check_run, stream
from fedspd.engine.release import flip_labels
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan
from fedspd.privacy.ledger import Ledger


@dataclass(frozen=True)
class Experiment:
    """What a run needs, and what its summary says besides the simulation."""

    config: Config
    simulation: Simulation
    plan: PublishedPlan | ProvedPlan
    made: Made
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    gate: LedgerGate | None = None
    scaling: Mapping[str, np.ndarray] = field(default_factory=dict)  # released `mean` and `deviation`, if any


def prepare_experiment(config: Config, open_ledger: Callable[[], Ledger] | None = None) -> Experiment:
    """Load, deal out and check everything; refuses bad input before any work is done.

    Args:
        config: what to build.
        open_ledger: gives the ledger that every proved release is charged to, opened only when everything
            else was found good; None keeps counts in memory.
    """
    method = config.algorithm.method
    check_measures(config)
    check_engine(config)
    if method.guarantee == "proved":
        return _proved(config, open_ledger)
    if open_ledger is not None:
        raise InputError(
            f"a ledger takes proved events only, got the method {method.name!r}, whose guarantee is "
            f"{method.guarantee!r}; leave out --ledger."
        )
    return _published(config)


def check_measures(config: Config) -> None:
    """Refuse measures that rest on others which are left out."""
    if config.metrics.criterion and not config.metrics.lagrangian:
        raise InputError(
            "metrics.criterion needs every client's average over the rounds, got metrics.lagrangian = false; set "
            "metrics.criterion = false too."
        )


def _published(config: Config) -> Experiment:
    data = config.data
    cells = SOURCES[data.name].read(data.source)
    prepared = prepare(cells, data.scaling, data.bias, data.row_norm)  # pyright: ignore[reportArgumentType]
    train, test = measured_on(config, *prepared)
    shards = deal(config, train)
    agreed = agree(config, shards.holdings, len(train.columns), train.predicted)
    return Experiment(
        config, _simulation(config, agreed, shards, test), agreed.plan, agreed.made, train.columns, train.classes
    )


def _proved(config: Config, open_ledger: Callable[[], Ledger] | None) -> Experiment:
    declared = declare(SOURCES[config.data.name].read(config.data.source))
    train, test = measured_on(config, declared.train, declared.test)
    dealt, width = deal(config, train), len(train.columns) + (config.data.bias != 0)
    agreed = agree(config, dealt.holdings, width, train.predicted)
    run, batch_size = config.run, config.algorithm.work.batch_size
    check_bias(config.data.bias, config.data.row_norm or 0.0)
    check_run(dealt.holdings, width, agreed.algorithm, agreed.plan, batch_size, run.participants, run.most_stale)
    gate = None if open_ledger is None else open_gate(open_ledger(), agreed.plan, config, dealt)
    shards, test, released = scaled_by_release(config, declared, dealt, test, agreed.plan, gate)
    if isinstance(agreed.algorithm, FlipsLabels):
        shards = flip_labels(shards, agreed.algorithm.flip_chance, stream(run.seed, "labels"))
    simulation = _simulation(config, agreed, shards, test)
    return Experiment(config, simulation, agreed.plan, agreed.made, test.columns, test.classes, gate, released)


def _simulation(config: Config, agreed: Agreed[Any], shards: Shards, test: Table) -> Simulation:
    run, metrics = config.run, config.metrics
    everybody = config.algorithm.method.needs.everybody
    return Simulation(
        shards=shards,
        test=test,
        algorithm=agreed.algorithm,
        plan=agreed.plan,
        batch_size=config.algorithm.work.batch_size,
        participants=run.participants,
        rounds=agreed.rounds,
        seed=run.seed,
        objective_every=metrics.objective_every,
        spent_every_round=metrics.spent_every_round,
        lagrangian=metrics.lagrangian,
        min_participants=config.partition.clients if everybody else run.min_participants,
        same_participants=run.selection == "fixed",
        most_stale=run.most_stale,
    )
