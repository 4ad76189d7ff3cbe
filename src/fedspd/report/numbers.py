"""Bounds as people and machines read them: rounded, but never to the wrong side."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from fedspd.results import Summary

NOTHING = "–"  # where there is no value
WHOLE = 2.0**53  # from which on numbers have no decimals


def rounded(value: float, up: bool) -> str:
    """A bound with five significant digits that is still a bound: upper ones go up, lower ones down."""
    if not 0 < value < math.inf:
        return f"{value:g}"
    digits = 4 - math.floor(math.log10(value))
    step = Decimal(1).scaleb(-digits)
    return f"{Decimal(value).quantize(step, ROUND_CEILING if up else ROUND_FLOOR):f}"


def at_most(epsilon: float | None) -> str:
    """Rounded up, without zeros that say nothing; `%g` would round to nearest."""
    if epsilon is None:
        return NOTHING
    text = rounded(epsilon, up=True)
    return text.rstrip("0").rstrip(".") if "." in text else text


def reported(value: float | None, up: bool) -> float | None:
    """A bound to four decimals, or three digits where it is small, that is still a bound."""
    if value is None or not 0 < value < WHOLE:
        return value
    step = Decimal(1).scaleb(-4 if value >= 0.01 else math.floor(math.log10(value)) - 2)
    return float(Decimal(value).quantize(step, ROUND_CEILING if up else ROUND_FLOOR))


def seed_words(summary: Summary) -> str:
    """Where the draws of a run come from."""
    return "draws of the operating system" if summary.seed is None else f"seed {summary.seed}"
