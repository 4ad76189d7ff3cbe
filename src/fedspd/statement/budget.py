"""The life of a budget, as a ledger has it: this run, the runs before it, what is left."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, alone, spent
from fedspd.privacy.accounting.groups import all_gaussian
from fedspd.privacy.ledger import Charge, Charged, Ledger
from fedspd.report.numbers import at_most
from fedspd.results import Statement
from fedspd.statement.claim import SUMS, groups
from fedspd.statement.meaning import meaning
from fedspd.typing import SELECTION

Counts = Mapping[Event, int]


def with_ledger(statement: Statement, ledger: Ledger, run: str) -> dict[str, Any]:
    """The statement with the life of the budget, as of the ledger's last row.

    Args:
        run: as the ledger calls it.
    """
    charges = ledger.charges()
    if not any(charged.run == run for charged in charges):
        raise InputError(
            f"expected a ledger with charges of the run {run!r}, got {ledger.path} without; name the ledger that was "
            "charged."
        )
    client = worst_client(charges, statement["guarantee"]["delta"])
    own = [charged for charged in charges if charged.client == client]
    terms = ledger.accounts[client].terms
    history, delta = counted(own), terms.budget.delta
    in_all, in_all_alone = cost(history, delta), cost_alone(history, delta)
    return {
        **statement,
        **_raised(statement, [charged for charged in charges if charged.run == run]),
        "tuning": _tuning(statement, charges, run),
        "budget": {
            "client": client,
            "clients": len(ledger.accounts),
            "epsilon": terms.budget.epsilon,
            "delta": delta,
            "epsilon_alone": terms.budget.epsilon_alone,
            "this_run": cost(counted(charged for charged in own if charged.run == run), delta),
            "others": cost(counted(charged for charged in own if charged.run != run), delta),
            "other_runs": len(runs_of(charges) - {run}),
            "in_all": in_all,
            "in_all_alone": in_all_alone,
            "left": left(terms.budget.epsilon, in_all),
            "charges": [charged.as_dict() for charged in own],
        },
        "ledger": {
            "run": run,
            "rows": ledger.head.rows,
            "head": ledger.head.hash,
            "charges": sum(charged.times for charged in charges if charged.run == run),
        },
    }


def _raised(statement: Statement, this_run: Sequence[Charged]) -> dict[str, Any]:
    """What was spent, measurements included; the claim, where more was charged than planned, as by a second one."""
    claim, trust = statement["guarantee"], statement["trust"]
    worst = worst_client(this_run, claim["delta"])
    history = counted(charged for charged in this_run if charged.client == worst)
    made, made_alone = cost(history, claim["delta"]), cost_alone(history, claim["delta"])
    claim = {**claim, "epsilon_spent": max(made, claim["epsilon_spent"] or 0.0)}
    if made <= claim["epsilon"]:
        return {"guarantee": claim}
    gaussian = claim["gaussian"] and all_gaussian(history)
    told = groups(made, claim["delta"], gaussian, trust["server_sees"] == SUMS)
    return {
        "guarantee": {**claim, "epsilon": made, "gaussian": gaussian, "groups": told},
        "trust": {**trust, "epsilon_alone": made_alone and max(made_alone, trust["epsilon_alone"] or 0.0)},
        "meaning": meaning(made, claim["delta"]),
    }


def runs_of(charges: Sequence[Charged]) -> set[str]:
    """Runs that were charged; a choice between runs is charged under the names of all of them, and is none itself."""
    return {charged.run for charged in charges if charged.mechanism != SELECTION}


def names(charge: Charge | Charged, run: str) -> bool:
    """Whether a charge is of a run, or of a choice between it and others."""
    return charge.run == run or (charge.mechanism == SELECTION and run in charge.run.split(" "))


def _tuning(statement: Statement, charges: Sequence[Charged], run: str) -> dict[str, Any]:
    """Whether this run was one of those that a charged choice was made between."""
    candidates, paid = choices(charges, run)
    if not candidates:
        return statement["tuning"]
    delta = statement["guarantee"]["delta"]
    worst = worst_client(paid, delta)
    together = cost(counted(charged for charged in paid if charged.client == worst), delta)
    told = (
        f"This run was one of {len(candidates)} between which a choice was made by scores with noise, charged to the "
        f"ledger. All candidates and the choice cost at most {at_most(together)} together at delta {delta:g}: that is "
        "what holds for a model that was chosen."
    )
    return {"charged": True, "told": told, "epsilon": together}


def choices(charges: Sequence[Charged], run: str) -> tuple[set[str], list[Charged]]:
    """The runs between which choices were made that name a run, and what these and the choices were charged."""
    between = {one.run for one in charges if one.mechanism == SELECTION and names(one, run)}
    candidates = {each for runs in between for each in runs.split(" ")}
    return candidates, [one for one in charges if one.run in (between if one.mechanism == SELECTION else candidates)]


def counted(charges: Any) -> dict[Event, int]:
    """Events and how often each was charged."""
    found: dict[Event, int] = {}
    for charged in charges:
        found[charged.event] = found.get(charged.event, 0) + charged.times
    return found


def left(budget: float, in_all: float) -> float:
    """A plain difference, never below zero."""
    return max(0.0, budget - in_all)


def cost(history: Counts, delta: float) -> float:
    """What a history costs at the delta of the budget."""
    return float(spent(history, delta).epsilon) if history else 0.0


def cost_alone(history: Counts, delta: float) -> float | None:
    """What it costs if everybody else colludes; None where nobody is relied on."""
    own = counted_alone(history)
    return None if own == dict(history) else cost(own, delta)


def counted_alone(history: Counts) -> dict[Event, int]:
    """The history by a client's own noise alone."""
    found: dict[Event, int] = {}
    for event, count in history.items():
        found[alone(event)] = found.get(alone(event), 0) + count
    return found


def worst_client(charges: Sequence[Charged], delta: float) -> str:
    """The client whose releases cost most; of several, the first."""
    histories: dict[str, dict[Event, int]] = {}
    for charged in charges:
        own = histories.setdefault(charged.client, {})
        own[charged.event] = own.get(charged.event, 0) + charged.times
    first: dict[frozenset[tuple[Event, int]], str] = {}
    for client, history in histories.items():
        first.setdefault(frozenset(history.items()), client)
    largest = {key: client for key, client in first.items() if not _is_exceeded(key, first)}
    return max(largest.items(), key=lambda item: cost(dict(item[0]), delta) if len(largest) > 1 else 0.0)[1]


def _is_exceeded(history: frozenset[tuple[Event, int]], others: Any) -> bool:
    """Whether another client has at least as many of each release: it cannot have spent less."""
    own = dict(history)
    return any(
        all(dict(other).get(event, 0) >= count for event, count in own.items()) for other in others if other != history
    )
