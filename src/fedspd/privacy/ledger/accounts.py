"""What the ledger keeps of each client in memory, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, NamedTuple

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, to_dict
from fedspd.privacy.ledger.terms import Budget, BudgetTerms, is_reserved, rule_for

Refusal = Literal["already charged", "budget spent", "delta reserved"]


@dataclass(frozen=True)
class Decision:
    """Who may release, now that it is charged, and why the others may not.

    "Delta reserved" is refused like "budget spent". It says that the whole history would compose within the budget, but
    a part of delta is kept for the plan that the client entered with, and the rest is too little for this event.
    """

    granted: tuple[str, ...]
    refused: Mapping[str, Refusal]


class Charge(NamedTuple):
    """One charge, as one row has it."""

    client: str
    run: str
    round: int
    mechanism: str
    event: Event


@dataclass(frozen=True)
class Charged:
    """How often one event was charged to a client by one mechanism of one run."""

    client: str
    run: str
    mechanism: str
    event: Event
    times: int

    def as_dict(self) -> dict[str, Any]:
        """All but the client, as values JSON can hold."""
        return {"run": self.run, "mechanism": self.mechanism, "event": to_dict(self.event), "count": self.times}


@dataclass
class Account:
    """A client's terms and how often it was charged each event."""

    terms: BudgetTerms
    history: dict[Event, int] = field(default_factory=dict)

    def allows(self, event: Event) -> bool:
        """Whether the terms cover the history with one more event."""
        return rule_for(self.terms, self._with(event)) is not None

    def why_not(self, event: Event) -> Refusal:
        """The reason to refuse one more event that the terms do not cover."""
        return "delta reserved" if is_reserved(self.terms, self._with(event)) else "budget spent"

    def _with(self, event: Event) -> dict[Event, int]:
        return {**self.history, event: self.history.get(event, 0) + 1}


def checked_key(run: str, round: int, mechanism: str) -> tuple[str, int, str]:
    """What a charge is known by, besides its client."""
    require_name("run", run)
    require_name("mechanism", mechanism)
    if not isinstance(round, Integral) or isinstance(round, bool):
        raise InputError(f"round must be a whole number, got {round!r}; count the rounds of the run.")
    return run, int(round), mechanism


def require_name(what: str, name: str) -> None:
    """Refuse what cannot be read on a terminal."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(f"{what} must be a name of printable characters, got {str(name)[:40]!r}; name it.")


def require_same(client: str, declared: Budget, again: Budget) -> None:
    """Refuse a budget that differs from the declared one."""
    if again.unit != declared.unit:
        raise InputError(
            f"the ledger's budget of {client!r} is of every {declared.unit}, got a run that protects every "
            f"{again.unit}: their epsilons do not add up; set privacy.unit = {declared.unit}, or name a new ledger."
        )
    if again != declared:
        raise InputError(
            f"expected the budget of {client!r} as first declared, {declared}, got {again}; a budget that could be "
            "raised would promise nothing: keep it."
        )
