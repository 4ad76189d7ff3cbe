"""Points that tuning tries: as many for every method."""

from collections.abc import Sequence
from itertools import product

from fedspd.algorithms.method import TuningGrid

OCTAVES: TuningGrid = tuple({"algorithm.step_scale": 2.0**power} for power in range(-4, 5))
HIGHER_OCTAVES: TuningGrid = tuple({"algorithm.step_scale": 2.0**power} for power in range(-2, 7))
DECADES: TuningGrid = tuple({"algorithm.inverse_step": 10.0 ** (power / 2)} for power in range(-2, 7))
AROUND = (0.4, 1.0, 2.5)
BEYOND = (1.0, 5.0, 25.0)  # few rounds want longer steps than are safe, where somebody looks whether they hold


def square(first: str, firsts: Sequence[float], second: str, seconds: Sequence[float]) -> TuningGrid:
    """All pairs of two settings' values."""
    return tuple({first: a, second: b} for a, b in product(firsts, seconds))


def scale_and(name: str, values: Sequence[float], scales: Sequence[float] = BEYOND) -> TuningGrid:
    """Three step sizes by the rule's, and values of another setting."""
    return square("algorithm.step_scale", scales, f"algorithm.{name}", values)
