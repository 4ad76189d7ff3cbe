"""A sweep: what is varied and what is not, checked before any run.

No ledger is opened: a sweep is a simulation, and neither its runs nor a choice among them is charged.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from fedspd.config import Config, changed, load
from fedspd.errors import InputError
from fedspd.studies.jobs import program_digest
from fedspd.studies.sweep.grid import SEED, Axis, parse_grid, points

MOST = 1_000_000  # runs
AT_THE_END = {
    "metrics.lagrangian": False, "metrics.criterion": False, "metrics.spent_every_round": False,
    "metrics.objective_every": 1_000_000,
}  # fmt: skip
"""A sweep keeps what its runs end with, so nothing costly is measured on the way unless it is set."""


@dataclass(frozen=True)
class Sweep:
    """What is varied, and what is not."""

    bases: tuple[Config, ...]  # one for each point, in the order of the tables
    axes: tuple[Axis, ...]
    seeds: range

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Every combination of values, in the order of the tables."""
        return points(self.axes)

    @cached_property
    def configs(self) -> list[Config]:
        """One run for each point and seed; the seed changes fastest."""
        return [changed(base, {SEED: seed}) for base in self.bases for seed in self.seeds]

    def declared(self) -> dict[str, Any]:
        """What it is, ready for TOML: it decides whether a folder can be continued."""
        return {
            "program": program_digest(),
            "seeds": [self.seeds[0], self.seeds[-1]],
            "grid": {axis.name: list(axis.values) for axis in self.axes},
            "fixed": self._fixed(),
        }

    def _fixed(self) -> dict[str, Any]:
        """What is not varied; the settings of a method are its own, so where methods are varied these are, too."""
        varied = {SEED, *(axis.name for axis in self.axes)}
        return {
            section: {key: value for key, value in keys.items() if f"{section}.{key}" not in varied}
            for section, keys in self.bases[0].to_dict().items()
            if not (section == "algorithm" and "algorithm.name" in varied)
        }


def plan_sweep(
    source: str | Path,
    grids: Sequence[str],
    seeds: int,
    first: int | None,
    overrides: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
) -> Sweep:
    """Read the configuration and the grids, and check every run's configuration before any work.

    Args:
        source: a preset or a TOML file.
        grids: one text per varied setting, see `parse_grid`.
        seeds: runs of every point.
        first: the first seed; None: that of the configuration.
        overrides: settings to change for all runs, by "section.key".
        usual: settings in place of a preset's, which a file may set otherwise.
    """
    typed = parse_grid(grids)
    for axis in typed:
        if axis.name in overrides:
            raise InputError(f"a setting is fixed or varied, got both --set and --grid for {axis.name}; leave one out.")
    runs = seeds * prod(len(axis.values) for axis in typed)
    if runs > MOST:
        raise InputError(f"a sweep has at most {MOST} runs, got {runs}; take fewer values or seeds.")
    where_read = {**AT_THE_END, **(usual or {})}
    bases = [load(source, {**overrides, **point}, where_read) for point in points(typed)]
    axes = tuple(_as_held(typed, place, bases) for place in range(len(typed)))
    for axis, text in zip(axes, grids, strict=True):
        _check_differ(axis, text)
    begin = (bases[0].run.seed or 0) if first is None else first
    return Sweep(tuple(bases), axes, range(begin, begin + seeds))


def _as_held(typed: Sequence[Axis], place: int, bases: Sequence[Config]) -> Axis:
    """The axis at a place with its values as configurations hold them, which stand in the order of the product."""
    axis = typed[place]
    section, _, key = axis.name.partition(".")
    apart = prod(len(faster.values) for faster in typed[place + 1 :])
    each = bases[::apart][: len(axis.values)]
    return replace(axis, values=tuple(base.section(section)[key] for base in each))


def _check_differ(axis: Axis, text: str) -> None:
    """Refuse a value that was typed twice, be it in two ways: its runs would be counted as two points."""
    for value, times in Counter(axis.values).items():
        if times > 1:
            raise InputError(f"the values of a grid must differ, got {value} {times} times in {text!r}; leave one out.")
