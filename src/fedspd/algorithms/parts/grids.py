"""Points that tuning tries: as many for every method."""

from collections.abc import Sequence
from itertools import product

from fedspd.algorithms.method import TuningGrid

OCTAVES: TuningGrid = tuple({"algorithm.step_scale": 2.0**power} for power in range(-4, 5))
DECADES: TuningGrid = tuple({"algorithm.inverse_step": 10.0 ** (power / 2)} for power in range(-2, 7))
THREE_SCALES = (0.4, 1.0, 2.5)


def square(first: str, firsts: Sequence[float], second: str, seconds: Sequence[float]) -> TuningGrid:
    """All pairs of two settings' values."""
    return tuple({first: a, second: b} for a, b in product(firsts, seconds))


def scale_and(name: str, values: Sequence[float]) -> TuningGrid:
    """Three step sizes around the rule's, and values of another setting."""
    return square("algorithm.step_scale", THREE_SCALES, f"algorithm.{name}", values)
