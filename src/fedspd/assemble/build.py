"""A configuration made concrete: one way from cells to a run, in which nothing has been played yet.

Records are declared, dealt out, and scaled: by moments that were released and paid for where the guarantee is proved.
Only then is there a simulation, complete and checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from fedspd.algorithms import Made
from fedspd.algorithms.base import FlipsLabels
from fedspd.assemble.agreement import Agreed, agree
from fedspd.assemble.agreement.published import check_scaling
from fedspd.assemble.cohorts import Cohorts, asked, cohorts_of, pooled, pooled_holdings
from fedspd.assemble.engines import check_engine
from fedspd.assemble.gate import Identity, LedgerGate, OnLedger, on_ledger, open_gate, run_name
from fedspd.assemble.records.deal import deal, measured_on
from fedspd.assemble.records.encoding import encoded
from fedspd.assemble.records.held_out import Apart, check_relation, places_in_plan, set_apart
from fedspd.assemble.records.scaling import Memory, scaled_by_release
from fedspd.assemble.settled import own_clients, settle
from fedspd.config import Config
from fedspd.data import (
    SOURCES,
    Cells,
    Declared,
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
from fedspd.data.holding.held_out import HeldOut
from fedspd.engine import Simulation, check_run, stream
from fedspd.engine.arrivals import Members
from fedspd.engine.release import flip_labels
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan, PublishedPlan

if TYPE_CHECKING:  # a run without a ledger starts without SQLite
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
    held_out: Apart | None = None  # records to measure the model on


def prepare_experiment(
    config: Config,
    open_ledger: "Callable[[], Ledger] | None" = None,
    cells: Cells | None = None,
    ledger_epsilon: float | None = None,
    known: Memory | None = None,
    identity: Identity | None = None,
) -> Experiment:
    """Load, deal out and check everything; refuses bad input before any work is done.

    Args:
        config: what to build.
        open_ledger: gives the ledger that every proved release is charged to, opened only when everything
            else was found good; None keeps counts in memory.
        cells: the records, where they are in memory; None: as `data.name` says.
        ledger_epsilon: what a client may spend on the ledger in all its runs; None: the epsilon of this one.
        known: scaled records of earlier runs, where many share them.
        identity: which run this is, where it may go on after it was cut off.
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
    settled = settle(config, cells, None if identity is None else identity.drawn)
    cells = encoded(settled, cells)
    if method.guarantee == "proved":
        made = _proved(settled, cells, open_ledger, ledger_epsilon, known, identity)
    else:
        made = _published(settled, cells)
    shown = replace(settled.run, seed=config.run.seed)  # one that was drawn is kept nowhere
    return replace(made, config=replace(settled, run=shown))


def shared_by_seeds(config: Config) -> bool:
    """Whether runs that differ in their seed alone have the same records, method and plan.

    Who holds which record follows from it unless the deal has its own, and so does noise on moments and on labels.
    """
    fixed = config.partition.seed is not None and config.run.seed is not None
    return fixed and config.algorithm.method.guarantee != "proved"


def of_seed(experiment: Experiment, config: Config) -> Experiment:
    """What was prepared, for a configuration with another seed: see `shared_by_seeds`."""
    simulation = replace(experiment.simulation, seed=config.seed)
    return replace(experiment, config=replace(experiment.config, run=config.run), simulation=simulation)


def check_measures(config: Config) -> None:
    """Refuse measures that rest on others which are left out."""
    if config.metrics.criterion and not config.metrics.lagrangian:
        raise InputError(
            "metrics.criterion needs every client's average over the rounds, got metrics.lagrangian = false; set "
            "metrics.criterion = false too."
        )


