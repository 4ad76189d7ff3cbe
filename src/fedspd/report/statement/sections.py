"""A privacy statement as people read it: sections of plain sentences, tables and one picture."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil, floor
from typing import Any

from fedspd.report.numbers import at_most, reported, rounded
from fedspd.report.of_runs.terminal import FIXED_DRAWS, UNLESS_CHOSEN, protected
from fedspd.report.page import Cell, Chart, Grid, Section, Series
from fedspd.report.statement.audited import REFUTED, told_audit
from fedspd.report.statement.released import Afterwards, released_afterwards
from fedspd.report.statement.trust import assumed, conditions, trust_section
from fedspd.results import Statement
from fedspd.results.counted import counted, times

NOTHING_PROVED = "nothing is proved"
NEIGHBORS = {
    "replace-one": "two tables are neighbors if they are the same but for {unit} replaced by another",
    "zero-out": "two tables are neighbors if {unit} is there in one of them and empty in the other",
}
SECRET = {
    "record": "which of two records is yours",
    "person": "whether the rows of one person are yours or somebody else's",
    "client": "which of two tables a client holds",
}
"""What an attacker is after, by the unit."""
ACCOUNTANTS = {"pld": "pld: by privacy-loss distributions", "rdp": "rdp: by Rényi moments"}
EVIDENCE = (
    "This page is evidence. Whether it is enough is decided by those who answer for the records, not by a program."
)
POINTS = tuple(place / 50 for place in range(51))
Rows = tuple[tuple[Cell, ...], ...]


def statement_title(statement: Statement) -> str:
    """What the page is called."""
    run = statement["run"]
    return f"Privacy statement: {run['title']}{', run ' + run['name'] if run['name'] else ''}"


def statement_sections(statement: Statement, warning: str = "") -> tuple[Section, ...]:
    """Everything a statement says, the claim first; before it only what the reader must be warned of."""
    claim = _claim(statement)
    return (
        replace(claim, text=(warning, *claim.text)) if warning else claim,
        *_meaning(statement),
        *_groups(statement),
        _released(statement),
        _mechanism(statement),
        trust_section(statement),
        Section("What is not protected", tuple(statement["unprotected"])),
        _budget(statement),
        _choices(statement),
        _evidence(statement),
    )


def _claim(statement: Statement) -> Section:
    claim, run = statement["guarantee"], statement["run"]
    kind = "between real sites" if run["kind"] == "sites" else "a simulation"
    about = (
        f"{run['title']}, {kind}: {_trained_on(statement)}; {run['rounds']} of {run['rounds_planned']} rounds, "
        f"finished on {run['finished']}."
    )
    if claim["standing"] == "none":
        return Section("The claim", ("No privacy: this run added no noise.", about))
    neighbors = NEIGHBORS.get(str(claim["neighbors"]), "").format(unit=_one(claim["unit"]))
    meant = f"Unit: {protected(claim['unit'])}. Neighbors: {claim['neighbors']}; {neighbors}."
    if claim["standing"] != "proved":
        told = (
            f"Nothing is proved about this run, since {claim['because']}. The method's authors state epsilon "
            f"{at_most(claim['epsilon'])} at delta {claim['delta']:g}. Do not rely on it for real records."
        )
        return Section("The claim", (told, meant, about))
    condition, otherwise = conditions(statement["trust"], claim["delta"])
    told = (
        f"({at_most(claim['epsilon'])}, {claim['delta']:g})-differential privacy, proved{condition}: all that "
        f"this run released would be as likely if one {claim['unit']} were another, up to a factor e^epsilon = "
        f"{at_most(statement['meaning']['odds_factor'])} and a remainder delta. What was released cost "
        f"{at_most(claim['epsilon_spent'])} at most{f', {UNLESS_CHOSEN}' if run['kind'] == 'sites' else ''}."
        f"{otherwise}"
    )
    if statement["tuning"].get("epsilon") is not None:
        together = at_most(statement["tuning"]["epsilon"])
        told += f" With all runs that it was held against by scores, and these: {together}."
    if statement["audit"] is not None and statement["audit"]["refuted"]:
        told = f"{REFUTED} {told}"
    if statement["randomness"]["source"] == "seed":
        known = "this was a simulation, and whoever has its seed can subtract the noise"
        told += f" That is of the method: {FIXED_DRAWS if run['kind'] == 'sites' else known}."
    return Section("The claim", (told, meant, about))


def _trained_on(statement: Statement) -> str:
    """How many units there are at how many clients, those included that were held out."""
    run, unit = statement["run"], statement["guarantee"]["unit"]
    if unit == "client":
        return counted(run["clients"], "client")
    least, most, held = run["records_min"], run["records_max"], run.get("held_out")
    each = counted(most, unit) if least == most else f"{least} to {most} {unit}s"
    in_all = "" if run["records"] is None else f", {run['records']} in all"
    apart = f" to train on{in_all}, and {counted(held, f'held-out {unit}')} to measure on" if held else in_all
    return f"{counted(run['clients'], 'client')} with {each} each{apart}"


def _one(unit: str) -> str:
    """A unit, as sentences about neighbors begin with it."""
    return {"person": "one person at one client, with all records there,", "client": "one client"}.get(
        unit, f"one {unit} of one client"
    )


def _meaning(statement: Statement) -> tuple[Section, ...]:
    found, claim = statement["meaning"], statement["guarantee"]
    if found is None:
        return ()
    half = next((one for one in found["guesses"] if one["before"] == 0.5), found["guesses"][0])
    only = " It holds as far as the claim's assumptions do." if assumed(statement["trust"]) else ""
    text = (
        f"Somebody who knows everything but {SECRET.get(claim['unit'], SECRET['record'])}, and tosses a coin, is right "
        f"in 50 % of all cases; with all that was released, in {_percent(half['right_at_most'])} at most. What it gave "
        f"a chance of {_percent(half['before'], round)} before, it may give {_percent(half['believed_at_most'])} "
        f"after, and no more except with a chance of {_delta(found['outside'])}.{only}",
    )
    rows = tuple(
        (
            _percent(one["before"], round), _percent(one["believed_at_most"]),
            _percent(one["believed_at_least"], floor), _percent(one["right_at_most"]),
        )
        for one in found["guesses"]
    )  # fmt: skip
    columns = ("chance before", "believed after, at most", "and at least", "guesses right, at most")
    return (Section("What it means", text, (belief_chart(found["belief_factor"]),), (Grid("", columns, rows),)),)


def belief_chart(factor: float) -> Chart:
    """What is believed after, against what was believed before."""
    most = [100 * factor * prior / (1 - prior + factor * prior) for prior in POINTS]
    least = [100 * prior / (prior + factor * (1 - prior)) for prior in POINTS]
    x = tuple(100 * prior for prior in POINTS)
    return Chart(
        title="What an attacker may believe",
        x_label="chance before, %",
        y_label="belief after, %",
        series=(
            Series("at most", x, tuple(most)), Series("without the release", x, x), Series("at least", x, tuple(least)),
        ),
    )  # fmt: skip


def _groups(statement: Statement) -> tuple[Section, ...]:
    claim = statement["guarantee"]
    if not claim["groups"]:
        return ()
    unit, summed = claim["unit"], statement["trust"]["server_sees"] == "secure-sums"
    rows: Rows = tuple(
        (one["size"], _bound(one["at_one_client"]), _bound(one["at_several_clients"])) for one in claim["groups"]
    )
    how = (
        "All noise is Gaussian and all records are used, so these numbers are exact."
        if claim["gaussian"]
        else "Upper bounds that hold for every mechanism; true costs are smaller."
    )
    shared = " Clients share noise, so units at several of them count as at one." if summed else ""
    grid = Grid("", (f"{unit}s", "of one client: (epsilon, delta)", f"one {unit} at each of so many clients"), rows)
    text = f"Somebody with several {unit}s, or with {unit}s at several clients, is protected less. {how}{shared}"
    title = f"Somebody with several {unit}s or sites"
    if unit == "person":
        title = "Several persons, or a person at several sites"
        text = (
            "All rows of a person at a client are one unit, however many they are. A family, or a person at several "
            f"clients, is protected less. {how}{shared}"
        )
    if unit == "client":
        title = "Somebody with records at several clients"
        text = f"All rows of a client are one unit. Whoever has records at several is protected less. {how}"
        rows = tuple((size, several) for size, _, several in rows)
        grid = Grid("", ("clients", "records at so many of them: (epsilon, delta)"), rows)
    return (Section(title, (text,), (), (grid,)),)


def _released(statement: Statement) -> Section:
    told, moments = statement["released"], "yes, before the first round" if statement["released"]["moments"] else "no"
    rows: Rows = (
        ("what, with noise", told["what"]),
        ("to whom", told["to"]),
        ("how often", f"at most {told['times']} rounds of a client; {told['uploads']} uploads in all"),
        ("numbers in the model", told["numbers"]),
        ("noisy means and deviations for scaling", moments),
        *((f"{one.what}, with noise", _how_often(one)) for one in released_afterwards(statement)),
    )
    return Section("What was released", (), (), (Grid("", ("what", "value"), rows),))


def _how_often(one: Afterwards) -> str:
    return f"{times(one.number)} by each client{', charged apart: see Tuning' if one.apart else ''}"


def _mechanism(statement: Statement) -> Section:
    told, claim = statement["mechanism"], statement["guarantee"]
    drawn = told["sampling"].replace("-", " ") + (f", batches of {told['batch_size']}" if told["batch_size"] else "")
    rows: Rows = (
        ("noise", told["noise"]),
        ("noise over sensitivity", told["noise_multiplier"]),
        (
            f"{told.get('clipped', 'gradient of a record')}, at most",
            "not clipped" if told["clip_norm"] is None else told["clip_norm"],
        ),
        ("norm of a record, at most", "not bounded" if told["row_norm"] is None else told["row_norm"]),
        ("records in a round", drawn),
        ("local steps", told["local_steps"]),
        ("epsilon of one round alone", None if claim["standing"] == "none" else at_most(told["epsilon_per_round"])),
        ("accountant", ACCOUNTANTS.get(told["accountant"], told["accountant"])),
        ("conversion", told["conversion"]),
        ("precision", told["precision"]),
    )
    known = tuple(row for row in rows if row[1] is not None)
    return Section("How it was done", (), (), (Grid("", ("what", "value"), known),))


def _budget(statement: Statement) -> Section:
    told = statement["budget"]
    if told is None:
        sites = statement["run"]["kind"] == "sites"
        text = "Each site keeps a ledger and a budget of its own; its own statement tells of them." if sites else ""
        return Section("Life of the budget", (text or "No ledger was charged.",))
    rows: Rows = (
        ("budget of all runs", f"({told['epsilon']:g}, {told['delta']:g})"),
        ("spent by this run", at_most(told["this_run"])),
        (f"spent by {counted(told['other_runs'], 'other run')} on the ledger", at_most(told["others"])),
        ("spent in all", at_most(told["in_all"])),
        ("left", rounded(told["left"], up=False)),
        *((("in all, if everybody else colludes", at_most(told["in_all_alone"])),) if told["in_all_alone"] else ()),
    )
    rows_then = f"As of row {statement['ledger']['rows']} of the ledger" if statement["ledger"] else "On the ledger"
    text = (
        f"{rows_then}, of {counted(told['clients'], 'client')} {told['client']} has spent most. All releases are "
        "composed anew together, so the parts need not add up to the whole."
    )
    return Section("Life of the budget", (text,), (), (Grid("", ("epsilon", "value"), rows),))


def _choices(statement: Statement) -> Section:
    parts = {"Tuning": statement["tuning"], "Evaluation": statement["evaluation"], "Noise": statement["randomness"]}
    text = tuple(f"{name}{_charged(told)}: {told['told']}" for name, told in parts.items())
    rows: Rows = tuple(
        (name.replace("_", " "), value) for name, value in statement["declared"].items() if value is not None
    )
    missing = [name.replace("_", " ") for name, value in statement["declared"].items() if value is None]
    note = f"Not declared: {', '.join(missing)}." if missing else ""
    return Section("Choices, and who paid for them", text, (), (Grid("", ("what", "declared"), rows, note),))


def _evidence(statement: Statement) -> Section:
    ledger, audit = statement["ledger"], statement["audit"]
    rows: Rows = (
        *((f"digest of {name}, SHA-256", value) for name, value in statement["digests"].items()),
        *(((f"head of the ledger, row {ledger['rows']}", ledger["head"]),) if ledger else ()),
        ("versions", ", ".join(f"{name} {version}" for name, version in statement["versions"].items())),
        ("audit", "none in this folder" if audit is None else told_audit(audit)),
    )
    return Section("Evidence", (EVIDENCE,), (), (Grid("", ("what", "value"), rows),))


def _charged(told: Mapping[str, Any]) -> str:
    charged = told.get("charged")
    return "" if charged is None else " (charged)" if charged else " (not charged)"


def _bound(bound: Mapping[str, float] | None) -> str:
    return NOTHING_PROVED if bound is None else f"({at_most(bound['epsilon'])}, {_delta(bound['delta'])})"


def _delta(delta: float) -> str:
    """With three digits, rounded up; one that has no more is left as it is."""
    return f"{delta:g}" if float(f"{delta:.2e}") == delta else f"{reported(delta, up=True):g}"


def _percent(share: float, rounding: Callable[[float], float] = ceil) -> str:
    """A share in percent with two digits after the point; an upper bound goes up."""
    return f"{rounding(share * 1e4) / 100:g} %"
