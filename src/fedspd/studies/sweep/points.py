"""The points of a sweep: means over seeds, and which of them is best."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedspd.algorithms import label as method_label
from fedspd.report.numbers import reported
from fedspd.report.of_runs.terminal import DIVERGED
from fedspd.report.page import Cell, Grid, Measured, measured
from fedspd.results import ABOUT, words
from fedspd.results.summary import SHARE
from fedspd.studies.sweep.plan import Sweep
from fedspd.studies.sweep.rows import Row

HIGHER = "test_accuracy", "test_accuracy_average", "test_balanced_accuracy", "test_explained"
LOWER = "test_loss", "test_mae", "test_deviance", "objective", "criterion", "wall_seconds"
SHOWN = ("test_accuracy", "test_loss", "objective", "wall_seconds")
SECURE_SUMS = "secure-sums"
CLAIM = ("epsilon", "epsilon_alone", "colluders")  # shown beside the metric where a claim rests on others
SITUATIONS = ("privacy", "partition")  # a larger budget or milder data is no better choice
OPTIMISTIC = (
    "It was chosen on the test split, on which it is also measured, so its number is optimistic; choose with "
    'data.split = "validation".'
)
HELD_OUT = "It was chosen on a validation split, a fifth of the training records, held out of training."
NOT_CHARGED = "No run and no choice among them is charged to a budget or a ledger."


@dataclass(frozen=True)
class Point:
    """One combination of values and its runs, one per seed."""

    settings: Mapping[str, Any]
    rows: Sequence[Row]

    @property
    def diverged(self) -> bool:
        """Whether the run of any seed did."""
        return any(row["diverged"] for row in self.rows)

    def mean(self, metric: str) -> Measured | None:
        """Over seeds, with its standard error; None where a run has no finite number, or where its model is none."""
        values = [row[metric] for row in self.rows]
        if None in values or (self.diverged and metric in HIGHER + LOWER and metric != "wall_seconds"):
            return None
        return measured(np.array(values) * (100 if ABOUT[metric].unit == SHARE else 1), 4)


def points_of(sweep: Sweep, rows: Sequence[Row]) -> list[Point]:
    """Rows in the order of the sweep, those of a point together."""
    seeds = len(sweep.seeds)
    return [Point(own, rows[place * seeds : (place + 1) * seeds]) for place, own in enumerate(sweep.points)]


def label(sweep: Sweep, metric: str) -> str:
    """A column as people call it."""
    return words(metric).replace("test", "validation") if _is_held_out(sweep) else words(metric)


def best(sweep: Sweep, points: Sequence[Point], metric: str) -> list[int]:
    """Places of the best points: one for each budget and partition, where other settings vary too.

    None where neither end of a metric is the better one.
    """
    if metric not in HIGHER + LOWER:
        return []
    situations = _situations(sweep)
    sign = 1 if metric in HIGHER else -1
    found: dict[tuple[Any, ...], tuple[float, int]] = {}
    for place, point in enumerate(points):
        mean = point.mean(metric)
        where = tuple(point.settings[name] for name in situations)
        if mean is not None and (where not in found or sign * mean.value > found[where][0]):
            found[where] = sign * mean.value, place
    return [place for _, place in found.values()]


def points_grid(sweep: Sweep, points: Sequence[Point], metric: str) -> Grid:
    """One row per point: settings, the metric first, what is claimed on secure sums, the usual numbers, the best."""
    claimed = claim_of(points, metric)
    names = list(dict.fromkeys((metric, *claimed, *SHOWN)))
    columns = [_bound(points, name) if name in claimed else _column(points, name) for name in names]
    marked = set(best(sweep, points, metric))
    rows = tuple(
        (
            *(shown_value(name, value) for name, value in point.settings.items()),
            *(column[place] for column in columns),
            "yes" if place in marked else "diverged" if point.diverged else None,
        )
        for place, point in enumerate(points)
    )
    heads = (*(axis.name for axis in sweep.axes), *(label(sweep, name) for name in names), "best")
    return Grid(
        "Points",
        heads,
        rows,
        note(sweep, metric, bool(marked)) + (f" Diverged: {DIVERGED}." if any(p.diverged for p in points) else ""),
    )


def claim_of(points: Sequence[Point], metric: str) -> list[str]:
    """The columns without which a row on secure sums would claim too much; none where no run relies on others."""
    relied = any(row["trust"] == SECURE_SUMS for point in points for row in point.rows)
    return [name for name in CLAIM if relied and name != metric]


def note(sweep: Sweep, metric: str, chosen: bool) -> str:
    """What the numbers are, and what a choice among them is worth."""
    seeds = f"{len(sweep.seeds)} seeds with standard errors" if len(sweep.seeds) > 1 else "one seed"
    each = " and ".join(_situations(sweep))
    best_of = f"The best is marked{f' for each {each}' * bool(each)}."
    worth = (HELD_OUT if _is_held_out(sweep) else OPTIMISTIC,) if metric.startswith("test_") else ()
    means = f"Means over {seeds}; a gap where a run has no finite number."
    return " ".join((means, *((best_of, *worth) if chosen else ()), NOT_CHARGED))


def shown_value(name: str, value: Any) -> Cell:
    """A setting in a table or a legend."""
    if name == "algorithm.name":
        return method_label(value, value)
    return str(value).lower() if isinstance(value, bool) else value


def _column(points: Sequence[Point], name: str) -> list[Measured | None]:
    """Means with as many digits as half of their errors deserve."""
    means = [point.mean(name) for point in points]
    errors = [mean.error for mean in means if mean is not None and mean.error]
    sizes = errors or [abs(mean.value) / 100 for mean in means if mean is not None and mean.value]
    digits = min(max(1 - math.floor(math.log10(np.median(sizes))), 0), 8) if sizes else 0
    return [None if mean is None else mean._replace(digits=digits) for mean in means]


def _bound(points: Sequence[Point], name: str) -> list[Cell]:
    """The largest over seeds, rounded up; a gap where there is none, since epsilon holds without any assumption."""
    largest = (max((row[name] for row in point.rows if row[name] is not None), default=None) for point in points)
    return [each if isinstance(each, int) else reported(each, up=True) for each in largest]


def _situations(sweep: Sweep) -> list[str]:
    """The settings within whose values a best point is sought; none where nothing else varies."""
    found = [axis.name for axis in sweep.axes if axis.name.partition(".")[0] in SITUATIONS]
    return found if len(found) < len(sweep.axes) else []


def _is_held_out(sweep: Sweep) -> bool:
    """Whether every run is measured on records held out of training."""
    return {config.data.split for config in sweep.configs} == {"validation"}
