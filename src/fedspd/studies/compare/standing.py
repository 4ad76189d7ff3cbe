"""Where our method stands: its duels with every other private method, won, lost or undecided."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedspd.results import mean_over_seeds
from fedspd.studies.compare.classes import by_situation, told_apart
from fedspd.studies.compare.plan import Cell
from fedspd.studies.compare.run import Entry
from fedspd.studies.lineup import OURS, PRIVATE


@dataclass(frozen=True)
class Duel:
    """Ours against another in one situation."""

    cell: Cell  # the other's
    difference: float  # by which the other's mean accuracy is higher, in points
    error: float  # of the paired difference, over seeds
    told_apart: bool | None  # whether it is more than chance explains; None with one seed


def duels(entries: Sequence[Entry]) -> list[Duel]:
    """Ours and every other private method that was run in the same situation; none where ours was not."""
    found = []
    for group in by_situation(entries):
        scores = np.nan_to_num(np.array([entry.score for entry in group]))  # what diverged has reached nothing
        ours = next((place for place, entry in enumerate(group) if entry.cell.method == OURS), None)
        if ours is None:
            continue
        apart, seeds = told_apart(scores)[ours], scores.shape[1]
        for place, entry in enumerate(group):
            if entry.cell.method in PRIVATE and place != ours:
                gap = mean_over_seeds(scores[place] - scores[ours])
                found.append(Duel(entry.cell, *gap, told_apart=bool(apart[place]) if seeds > 1 else None))
    return found


def has_ours(entries: Sequence[Entry]) -> bool:
    """Whether our method is among those compared."""
    return any(entry.cell.method == OURS for entry in entries)


def behind(entries: Sequence[Entry]) -> list[Duel]:
    """Every private rival with a higher mean accuracy than ours in its situation."""
    return [duel for duel in duels(entries) if duel.difference > 0]


def standing(entries: Sequence[Entry], seeds: int) -> tuple[str, ...]:
    """How many duels are won and lost, and how many nobody can tell."""
    if not has_ours(entries):
        return (f"{OURS} is not among the methods that were compared, so there is no duel.",)
    fought = duels(entries)
    if seeds == 1:
        won = sum(duel.difference <= 0 for duel in fought)
        return (f"Of {len(fought)} duels with another private method, {OURS} wins {won} (one seed: no errors).",)
    lost = sum(bool(duel.told_apart) and duel.difference > 0 for duel in fought)
    won = sum(bool(duel.told_apart) and duel.difference < 0 for duel in fought)
    return (
        f"Of {len(fought)} duels with another private method, {OURS} wins {won}, loses {lost} and cannot be told apart "
        f"from the other in {len(fought) - won - lost} (differences paired over {seeds} seeds; Student’s test at 5 %, "
        "Holm’s correction over all pairs of a situation).",
    )
