"""A durable ledger between a simulation and its releases."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fedspd.config import Config
from fedspd.data import Shards
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan
from fedspd.privacy.accounting import Event

if TYPE_CHECKING:  # a run without a ledger starts without SQLite
    from fedspd.privacy.ledger import Ledger

MOMENTS = "moments"  # what the ledger calls their release
SECRET = 2**64  # seeds from here on are drawn, not chosen


@dataclass(frozen=True)
class Identity:
    """Which run this is, where it may be cut off and go on."""

    key: str  # of its settings, the program and the records: with the seed, it fixes every release
    resumed: bool = False  # whether charges of before are its own
    drawn: int | None = None  # the seed, where it was drawn and somebody keeps it for as long as the run takes

    def on(self, records: str) -> "Identity":
        """The same on some of the records only, told by a digest."""
        return replace(self, key=hashlib.blake2b(f"{self.key} {records}".encode(), digest_size=16).hexdigest())


@dataclass(frozen=True)
class LedgerGate:
    """A ledger for one run's clients, as the engine sees it. Round 0 is the release of moments."""

    ledger: "Ledger"
    plan: ProvedPlan
    run: str
    method: str
    names: tuple[tuple[str, ...], ...]  # of the client in each place, or of the members of the cohort there
    paid: Mapping[int, frozenset[str]] = field(default_factory=dict)  # by round, before this run was cut off

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        """Charge each client its own event, or all members of a cohort theirs, or none of them; durable on return.

        A round that was paid for before the run was cut off is the same release again: same draws, same records, same
        program. Whoever paid then takes part, nobody else, and nobody pays twice.
        """
        if round in self.paid:
            return self._all_in(clients, self.paid[round])
        events = self._events(round, clients)
        if len(events) > len(clients):
            events = self._events(round, clients[self._all_in(clients, self.ledger.affordable(events))])
        granted = self.ledger.charge(self.run, round, self.method if round else MOMENTS, events).granted
        return self._all_in(clients, granted)

    def charge_all(self, round: int) -> bool:
        """Charge every client, or none if one of them has no budget for it."""
        everyone = np.arange(len(self.names))
        if round in self.paid:
            return bool(self.charge(round, everyone).all())
        events = self._events(round, everyone)
        return len(self.ledger.affordable(events)) == len(events) and bool(self.charge(round, everyone).all())

    def _all_in(self, places: np.ndarray, names: Iterable[str]) -> np.ndarray:
        known = set(names)
        return np.array([known.issuperset(self.names[place]) for place in places.tolist()], dtype=bool)

    def _events(self, round: int, places: np.ndarray) -> dict[str, Event]:
        return {name: self._event(round, place) for place in places.tolist() for name in self.names[place]}

    def _event(self, round: int, place: int) -> Event:
        group = self.plan.groups[self.plan.group[place]]
        return group.event if round or group.moments is None else group.moments


class OnLedger(NamedTuple):
    """What a ledger calls the clients of a run."""

    deal: str  # how the records were dealt
    places: tuple[tuple[str, ...], ...]  # the client in each place of the plan, or the members of the cohort there
    own: bool  # whether the table brings clients of its own


def on_ledger(
    config: Config,
    shards: Shards,
    own: tuple[str, tuple[str, ...]] | None = None,
    cohorts: tuple[np.ndarray, ...] | None = None,
) -> OnLedger:
    """Names that say how the records were dealt: budgets belong to records.

    Args:
        own: where the table brings clients of its own, what it tells them apart by, and their names. Whatever
            part of its records such a client trains on, it is charged for all of them.
        cohorts: members of those that stand in the clients' places of the plan; None: each client in its own.
    """
    deal = _deal(config, shards) if own is None else f"own {own[0].replace('@', '%40')}"
    clients = own[1] if own is not None else tuple(f"client-{number}" for number in range(shards.clients))
    names = tuple(f"{client}@{deal}" for client in clients)
    places = tuple((name,) for name in names)
    if cohorts is not None:
        places = tuple(tuple(names[client] for client in each.tolist()) for each in cohorts)
    return OnLedger(deal, places, own is not None)


