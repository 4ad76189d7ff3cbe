"""What a ledger records of a run besides its cost, held against a statement: unit, seed, law, sampling, counts.

Costs alone do not say for whom they hold, nor that somebody can subtract the noise. What may have been left out of a
ledger for a good reason, such as a round without records, is only a bound here, so that no honest statement differs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fedspd.privacy.accounting import Event, FixedSize, Laplace, Minimizer, Poisson, from_dict
from fedspd.privacy.ledger import Charged, Ledger
from fedspd.privacy.second_accountant import SLACK, SecondOpinion
from fedspd.results import SITES, Statement
from fedspd.statement.comparison import Comparison
from fedspd.typing import EVALUATION, INFERENCE

MOMENTS = "moments"
ACCOUNTANTS = ("pld", "rdp")
AFTERWARDS = (EVALUATION, INFERENCE)
"""Mechanisms that are charged as often as somebody asks, beyond what was planned: the claim is raised then."""
OWN = "operating system"
SEEDED, DRAWN = "seed-", "drawn-"
"""How the names of simulated runs begin on a ledger: the first can be drawn again by whoever knows the settings."""


def recorded(found: Comparison, statement: Statement, ledger: Ledger, this_run: Sequence[Charged]) -> None:
    """Compare all of it."""
    account = ledger.accounts.get(statement["budget"]["client"])
    if account is not None:
        found.equal("guarantee.unit", statement["guarantee"]["unit"], account.terms.budget.unit)
    found.equal("guarantee.standing", statement["guarantee"]["standing"], "proved")
    accountant = statement["mechanism"]["accountant"]
    found.holds("mechanism.accountant", accountant, accountant in ACCOUNTANTS, ACCOUNTANTS[0])
    _names(found, statement, this_run)
    _planned(found, statement, ledger, this_run)
    _counts(found, statement, ledger, this_run)
    paid = any(charged.mechanism in AFTERWARDS for charged in this_run) or not is_whole(statement)
    charged = statement["evaluation"]["charged"]
    found.holds("evaluation.charged", charged, paid or not charged, False)


def drawn(found: Comparison, statement: Statement, rounds: Sequence[Charged]) -> None:
    """Compare how the records and the noise of a run's rounds were drawn."""
    told, events = statement["mechanism"], {charged.event for charged in rounds}
    law = "Laplace" if any(isinstance(event, Laplace | Minimizer) for event in events) else "Gaussian"
    found.holds("mechanism.noise", told["noise"], law in told["noise"], law)
    kinds = {_sampling(event, told) for event in events}
    found.holds("mechanism.sampling", told["sampling"], told["sampling"] in kinds, min(kinds))
    for event in events:
        if isinstance(event, FixedSize | Poisson) and event.local_steps > 1:
            found.equal("mechanism.local_steps", told["local_steps"], event.local_steps)
        if isinstance(event, FixedSize) and _is_batch(event):
            found.equal("mechanism.batch_size", told["batch_size"], event.drawn // event.local_steps)
        if isinstance(event, Poisson) and event.batch_size is not None:
            found.equal("mechanism.batch_size", told["batch_size"], event.batch_size)
    _records(found, statement, rounds)
    if is_whole(statement):
        _shared(found, statement, events)


def is_whole(statement: Statement) -> bool:
    """Whether one ledger holds all clients of the run, as in a simulation; a site's holds that site alone."""
    return statement["run"]["kind"] == "simulation"


def training(this_run: Sequence[Charged]) -> Iterator[Charged]:
    """Charges of the run itself; those of measurements come afterwards."""
    return (charged for charged in this_run if charged.mechanism not in AFTERWARDS)


def _names(found: Comparison, statement: Statement, this_run: Sequence[Charged]) -> None:
    run, name, chance = statement["run"], statement["ledger"]["run"], statement["randomness"]
    if is_whole(statement):
        found.holds("run.kind", run["kind"], name.startswith((SEEDED, DRAWN)), SITES)
        seed = name.removeprefix(SEEDED).partition("/")[0] if name.startswith(SEEDED) else None
        found.equal("randomness.seed", None if chance["seed"] is None else str(chance["seed"]), seed)
        found.equal("randomness.source", chance["source"], OWN if seed is None else "seed")
    else:
        found.equal("run.name", run["name"], name)
        found.equal("randomness.source", chance["source"], OWN)  # a site with a ledger refuses draws of others
    methods = {charged.mechanism for charged in training(this_run)} - {MOMENTS}
    found.equal("run.method", [run["method"]], [*methods] or [run["method"]])


def _planned(found: Comparison, statement: Statement, ledger: Ledger, this_run: Sequence[Charged]) -> None:
    """Some client must have been charged nothing but what is said to have been planned, and no more often."""
    planned = {from_dict(one["event"]): one["count"] for one in statement["guarantee"]["planned"]}
    neighbors = statement["guarantee"]["neighbors"]
    found.equal("guarantee.planned", sorted({neighbors, *(event.relation for event in planned)}), [neighbors])
    histories: dict[str, dict[Event, int]] = {client: {} for client in ledger.accounts}
    for charged in training(this_run):
        own = histories.setdefault(charged.client, {})
        own[charged.event] = own.get(charged.event, 0) + charged.times
    true = not is_whole(statement) or any(_is_part(history, planned) for history in histories.values())
    found.holds("guarantee.planned", "these releases", true, "others were charged")


def _counts(found: Comparison, statement: Statement, ledger: Ledger, this_run: Sequence[Charged]) -> None:
    run, method = statement["run"], statement["run"]["method"]
    rounds = [charged for charged in this_run if charged.mechanism == method]
    charged = len({charged.client for charged in this_run})
    most = len(ledger.accounts) if is_whole(statement) else run["clients"]
    found.equal("run.clients", run["clients"], min(max(run["clients"], charged), most))
    found.at_least("run.rounds", run["rounds"], len(ledger.charged_in(statement["ledger"]["run"], (method,))))
    found.at_least("run.rounds_planned", run["rounds_planned"], run["rounds"])
    if statement["trust"]["server_sees"] == "each-upload":
        uploads = statement["released"]["uploads"]
        found.at_least("released.uploads", uploads, sum(charged.times for charged in rounds))


def _records(found: Comparison, statement: Statement, rounds: Sequence[Charged]) -> None:
    """Where a charge names how many units its own client has, and every client was charged."""
    run, alone = statement["run"], [charged for charged in rounds if _own(charged.event) is None]
    sizes = {one.client: one.event.records for one in alone if isinstance(one.event, FixedSize | Poisson)}
    known = [size for size in sizes.values() if size is not None]
    if known and len(known) == run["clients"]:
        found.equal("run.records_min", run["records_min"], min(known))
        found.equal("run.records_max", run["records_max"], max(known))
        found.equal("run.records", run["records"], sum(known))


def _shared(found: Comparison, statement: Statement, events: Iterable[Event]) -> None:
    """How many honest members made the noise of a sum together: the square of the noises' ratio."""
    told = [statement["trust"][name] for name in ("cohorts", "members", "threshold", "colluders")]
    ratios = [(event.noise_multiplier / own) ** 2 for event in events if (own := _own(event)) is not None]
    if not ratios or None in told:
        found.equal("trust.cohorts", told, "numbers" if ratios else [None] * len(told))
        return
    found.near("trust.threshold - trust.colluders", told[2] - told[3], SecondOpinion(max(ratios), SLACK))


def _is_part(history: Mapping[Event, int], planned: Mapping[Event, int]) -> bool:
    return all(count <= planned.get(event, 0) for event, count in history.items())


def _sampling(event: Event, told: Mapping[str, Any]) -> str:
    if isinstance(event, Poisson):
        return "poisson"
    if isinstance(event, FixedSize) and event.drawn < event.records:
        return "without-replacement"
    return "whole-shard" if told["batch_size"] is None else told["sampling"]  # a batch may be all that a client has


def _is_batch(event: FixedSize) -> bool:
    """Whether it draws what a setting says, not a member's part of a cohort's batch."""
    return event.drawn < event.records and _own(event) is None


def _own(event: Event) -> float | None:
    return getattr(event, "own_multiplier", None)
