"""What a statement says of an audit of its run."""

from collections.abc import Mapping
from typing import Any

from fedspd.report.numbers import at_most, reported

REFUTED = "An audit refuted this statement: do not rely on it."


def told_audit(audit: Mapping[str, Any]) -> str:
    """The result in a sentence or two."""
    least, claimed = reported(audit["lower_bound"], up=False), at_most(audit["claimed_epsilon"])
    told = [
        f"{'REFUTED' if audit['refuted'] else 'not refuted'}: of a claimed epsilon of {claimed} at delta "
        f"{audit['delta']:g} at least {least:g} leaks, with {100 * audit['confidence']:g} % confidence, by "
        f"{audit['attack']} in 2 x {audit['runs']} runs."
    ]
    if not audit["noise_is_fresh"]:
        told.append("Draws of noise came back.")
    elif audit["refuted"] and audit["lower_bound"] <= audit["claimed_epsilon"]:
        told.append("Replays found that a record moves more than was declared.")
    return " ".join(told)
