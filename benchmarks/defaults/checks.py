"""What must hold in every cell, and whether it does: by standard errors over seeds, in differences of equal seeds.

Two standard errors are passed by chance, too: of many ties some fall by more. So a verdict has three outcomes: it holds
everywhere; it holds but for chance, when no more cells fail than ties would, none of them by more than the worst of so
many ties does (t, 5 % over all comparisons); or it fails.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.defaults.cells import GOALS, LARGE, Cell, records_of
from benchmarks.defaults.rows import RULE, TUNED, Row
from benchmarks.defaults.tables import GENERATED
from fedspd.results import mean_over_seeds

ERRORS = 2.0  # standard errors that a score may be short of what is asked
NEAR, FAR = 0.3, 1.0  # points behind the tuned grid: in most cells, and in all
MOST = 0.9
LEARNS_FROM = 1.0  # the epsilon from which a model on an odd table must beat the trivial one
FAMILY = 0.05
HOLDS, BY_CHANCE, FAILS, TOLD = "holds", "holds but for chance", "FAILS", "told only"


@dataclass(frozen=True, eq=False)
class Result:
    """What a cell led to, in points, by seed."""

    cell: Cell
    scores: Mapping[int, float]
    trivial: float
    rounds: float  # mean over seeds
    tuned: Mapping[int, float]  # none where it is not tuned
    point: str

    @property
    def diverged(self) -> bool:
        """Whether a model was no model."""
        return not np.isfinite([*self.scores.values()]).all()


class Gap(NamedTuple):
    """How much better a cell did than what it is held against: a mean over seeds and its standard error."""

    cell: Cell
    value: float
    error: float
    seeds: int

    @property
    def short(self) -> bool:
        """Whether it is worse by more than its standard errors allow; one seed has none and proves nothing."""
        return self.value < -ERRORS * self.error

    def beyond(self, comparisons: int) -> bool:
        """Whether it is worse than the worst of so many ties."""
        return self.value < float(stats.t.ppf(FAMILY / comparisons, max(self.seeds - 1, 1))) * self.error


class Verdict(NamedTuple):
    """What was asked, whether it holds, and what was found."""

    asked: str
    outcome: str
    found: str

    @property
    def line(self) -> str:
        """For a terminal and for a list in Markdown."""
        return f"{self.asked}: **{self.outcome}**. {self.found}"


def collect(rows: Iterable[Row]) -> dict[Cell, Result]:
    """Results by cell, those by rule with the tuned ones beside them."""
    grouped: dict[Cell, dict[str, list[Row]]] = {}
    for row in rows:
        grouped.setdefault(row.cell, {RULE: [], TUNED: []})[row.kind].append(row)
    return {
        cell: Result(
            cell,
            {row.seed: row.score for row in kinds[RULE]},
            kinds[RULE][0].trivial,
            float(np.mean([row.rounds for row in kinds[RULE]])),
            {row.seed: row.score for row in kinds[TUNED]},
            kinds[TUNED][0].point if kinds[TUNED] else "",
        )
        for cell, kinds in sorted(grouped.items())
        if kinds[RULE]
    }


def gap(cell: Cell, scores: Mapping[int, float], others: Mapping[int, float] | float) -> Gap:
    """Scores less others of the same seeds; one that is not finite loses everything."""
    seeds = sorted(scores.keys() & others.keys()) if isinstance(others, Mapping) else sorted(scores)
    against = [others[seed] for seed in seeds] if isinstance(others, Mapping) else others
    differences = np.array([scores[seed] for seed in seeds]) - against
    if not np.isfinite(differences).all():
        return Gap(cell, -np.inf, 0.0, len(seeds))
    return Gap(cell, *mean_over_seeds(differences), len(seeds))


def rises(results: Mapping[Cell, Result]) -> list[Gap]:
    """What each cell gains over the same federation at every smaller budget."""
    situations: dict[Cell, list[Result]] = {}
    for result in results.values():
        situations.setdefault(result.cell.situation, []).append(result)
    return [
        gap(more.cell, more.scores, less.scores)
        for some in situations.values()
        for less, more in combinations(sorted(some, key=lambda one: one.cell.epsilon), 2)
    ]


def above_trivial(results: Mapping[Cell, Result]) -> list[Gap]:
    """What each cell gains over the trivial predictor."""
    return [gap(result.cell, result.scores, result.trivial) for result in results.values()]


def ahead_of_tuned(results: Mapping[Cell, Result]) -> list[Gap]:
    """What each tuned cell gains over the best of its grid."""
    return [gap(result.cell, result.scores, result.tuned) for result in results.values() if result.tuned]


def verdicts(results: Mapping[Cell, Result], encode: str) -> list[Verdict]:
    """Everything that is asked of the results with one set of settings."""
    ordinary = {cell: result for cell, result in results.items() if cell.data not in GENERATED}
    return [
        never_short("The score never falls with epsilon by more than two standard errors", rises(ordinary), "pairs"),
        never_short("It is never below the trivial predictor by more", above_trivial(ordinary), "cells"),
        *near_tuned(ahead_of_tuned(results), lambda data: len(records_of(data).train)),
        goals_reached(results, encode),
        odd_tables([result for result in results.values() if result.cell.data in GENERATED]),
        no_divergence(list(results.values())),
    ]


def never_short(asked: str, gaps: Sequence[Gap], what: str) -> Verdict:
    """Whether nothing is worse than it may be, but for chance."""
    if not gaps:
        return Verdict(asked, TOLD, "Nothing was played.")
    short = [one for one in gaps if one.short]
    beyond = [one for one in short if one.beyond(len(gaps))]
    chance = sum(float(stats.t.cdf(-ERRORS, max(one.seeds - 1, 1))) for one in gaps)
    lower = sum(one.value < -FAR for one in gaps)
    found = (
        f"Exceptions: {len(short)} of {len(gaps)} {what} (of ties {chance:.0f} would be), {len(beyond)} beyond chance; "
        f"means that are more than {FAR:g} point short, by chance or not: {lower}"
    )
    if lower or short:
        worst = min(gaps, key=lambda one: one.value)
        found += f", the most in {worst.cell.words}: {-worst.value:.2f} ± {worst.error:.2f}"
    outcome = HOLDS if not short else BY_CHANCE if not beyond and len(short) <= chance else FAILS
    return Verdict(asked, outcome, found + ".")


def near_tuned(gaps: Sequence[Gap], records: Callable[[str], int]) -> list[Verdict]:
    """How far the rule is behind the tuned grid; bounded on large data, told on small.

    Args:
        gaps: of tuned cells.
        records: that a data set trains on.
    """
    large = [one for one in gaps if records(one.cell.data) >= LARGE]
    small = [one for one in gaps if records(one.cell.data) < LARGE]
    asked = f"From {LARGE:,} records on it is within {NEAR:g} points of the tuned grid in {MOST:.0%} of cells"
    asked += f", within {FAR:g} in all"
    if not large:
        return [Verdict(asked, TOLD, "Nothing was played."), *_told(small)]
    holds = np.mean([_near(one, NEAR) for one in large]) >= MOST and all(_near(one, FAR) for one in large)
    return [Verdict(asked, HOLDS if holds else FAILS, _distances(large)), *_told(small)]


def _told(small: Sequence[Gap]) -> list[Verdict]:
    return [Verdict("Distance to the tuned grid on smaller data", TOLD, _distances(small))] if small else []


def _near(one: Gap, points: float) -> bool:
    return one.value >= -points


def _distances(gaps: Sequence[Gap]) -> str:
    shares = [f"{np.mean([_near(one, points) for one in gaps]):.0%} within {points:g}" for points in (NEAR, FAR)]
    worst, median = min(gaps, key=lambda one: one.value), float(np.median([one.value for one in gaps]))
    return (
        f"Of {len(gaps)} cells {' and '.join(shares)}, the median {-median:.2f} behind; most in {worst.cell.words}: "
        f"{-worst.value:.2f} ± {worst.error:.2f} points."
    )


def goals_reached(results: Mapping[Cell, Result], encode: str) -> Verdict:
    """Whether Adult's accuracies are what was promised for this encoding."""
    asked = f"Adult reaches its goals with columns encoded as {encode}"
    played = {cell: goal for cell, goal in GOALS.get(encode, {}).items() if cell in results}
    if not played:
        return Verdict(asked, TOLD, "Nothing was played.")
    gaps = {cell: gap(cell, results[cell].scores, goal) for cell, goal in played.items()}
    told = [
        f"{cell.clients} clients, epsilon {cell.epsilon:g}: {goal + one.value:.2f} ± {one.error:.2f} (goal {goal:g})"
        for (cell, goal), one in zip(played.items(), gaps.values(), strict=True)
    ]
    return Verdict(asked, HOLDS if all(one.value >= 0 for one in gaps.values()) else FAILS, "; ".join(told) + ".")


