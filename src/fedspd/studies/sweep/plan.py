"""A sweep: what is varied and what is not, checked before any run.

No ledger is opened: a sweep is a simulation, and neither its runs nor a choice among them is charged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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

    base: Config
    axes: tuple[Axis, ...]
    seeds: range

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """Every combination of values, in the order of the tables."""
        return points(self.axes)

    @cached_property
    def configs(self) -> list[Config]:
        """One run for each point and seed; the seed changes fastest."""
        return [changed(self.base, {**point, SEED: seed}) for point in self.points for seed in self.seeds]

    def declared(self) -> dict[str, Any]:
        """What it is, ready for TOML: it decides whether a folder can be continued."""
        varied = {SEED, *(axis.name for axis in self.axes)}
        return {
            "program": program_digest(),
            "seeds": [self.seeds[0], self.seeds[-1]],
            "grid": {axis.name: list(axis.values) for axis in self.axes},
            "fixed": {
                section: {key: value for key, value in keys.items() if f"{section}.{key}" not in varied}
                for section, keys in self.base.to_dict().items()
            },
        }


def plan_sweep(
    source: str | Path, grids: Sequence[str], seeds: int, first: int | None, overrides: Mapping[str, Any]
) -> Sweep:
    """Read the configuration and the grids, and check every run's configuration before any work.

    Args:
        source: a preset or a TOML file.
        grids: one text per varied setting, see `parse_grid`.
        seeds: runs of every point.
        first: the first seed; None: that of the configuration.
        overrides: settings to change for all runs, by "section.key".
    """
    axes = parse_grid(grids)
    for axis in axes:
        if axis.name in overrides:
            raise InputError(f"a setting is fixed or varied, got both --set and --grid for {axis.name}; leave one out.")
    base = load(source, AT_THE_END | dict(overrides))
    begin = base.run.seed if first is None else first
    runs = seeds
    for axis in axes:
        runs *= len(axis.values)
    if runs > MOST:
        raise InputError(f"a sweep has at most {MOST} runs, got {runs}; take fewer values or seeds.")
    sweep = Sweep(base, axes, range(begin, begin + seeds))
    assert len(sweep.configs) == runs
    return sweep
