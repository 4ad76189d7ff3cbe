"""Grids as they are typed: which values a setting takes, one axis per setting, and all points of their product."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from fedspd.config import parse_override
from fedspd.errors import InputError

SPACINGS = {"log": np.geomspace, "lin": np.linspace}
SEED = "run.seed"
MOST = 10_000  # values of a setting: a slip of the finger must not fill the memory
DECADE = 10.0  # values of a list that reach this far call for a logarithmic axis


@dataclass(frozen=True)
class Axis:
    """A setting and the values it takes."""

    name: str
    values: tuple[Any, ...]
    spacing: str = ""  # a key of SPACINGS; empty: its values were listed

    @property
    def log(self) -> bool:
        """Whether it is drawn on a logarithmic axis."""
        return self.spacing == "log" or (not self.spacing and _is_wide(self.values))

    @property
    def numeric(self) -> bool:
        """Whether its values have a place on an axis."""
        return not any(isinstance(value, bool | str) for value in self.values)


def parse_grid(texts: Sequence[str]) -> tuple[Axis, ...]:
    """One axis from each text, such as "privacy.epsilon=0.1,1,3" or "algorithm.penalty=log:0.01:10:7".

    Its values are as they were typed: which of them a setting takes is known once the method is, see `plan_sweep`.
    """
    if not texts:
        raise InputError("a sweep needs a setting to vary, got none; add --grid section.key=value,value.")
    axes = tuple(_axis(text) for text in texts)
    for name, times in Counter(axis.name for axis in axes).items():
        if times > 1:
            raise InputError(f"a setting is varied by one grid, got {times} for {name}; put all its values into one.")
    return axes


def points(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """The product: the last axis changes fastest."""
    names = [axis.name for axis in axes]
    return [dict(zip(names, values, strict=True)) for values in product(*(axis.values for axis in axes))]


def _axis(text: str) -> Axis:
    name, _, given = (part.strip() for part in text.partition("="))
    if not name or not given:
        raise InputError(
            f"a grid must look like section.key=value,value or section.key=log:low:high:count, got {text!r}; "
            "name a setting and its values."
        )
    if name == SEED:
        raise InputError(f"a grid varies settings other than {SEED}, got {text!r}; say --seeds and --first-seed.")
    spacing = given.partition(":")[0]
    if "." not in name:
        raise InputError(f"a setting must be named section.key, got {name!r}; for example privacy.epsilon.")
    if spacing in SPACINGS:
        return Axis(name, tuple(_spaced(text, given)), spacing)
    return Axis(name, tuple(_listed(text, given)))


def _listed(text: str, given: str) -> list[Any]:
    """Values between commas, each read as TOML, and as a string where it is none."""
    parts = [part.strip() for part in given.split(",")]
    if not all(parts):
        raise InputError(f"a grid needs a value on both sides of every comma, got {text!r}; remove a comma.")
    return [parse_override(f"value={part}")[1] for part in parts]


def _spaced(text: str, given: str) -> list[float]:
    """Numbers evenly apart, or evenly by their logarithms, both ends included, to twelve digits."""
    spacing, *numbers = given.split(":")
    ends = _ends(numbers)
    if ends is None or (spacing == "log" and ends[0] <= 0):
        positive = ", low above 0," if spacing == "log" else ""
        raise InputError(
            f"an even grid must look like {spacing}:low:high:count with low below high{positive} and a count of 2 to "
            f"{MOST}, got {text!r}; correct it or list the values with commas."
        )
    low, high, count = ends
    rounded = [float(f"{value:.12g}") for value in SPACINGS[spacing](low, high, count)[1:-1]]
    return [_whole(value) for value in (low, *rounded, high)]


def _ends(numbers: Sequence[str]) -> tuple[float, float, int] | None:
    """Low, high and count, if they are such."""
    try:
        low, high, count = float(numbers[0]), float(numbers[1]), int(numbers[2])
    except (ValueError, IndexError):
        return None
    fits = len(numbers) == 3 and -math.inf < low < high < math.inf and 2 <= count <= MOST
    return (low, high, count) if fits else None


def _whole(value: float) -> float:
    """A whole number as such, since some settings take no other."""
    return int(value) if value.is_integer() else value


def _is_wide(values: Sequence[Any]) -> bool:
    finite = [value for value in values if not isinstance(value, bool | str) and math.isfinite(value)]
    return bool(finite) and min(finite) > 0 and max(finite) >= DECADE * min(finite)