def odd_tables(results: Sequence[Result]) -> Verdict:
    """Whether models learn under bounds that are too wide, and from columns that all say the same."""
    asked = f"Under bounds ten times too wide, and on correlated columns, it learns from epsilon {LEARNS_FROM:g} on"
    asked_of = [gap(one.cell, one.scores, one.trivial) for one in results if one.cell.epsilon >= LEARNS_FROM]
    if not asked_of:
        return Verdict(asked, TOLD, "Nothing was played.")
    least = min(asked_of, key=lambda one: one.value)
    learns = all(one.value > ERRORS * one.error for one in asked_of)
    found = f"Least in {least.cell.words}: {least.value:.2f} ± {least.error:.2f} points above the trivial predictor."
    return Verdict(asked, HOLDS if learns else FAILS, found)


def no_divergence(results: Sequence[Result]) -> Verdict:
    """Whether every model is one."""
    lost = [one.cell.words for one in results if one.diverged]
    found = f"{len(lost)} of {len(results)} cells have a model that is not finite" + (f": {lost[0]}" if lost else "")
    return Verdict("No run diverges", FAILS if lost else HOLDS, found + ".")


def missing(results: Mapping[Cell, Result], cells: Iterable[Cell], seeds: int) -> int:
    """How many runs by rule have not been played."""
    return sum(seeds - len(results[cell].scores) if cell in results else seeds for cell in cells)
