"""A configuration made concrete: one way from cells to a run, in which nothing has been played yet.

Records are declared, dealt out, and scaled: by moments that were released and paid for where the guarantee is proved.
Only then is there a simulation, complete and checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fedspd.algorithms import Made
from fedspd.algorithms.base import FlipsLabels
from fedspd.assemble.agreement import Agreed, agree
from fedspd.assemble.agreement.published import check_scaling
from fedspd.assemble.cohorts import asked, cohorts_of, pooled
from fedspd.assemble.deal import deal, measured_on
from fedspd.assemble.encoding import encoded
from fedspd.assemble.engines import check_engine
from fedspd.assemble.gate import LedgerGate, open_gate
from fedspd.assemble.scaling import Memory, scaled_by_release
from fedspd.assemble.settled import own_clients, settle
from fedspd.config import Config
from fedspd.data import (
    SOURCES,
    Cells,
    Holdings,
    Recipe,
    Shards,
    Table,
    check_bias,
    check_confirmed,
    declare,
    prepare,
    recipe_as_published,
)
from fedspd.engine import Simulation, check_run, stream
from fedspd.engine.arrivals import Members
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
    recipe: Recipe
    holdings: Holdings  # of the clients
    gate: LedgerGate | None = None


def prepare_experiment(
    config: Config,
    open_ledger: Callable[[], Ledger] | None = None,
    cells: Cells | None = None,
    ledger_epsilon: float | None = None,
    known: Memory | None = None,
) -> Experiment:
    """Load, deal out and check everything; refuses bad input before any work is done.

    Args:
        config: what to build.
        open_ledger: gives the ledger that every proved release is charged to, opened only when everything
            else was found good; None keeps counts in memory.
        cells: the records, where they are in memory; None: as `data.name` says.
        ledger_epsilon: what a client may spend on the ledger in all its runs; None: the epsilon of this one.
        known: scaled records of earlier runs, where many share them.
    """
    method = config.algorithm.method
    check_measures(config)
    check_engine(config)
    if open_ledger is not None and method.guarantee != "proved":
        raise InputError(
            f"a ledger takes proved events only, got the method {method.name!r}, whose guarantee is "
            f"{method.guarantee!r}; leave out --ledger."
        )
    if open_ledger is None and ledger_epsilon is not None:
        raise InputError("ledger_epsilon belongs to a ledger, got it without one; name a ledger or leave it out.")
    if cells is None:
        cells = SOURCES[config.data.name].read(config.data.source)
    settled = settle(config, cells)
    cells = encoded(settled, cells)
    if method.guarantee == "proved":
        made = _proved(settled, cells, open_ledger, ledger_epsilon, known)
    else:
        made = _published(settled, cells)
    shown = replace(settled.run, seed=config.run.seed)  # one that was drawn is kept nowhere
    return replace(made, config=replace(settled, run=shown))


def check_measures(config: Config) -> None:
    """Refuse measures that rest on others which are left out."""
    if config.metrics.criterion and not config.metrics.lagrangian:
        raise InputError(
            "metrics.criterion needs every client's average over the rounds, got metrics.lagrangian = false; set "
            "metrics.criterion = false too."
        )


def _published(config: Config, cells: Cells) -> Experiment:
    data = config.data
    check_scaling(config)
    prepared = prepare(cells, data.scaling, data.bias, data.row_norm)  # pyright: ignore[reportArgumentType]
    train, test = measured_on(config, *prepared)
    shards = deal(config, train)
    agreed = agree(config, shards.holdings, len(train.columns), train.predicted)
    recipe = recipe_as_published(cells, data.scaling, data.bias, data.row_norm)  # pyright: ignore[reportArgumentType]
    simulation = _simulation(config, agreed, shards, test)
    return Experiment(config, simulation, agreed.plan, agreed.made, recipe, shards.holdings)


def _proved(
    config: Config,
    cells: Cells,
    open_ledger: Callable[[], Ledger] | None,
    ledger_epsilon: float | None,
    known: Memory | None,
) -> Experiment:
    check_confirmed(cells.schema)
    declared = declare(cells)
    train, test = measured_on(config, declared.train, declared.test)
    dealt, width = deal(config, train), len(train.columns) + (config.data.bias != 0)
    cohorts = cohorts_of(config)
    units = pooled(dealt, cohorts)
    agreed = agree(config, units.holdings, width, train.predicted)
    run, batch_size = config.run, config.algorithm.work.batch_size
    check_bias(config.data.bias, config.data.row_norm or 0.0)
    check_run(units.holdings, width, agreed.algorithm, agreed.plan, batch_size, asked(config), run.most_stale)
    own = (cells.schema.client or "file", own_clients(train)) if config.partition.kind == "own" else None
    gate = None
    if open_ledger is not None:
        gate = open_gate(open_ledger(), agreed.plan, config, dealt, own, ledger_epsilon, cohorts)
    shards, test, mean, deviation = scaled_by_release(config, declared, units, test, agreed.plan, gate, known)
    if isinstance(agreed.algorithm, FlipsLabels):
        shards = flip_labels(shards, agreed.algorithm.flip_chance, stream(config.seed, "labels"))
    members = None if cohorts is None else cohorts.behind(dealt.holdings, config.run.absence)
    simulation = _simulation(config, agreed, shards, test, members)
    recipe = Recipe(cells.schema, "unit", mean, deviation, config.data.bias, config.data.row_norm)
    return Experiment(config, simulation, agreed.plan, agreed.made, recipe, dealt.holdings, gate)


def _simulation(
    config: Config, agreed: Agreed[Any], shards: Shards, test: Table | None, members: Members | None = None
) -> Simulation:
    run, metrics = config.run, config.metrics
    everybody = config.algorithm.method.needs.everybody
    return Simulation(
        shards=shards,
        test=test,
        algorithm=agreed.algorithm,
        plan=agreed.plan,
        batch_size=config.algorithm.work.batch_size,
        participants=asked(config),
        rounds=agreed.rounds,
        seed=config.seed,
        objective_every=metrics.objective_every,
        spent_every_round=metrics.spent_every_round,
        lagrangian=metrics.lagrangian,
        min_participants=asked(config) if everybody else run.min_participants,
        same_participants=run.selection == "fixed",
        most_stale=run.most_stale,
        members=members,
    )
