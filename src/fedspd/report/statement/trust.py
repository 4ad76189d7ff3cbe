"""Whom a claim stands against, and what it rests on where the members of a cohort share their noise."""

from collections.abc import Mapping
from typing import Any

from fedspd.report.numbers import at_most
from fedspd.report.page import Section
from fedspd.results import Statement

ON_OWN_NOISE = "No other client is relied on: each adds all of its noise itself."


def assumed(trust: Mapping[str, Any]) -> str:
    """What must hold of others; nothing where each client adds all of its noise itself."""
    if trust["server_sees"] == "each-upload":
        return ""
    return (
        f"at most {trust['colluders']} of the {trust['members']} members of a cohort tell what they know, any sum "
        f"holds at least {trust['threshold']} of them, and the cryptography of secure sums holds"
    )


def left_alone(trust: Mapping[str, Any], delta: float) -> str:
    """What a client's own noise is worth, which is all that is sure to be left where others are relied on in vain."""
    return f"({at_most(trust['epsilon_alone'])}, {delta:g})"


def conditions(trust: Mapping[str, Any], delta: float) -> tuple[str, str]:
    """What a claim is to be followed by, and a sentence for after it: no claim of sums stands without either."""
    found = assumed(trust)
    if not found:
        return "", ""
    return f", if {found}", f" Without these assumptions, by a client's own noise alone: {left_alone(trust, delta)}."


def trust_section(statement: Statement) -> Section:
    """Against whom, relying on whom, and what is left if they fail."""
    told, delta = statement["trust"], statement["guarantee"]["delta"]
    adversary, found = f"The claim stands against {told['adversary']}.", assumed(told)
    if not found:
        return Section("Whom it holds against", (adversary, ON_OWN_NOISE))
    return Section(
        "Whom it holds against",
        (
            f"{adversary} The server sees sums of cohorts. It is relied on that {found}.",
            f"If any of that fails, only a client's own noise is sure to be left: {left_alone(told, delta)}.",
        ),
    )
