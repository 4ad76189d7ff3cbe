"""A statement held against a ledger: every number that the ledger decides is computed anew, by a second accountant.

Two accountants agree if neither contradicts the other: to a billionth where all releases are Gaussian and use all
records, and else within what their grids may add (`privacy.second_accountant`). Counts, budgets and hashes must be
equal. What no ledger knows, such as the settings of a run, is held by digests and by a signature.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, from_dict, to_dict
from fedspd.privacy.fifty_digits import gaussian_group
from fedspd.privacy.ledger import Charged, Ledger
from fedspd.privacy.second_accountant import EXACT_SLACK, SecondOpinion, is_gaussian, second_epsilon
from fedspd.results import Statement
from fedspd.statement.budget import choices, counted, counted_alone, names, runs_of
from fedspd.statement.comparison import LATER, Comparison
from fedspd.statement.recorded import MOMENTS, drawn, is_whole, recorded, training


def against(statement: Statement, ledger: Ledger) -> Comparison:
    """Compute anew what a statement says and a ledger decides, as of the row that the statement names.

    Other runs may have been charged since. Charges of this one must all be told, for they are part of what it cost.
    """
    told, budget = statement["ledger"], statement["budget"]
    if told is None or budget is None:
        raise InputError(
            "expected a statement that names the head of a ledger, got one without; make it with `fedspd statement RUN "
            "--ledger LEDGER`."
        )
    found = Comparison()
    found.equal("ledger.head", told["head"], ledger.hash_at(told["rows"]))
    charges = ledger.charges(told["rows"])
    this_run = [charged for charged in charges if charged.run == told["run"]]
    found.equal("ledger.charges", told["charges"], sum(charged.times for charged in this_run))
    later = [charge for charge in ledger.charges_after(told["rows"]) if names(charge, told["run"])]
    found.equal(LATER, 0, len(later))
    try:
        _budget(found, statement, ledger, charges)
        _choices(found, statement, charges)
        if this_run:
            _claim(found, statement, this_run)
            _mechanism(found, statement, this_run)
            recorded(found, statement, ledger, this_run)
        else:
            found.equal("ledger.run", told["run"], "no run of that name")
        _groups(found, statement)
        _meaning(found, statement)
    except (ArithmeticError, MemoryError) as error:
        raise InputError(
            "expected a statement whose numbers can be computed anew, got some out of all range; restore it."
        ) from error
    return found


def _budget(found: Comparison, statement: Statement, ledger: Ledger, charges: Sequence[Charged]) -> None:
    told, rows, run = statement["budget"], statement["ledger"]["rows"], statement["ledger"]["run"]
    found.equal("budget.clients", told["clients"], rows - sum(charged.times for charged in charges))
    account = ledger.accounts.get(told["client"])
    if account is None:
        found.equal("budget.client", told["client"], "no client of that name")
        return
    terms, delta = account.terms.budget, account.terms.budget.delta
    for name in ("epsilon", "delta", "epsilon_alone"):
        found.equal(f"budget.{name}", told[name], getattr(terms, name))
    if is_whole(statement):
        found.equal("guarantee.delta", statement["guarantee"]["delta"], delta)
    found.equal("guarantee.neighbors", statement["guarantee"]["neighbors"], terms.relation)
    own = [charged for charged in charges if charged.client == told["client"]]
    found.equal("budget.charges", told["charges"], [charged.as_dict() for charged in own])
    history = counted(own)
    found.near("budget.this_run", told["this_run"], second_epsilon(counted(_only(own, run)), delta))
    found.near("budget.others", told["others"], second_epsilon(counted(_without(own, run)), delta))
    found.equal("budget.other_runs", told["other_runs"], len(runs_of(charges) - {run}))
    found.near("budget.in_all", told["in_all"], second_epsilon(history, delta))
    found.near("budget.in_all_alone", told["in_all_alone"], _alone(history, delta))
    found.equal("budget.left", told["left"], max(0.0, told["epsilon"] - told["in_all"]))
    for other in _histories(charges):
        found.enough("budget.in_all", told["in_all"], second_epsilon(other, delta))


def _choices(found: Comparison, statement: Statement, charges: Sequence[Charged]) -> None:
    """What the candidates of charged choices and the choices cost together."""
    told, delta = statement["tuning"], statement["guarantee"]["delta"]
    candidates, paid = choices(charges, statement["ledger"]["run"])
    found.equal("tuning.charged", told["charged"], True if candidates else None)
    costs = [second_epsilon(history, delta) for history in _histories(paid)]
    found.near("tuning.epsilon", told.get("epsilon"), max(costs, default=None))


def _claim(found: Comparison, statement: Statement, this_run: Sequence[Charged]) -> None:
    claim, trust = statement["guarantee"], statement["trust"]
    epsilon, delta = claim["epsilon"], claim["delta"]
    planned = {from_dict(one["event"]): one["count"] for one in claim["planned"]}
    made = [*_histories(this_run)]
    costs = [second_epsilon(history, delta) for history in made]
    tight = statement["mechanism"]["accountant"] == "pld"
    expect = found.near if tight and is_whole(statement) else found.enough
    expect("guarantee.epsilon_spent", claim["epsilon_spent"], max(costs, default=second_epsilon({}, delta)))
    for cost in costs:
        found.enough("guarantee.epsilon", epsilon, cost)
    found.enough("guarantee.epsilon", epsilon, second_epsilon(planned, delta))
    found.equal("guarantee.gaussian", claim["gaussian"], all(map(is_gaussian, {**planned, **counted(this_run)})))
    own = [cost for cost in (_alone(history, delta) for history in (planned, *made)) if cost is not None]
    if not own:
        found.equal("trust.epsilon_alone", trust["epsilon_alone"], None)
    elif trust["epsilon_alone"] is not None and not tight:
        found.enough("trust.epsilon_alone", trust["epsilon_alone"], max(own))
    else:
        found.near("trust.epsilon_alone", trust["epsilon_alone"], max(own))
    beyond = [
        (to_dict(event), count)
        for history in _histories([*training(this_run)])
        for event, count in history.items()
        if event in planned and count > planned[event]
    ]
    found.equal("guarantee.planned", beyond, [])


def _mechanism(found: Comparison, statement: Statement, this_run: Sequence[Charged]) -> None:
    told, delta = statement["mechanism"], statement["guarantee"]["delta"]
    rounds = [charged for charged in this_run if charged.mechanism == statement["run"]["method"]]
    if not rounds:
        return
    drawn(found, statement, rounds)
    once = max(second_epsilon({each.event: 1}, delta) for each in rounds)
    most = max(each.event.noise_multiplier for each in rounds)
    if is_whole(statement):
        found.equal("mechanism.noise_multiplier", told["noise_multiplier"], most)
    expect = found.near if told["accountant"] == "pld" and is_whole(statement) else found.enough
    expect("mechanism.epsilon_per_round", told["epsilon_per_round"], once)
    most = max(sum(history.values()) for history in _histories(rounds))
    found.equal("released.times", max(statement["released"]["times"], most), statement["released"]["times"])
    found.equal("released.moments", statement["released"]["moments"], any(one.mechanism == MOMENTS for one in this_run))


def _groups(found: Comparison, statement: Statement) -> None:
    claim, summed = statement["guarantee"], statement["trust"]["server_sees"] == "secure-sums"
    epsilon, delta, gaussian = claim["epsilon"], claim["delta"], claim["gaussian"]
    for place, group in enumerate(claim["groups"]):
        size = group["size"]
        apart = math.sqrt(size) if gaussian and not summed else size
        several = _several(epsilon, delta, apart, gaussian, added=not summed)
        expected = {"at_one_client": _several(epsilon, delta, size, gaussian), "at_several_clients": several}
        for name, (at, remainder) in expected.items():
            where, stated = f"guarantee.groups[{place}].{name}", group[name]
            if stated is None or remainder >= 1.0:
                found.equal(where, stated, None if remainder >= 1.0 else remainder)
                continue
            found.near(f"{where}.epsilon", stated["epsilon"], SecondOpinion(at, EXACT_SLACK))
            found.near(f"{where}.delta", stated["delta"], SecondOpinion(remainder, EXACT_SLACK))
    found.equal("guarantee.groups", [one["size"] for one in claim["groups"]], [1, 2, 5, 10, 20])


def _several(epsilon: float, delta: float, factor: float, gaussian: bool, added: bool = False) -> tuple[float, float]:
    if factor == 1:
        return epsilon, delta
    if gaussian:
        return gaussian_group(epsilon, delta, factor), delta
    if added:
        return factor * epsilon, factor * delta
    return factor * epsilon, delta * math.expm1(min(factor * epsilon, 700.0)) / math.expm1(epsilon)


def _meaning(found: Comparison, statement: Statement) -> None:
    told, claim = statement["meaning"], statement["guarantee"]
    factor, delta = math.exp(min(claim["epsilon"], 700.0)), claim["delta"]
    found.near("meaning.odds_factor", told["odds_factor"], SecondOpinion(factor, EXACT_SLACK))
    found.near("meaning.belief_factor", told["belief_factor"], SecondOpinion(10.0 * factor / 9.0, EXACT_SLACK))
    found.near("meaning.outside", told["outside"], SecondOpinion(min(10.0 * delta, 1.0), EXACT_SLACK))
    found.equal("meaning.guesses", [one["before"] for one in told["guesses"]], [0.01, 0.1, 0.5, 0.9])
    for place, one in enumerate(told["guesses"]):
        before, odds = one["before"], one["before"] / max(1.0 - one["before"], 1e-300)
        corner = (1.0 - delta) / (1.0 + factor)
        errors = ((0.0, 1.0 - delta), (corner, corner), (1.0 - delta, 0.0))
        right = 1.0 - min((1.0 - before) * false_yes + before * false_no for false_yes, false_no in errors)
        expected = {
            "believed_at_most": 10.0 * odds * factor / (9.0 + 10.0 * odds * factor),
            "believed_at_least": 9.0 * odds / (9.0 * odds + 10.0 * factor),
            "right_at_most": right,
        }
        for name, value in expected.items():
            found.near(f"meaning.guesses[{place}].{name}", one[name], SecondOpinion(value, EXACT_SLACK))


def _histories(charges: Sequence[Charged]) -> Iterator[dict[Event, int]]:
    """What distinct clients were charged; those that another has at least as much of cost no more and are left out."""
    by_client: dict[str, dict[Event, int]] = {}
    for charged in charges:
        own = by_client.setdefault(charged.client, {})
        own[charged.event] = own.get(charged.event, 0) + charged.times
    distinct = {frozenset(history.items()) for history in by_client.values()}
    for history in map(dict, distinct):
        others = (dict(other) for other in distinct if dict(other) != history)
        if not any(all(other.get(event, 0) >= count for event, count in history.items()) for other in others):
            yield history


def _only(charges: Sequence[Charged], run: str) -> list[Charged]:
    return [charged for charged in charges if charged.run == run]


def _without(charges: Sequence[Charged], run: str) -> list[Charged]:
    return [charged for charged in charges if charged.run != run]


def _alone(history: Mapping[Event, int], delta: float) -> SecondOpinion | None:
    own = counted_alone(history)
    return None if own == dict(history) else second_epsilon(own, delta)
