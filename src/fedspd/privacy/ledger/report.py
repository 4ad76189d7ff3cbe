"""What a ledger says: each client's budget, what was charged to it, and what still fits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, to_dict
from fedspd.privacy.accounting.spending import upper_epsilon
from fedspd.privacy.ledger.accounts import Charged
from fedspd.privacy.ledger.file import damaged
from fedspd.privacy.ledger.ledger import Ledger
from fedspd.privacy.ledger.terms import Budget, Rule, by_own_noise, rule_for


@dataclass(frozen=True)
class Statement:
    """One client's standing.

    `epsilon` recomposes all events at the budget's delta as if they had been fixed beforehand; what is
    guaranteed, also for events chosen along the way, is the budget. `rule` says what covers the history so
    far, and `room` how many more releases of an event fit. `reserved_delta` is the part of delta that is kept for
    the plan the client entered with: events outside the plan must do with the rest. `epsilon_alone` is what the events
    cost if everybody else colludes; None where no noise is shared, and epsilon holds so.
    """

    client: str
    budget: Budget
    charged: tuple[Charged, ...]
    epsilon: float
    epsilon_alone: float | None
    rule: Rule | None
    reserved_delta: float
    room: Mapping[Event, int]

    def as_dict(self) -> dict[str, Any]:
        """The statement as values JSON can hold."""
        return {
            "client": self.client,
            "budget": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "epsilon_alone": self.budget.epsilon_alone,
            },
            "relation": self.budget.relation,
            "unit": self.budget.unit,
            "epsilon": self.epsilon,
            "epsilon_alone": self.epsilon_alone,
            "delta": self.budget.delta,
            "rule": self.rule,
            "reserved_delta": self.reserved_delta,
            "charged": [charged.as_dict() for charged in self.charged],
            "room": [{"event": to_dict(event), "count": count} for event, count in self.room.items()],
        }


class Verified(NamedTuple):
    """An intact ledger: its rows, of which `clients` enter a client, and the hash of the last one."""

    rows: int
    clients: int
    charges: int
    head: str


def show(ledger: Ledger, event: Event | None = None) -> list[Statement]:
    """Every client's standing, in the order of entry.

    Args:
        event: the event whose room is asked for; default: each event the client planned or was charged.
    """
    charged: dict[str, list[Charged]] = {}
    for item in ledger.charges():
        charged.setdefault(item.client, []).append(item)
    statements = []
    for client, account in ledger.accounts.items():
        asked = [event] if event else list({**account.terms.caps, **account.history})
        statements.append(
            Statement(
                client=client,
                budget=account.terms.budget,
                charged=tuple(charged.get(client, ())),
                epsilon=_epsilon(frozenset(account.history.items()), account.terms.budget.delta),
                epsilon_alone=_alone(account.history, account.terms.budget.delta),
                rule=rule_for(account.terms, account.history),
                reserved_delta=account.terms.planned_delta,
                room={each: ledger.room(client, each) for each in asked},
            )
        )
    return statements


def verify(path: Path | str, noted: str | None = None) -> Verified:
    """Check a ledger from end to end.

    Guarantees:
        A damaged or edited file, and one in which a client is charged more than its budget allows, is refused.
        A file that lacks the row with the hash `noted` is refused: it is older than the note, or forged.
    """
    with Ledger(path) as ledger:
        over = [name for name, account in ledger.accounts.items() if not rule_for(account.terms, account.history)]
        if over:
            raise damaged(ledger.path, f"charges beyond the budget of {over[0]!r}")
        if noted is not None and not ledger.has_hash(noted):
            raise InputError(
                f"expected the row with hash {noted} in {path}, got {ledger.head.rows} rows without it; the file is "
                "older than the note or not the same ledger: restore the newer one."
            )
        clients = len(ledger.accounts)
        return Verified(ledger.head.rows, clients, ledger.head.rows - clients, ledger.head.hash)


def describe(event: Event) -> str:
    """An event in a few words."""
    kind, *values = to_dict(event).items()
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values if value is not None)
    return f"{kind[1]} ({told})"


@lru_cache(maxsize=1 << 12)
def _epsilon(history: frozenset[tuple[Event, int]], delta: float) -> float:
    return upper_epsilon(dict(history), delta, "pld")


def _alone(history: Mapping[Event, int], delta: float) -> float | None:
    own = by_own_noise(history)
    return None if own == history else _epsilon(frozenset(own.items()), delta)
