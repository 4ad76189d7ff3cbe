"""A durable ledger between a simulation and its releases."""

import hashlib
from dataclasses import dataclass

import numpy as np

from fedspd.config import Config
from fedspd.data import Shards
from fedspd.errors import InputError
from fedspd.privacy import ProvedPlan
from fedspd.privacy.accounting import Event
from fedspd.privacy.ledger import Budget, Ledger

SECRET = 2**64  # seeds from here on are drawn, not chosen


@dataclass(frozen=True)
class LedgerGate:
    """A ledger for one run's clients, as the engine sees it. Round 0 is the release of moments."""

    ledger: Ledger
    plan: ProvedPlan
    run: str
    method: str
    names: tuple[str, ...]

    def charge(self, round: int, clients: np.ndarray) -> np.ndarray:
        """Charge each client its own event; durable on return."""
        events = self._events(round, clients)
        granted = set(self.ledger.charge(self.run, round, self.method if round else "moments", events).granted)
        return np.array([name in granted for name in events], dtype=bool)

    def charge_all(self, round: int) -> bool:
        """Charge every client, or none if one of them has no budget for it."""
        everyone = np.arange(len(self.names))
        events = self._events(round, everyone)
        return len(self.ledger.affordable(events)) == len(events) and bool(self.charge(round, everyone).all())

    def _events(self, round: int, clients: np.ndarray) -> dict[str, Event]:
        return {self.names[client]: self._event(round, client) for client in clients.tolist()}

    def _event(self, round: int, client: int) -> Event:
        group = self.plan.groups[self.plan.group[client]]
        return group.event if round or group.moments is None else group.moments


def open_gate(
    ledger: Ledger,
    plan: ProvedPlan,
    config: Config,
    shards: Shards,
    own: tuple[str, tuple[str, ...]] | None = None,
    epsilon: float | None = None,
) -> LedgerGate:
    """Enter every client with its budget and its plan.

    A client's name says how the records were dealt: budgets belong to records, so a run that deals them
    otherwise is refused. The run is named by its seed: another run with the same seed would draw the
    same noise again, and is refused too, also where the first one was killed half way.

    Args:
        own: where the table brings clients of its own, what it tells them apart by, and their names. Whatever
            part of its records such a client trains on, it is charged for all of them.
        epsilon: what a client may spend in all its runs on this ledger; None: what the plan spends.
    """
    deal = _deal(config, shards) if own is None else f"own {own[0].replace('@', '%40')}"
    run = _run_name(config)
    clients = own[1] if own is not None else tuple(f"client-{number}" for number in range(shards.clients))
    names = tuple(f"{client}@{deal}" for client in clients)
    _check_unused(ledger, run, deal, config)
    if own is not None and ledger.accounts and not {*names} & {*ledger.accounts}:
        raise InputError(
            f"clients must be called as in the earlier runs on this ledger, got none of its {len(ledger.accounts)}: "
            "records under another name could spend two budgets; use the names of before, or name a new ledger."
        )
    budgets = {
        name: Budget(budget if epsilon is None else epsilon, plan.delta, plan.relation)  # pyright: ignore[reportArgumentType]
        for name, budget in zip(names, plan.budgets.tolist(), strict=True)
    }
    most = plan.most_participations.tolist()
    plans = {name: plan.history(int(plan.group[i]), most[i]) for i, name in enumerate(names)}
    ledger.enter(budgets, plans)
    return LedgerGate(ledger, plan, run, config.algorithm.name, names)


def _check_unused(ledger: Ledger, run: str, deal: str, config: Config) -> None:
    """Refuse draws that were used before, and records that were dealt otherwise."""
    if any(charged.run == run for charged in ledger.charges()):
        raise InputError(
            f"a noise draw is used once, got run.seed = {config.run.seed} for the second time on this ledger; choose "
            "another seed."
        )
    if any(name.rpartition("@")[2] != deal for name in ledger.accounts):
        raise InputError(
            "the records must be dealt to clients as in the earlier runs on this ledger, got another deal, under which "
            "a record could spend two budgets; set partition.seed to the seed of the first run, or name a new ledger."
        )


def _run_name(config: Config) -> str:
    """After the seed; one that was drawn must not be read from a ledger, so only its digest stands there."""
    seed = config.seed
    if seed < SECRET:
        return f"seed-{seed}"
    return f"drawn-{hashlib.blake2b(str(seed).encode(), digest_size=8).hexdigest()}"


def _deal(config: Config, shards: Shards) -> str:
    """A short name of which client holds which record: the owner of every row of the data, whatever decided it."""
    order = np.arange(len(shards.labels)) if shards.order is None else shards.order
    source = f"{config.data.name} {config.data.split} ".encode()  # rows are numbered within what is trained on
    rows = (np.ascontiguousarray(array, "<i8").tobytes() for array in (shards.offsets, order))
    return hashlib.blake2b(source + b"".join(rows), digest_size=8).hexdigest()