def open_gate(
    ledger: "Ledger",
    plan: ProvedPlan,
    config: Config,
    called: OnLedger,
    epsilon: float | None = None,
    identity: Identity | None = None,
) -> LedgerGate:
    """Enter every client with its budget and its plan.

    A run that deals the records otherwise than earlier ones is refused. The run is named by its seed: another run with
    the same seed would draw the same noise again, and is refused too, also where the first one was killed half way;
    unless it is that one, resumed.

    Args:
        called: names of the clients.
        epsilon: what a client may spend in all its runs on this ledger; None: what the plan spends.
        identity: which run this is, where it may go on after it was cut off.
    """
    from fedspd.privacy.ledger import Budget

    run, places, resumed = run_name(config, identity), called.places, identity is not None and identity.resumed
    _check_unused(ledger, run, called.deal, config, resumed)
    if called.own and ledger.accounts and not {name for names in places for name in names} & {*ledger.accounts}:
        raise InputError(
            f"clients must be called as in the earlier runs on this ledger, got none of its {len(ledger.accounts)}: "
            "records under another name could spend two budgets; use the names of before, or name a new ledger."
        )
    budgets, plans, most = {}, {}, plan.most_participations.tolist()
    for place, (members, budget) in enumerate(zip(places, plan.budgets.tolist(), strict=True)):
        total, alone = budget if epsilon is None else epsilon, config.privacy.epsilon_alone
        allowed = Budget(total, plan.delta, plan.relation, alone, plan.unit)  # pyright: ignore[reportArgumentType]
        budgets |= dict.fromkeys(members, allowed)
        plans |= dict.fromkeys(members, plan.history(int(plan.group[place]), most[place]))
    ledger.enter(budgets, plans)
    paid = ledger.charged_in(run, (config.algorithm.name, MOMENTS)) if resumed else {}
    return LedgerGate(ledger, plan, run, config.algorithm.name, places, paid)


def _check_unused(ledger: "Ledger", run: str, deal: str, config: Config, resumed: bool) -> None:
    """Refuse draws that were used before, but by this very run, and records that were dealt otherwise."""
    seed = _seed_name(config)
    used = {charged.run for charged in ledger.charges() if charged.run.split("/")[0] == seed}
    if used - ({run} if resumed else set()):
        raise InputError(
            f"a noise draw is used once, got run.seed = {config.run.seed} for the second time on this ledger; choose "
            "another seed."
        )
    if any(name.rpartition("@")[2] != deal for name in ledger.accounts):
        raise InputError(
            "the records must be dealt to clients as in the earlier runs on this ledger, got another deal, under which "
            "a record could spend two budgets; set partition.seed to the seed of the first run, or name a new ledger."
        )


def run_name(config: Config, identity: Identity | None = None) -> str:
    """After the seed and, where it may be resumed, after all else that its releases follow from."""
    return _seed_name(config) if identity is None else f"{_seed_name(config)}/{identity.key[:16]}"


def _seed_name(config: Config) -> str:
    """Of a seed; one that was drawn must not be read from a ledger, so only its digest stands there."""
    seed = config.seed
    if seed < SECRET:
        return f"seed-{seed}"
    return f"drawn-{hashlib.blake2b(str(seed).encode(), digest_size=8).hexdigest()}"


def _deal(config: Config, shards: Shards) -> str:
    """A short name of which client holds which record: the owner of every row of the data, whatever decided it."""
    order = np.arange(len(shards.labels)) if shards.order is None else shards.order
    order = order[np.lexsort((order, np.repeat(np.arange(shards.clients), shards.rows)))]  # whatever is protected
    source = f"{config.data.name} {config.data.split} ".encode()  # rows are numbered within what is trained on
    rows = (np.ascontiguousarray(array, "<i8").tobytes() for array in (shards.offsets, order))
    return hashlib.blake2b(source + b"".join(rows), digest_size=8).hexdigest()