def check_rounds(config: Config, rounds: int, clients: int) -> None:
    """Refuse what a run of so many rounds and clients could not do."""
    last, least = config.run.average_last, config.run.min_participants
    if last is not None and last > rounds:
        raise InputError(f"run.average_last must be at most the number of rounds, {rounds}, got {last}; lower it.")
    if least > clients:
        raise InputError(
            f"run.min_participants must be at most the number of clients, or cohorts, {clients}, got {least}; lower it."
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


class _Planned(NamedTuple):
    """All that is known of a proved run before it is entered on a ledger."""

    config: Config
    declared: Declared
    test: Table | None
    dealt: Shards  # with what clients hold out
    own: tuple[str, tuple[str, ...]] | None  # what tells clients of the table's own apart, and their names
    trained: Shards
    held: tuple[Table, HeldOut] | None
    cohorts: Cohorts | None
    agreed: Agreed[ProvedPlan]

    @property
    def called(self) -> OnLedger:
        """What a ledger calls the clients."""
        members = None if self.cohorts is None else self.cohorts.members
        return on_ledger(self.config, self.dealt, self.own, members)

    def identity(self, before: Identity | None) -> Identity | None:
        """Which run this is; what it holds out is decided by a key that its settings do not tell."""
        return before if before is None or self.held is None else before.on(self.held[1].digest)

    def apart(self, ledger: "Ledger | None", run: str) -> Apart | None:
        """What was held out, with what pays for a look at it."""
        if self.held is None:
            return None
        table, held = self.held
        places = places_in_plan(held.owners, None if self.cohorts is None else self.cohorts.members)
        path = None if ledger is None else ledger.path
        return Apart(
            table, held.weights, held.units, places, self.called.places, self.agreed.plan, run, held.digest, path
        )


def _plan(config: Config, cells: Cells, ledger: "Ledger | None") -> _Planned:
    check_confirmed(cells.schema)
    check_relation(config, cells.train.persons is not None)
    declared = declare(cells)
    train, test = measured_on(config, declared.train, declared.test)
    dealt, width = deal(config, train), len(train.columns) + (config.data.bias != 0)
    own = (cells.schema.client or "file", own_clients(train)) if config.partition.kind == "own" else None
    cohorts, trained, held = cohorts_of(config), dealt, None
    if config.evaluation.held_out is not None:
        table, _ = measured_on(config, cells.train, cells.test)
        trained, found = set_apart(config, table, train, dealt, ledger)
        held = table.rows(found.rows), found
    units = pooled_holdings(trained.holdings, cohorts)
    agreed = agree(config, trained.holdings, width, train.predicted)
    check_bias(config.data.bias, config.data.row_norm or 0.0)
    batch_size = config.algorithm.work.batch_size
    check_run(units, width, agreed.algorithm, agreed.plan, batch_size, asked(config), config.run.most_stale)
    return _Planned(config, declared, test, dealt, own, trained, held, cohorts, agreed)


def _proved(
    config: Config,
    cells: Cells,
    open_ledger: "Callable[[], Ledger] | None",
    ledger_epsilon: float | None,
    known: Memory | None,
    identity: Identity | None,
) -> Experiment:
    # which records are held out is decided by a key beside the ledger, so this one is opened first
    early = open_ledger() if open_ledger is not None and config.evaluation.held_out is not None else None
    planned = _plan(config, cells, early)
    plan, algorithm, cohorts = planned.agreed.plan, planned.agreed.algorithm, planned.cohorts
    gate, known_by = None, planned.identity(identity)
    if open_ledger is not None:
        gate = open_gate(early or open_ledger(), plan, config, planned.called, ledger_epsilon, known_by)
    units = pooled(planned.trained, cohorts)
    shards, test, mean, deviation = scaled_by_release(config, planned.declared, units, planned.test, plan, gate, known)
    if isinstance(algorithm, FlipsLabels):
        shards = flip_labels(shards, algorithm.flip_chance, stream(config.seed, "labels"))
    holdings, batch_size = planned.trained.holdings, config.algorithm.work.batch_size
    members = None if cohorts is None else cohorts.behind(holdings, config.run.absence, batch_size)
    simulation = _simulation(config, planned.agreed, shards, test, members)
    recipe = Recipe(cells.schema, "unit", mean, deviation, config.data.bias, config.data.row_norm)
    apart = planned.apart(None if gate is None else gate.ledger, run_name(config, known_by))
    return Experiment(config, simulation, plan, planned.agreed.made, recipe, holdings, gate, apart)


def held_out_again(config: Config, ledger: "Ledger", run: str) -> Apart:
    """What a run held out, from its configuration and from the key beside its ledger.

    Args:
        config: as the run's folder has it.
        ledger: that the run was charged to.
        run: what the ledger calls it.
    """
    cells = SOURCES[config.data.name].read(config.data.source)
    settled = settle(config, cells)
    cells = encoded(settled, cells)
    apart = _plan(settled, cells, ledger).apart(ledger, run)
    assert apart is not None, "its folder says so"
    return apart


def _simulation(
    config: Config, agreed: Agreed[Any], shards: Shards, test: Table | None, members: Members | None = None
) -> Simulation:
    run, metrics = config.run, config.metrics
    check_rounds(config, agreed.rounds, shards.clients)
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
