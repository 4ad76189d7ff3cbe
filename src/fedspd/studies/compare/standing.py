"""Where our method stands: its duels with every other private method, won and lost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedspd.results import mean_over_seeds
from fedspd.studies.compare.plan import Cell
from fedspd.studies.compare.run import Entry
from fedspd.studies.lineup import OURS, PRIVATE


@dataclass(frozen=True)
class Behind:
    """A situation in which our method is behind another."""

    cell: Cell  # the other's
    difference: float  # of mean accuracies, in points
    error: float  # of the paired difference, over seeds

    @property
    def more_than_one_error(self) -> bool | None:
        """Whether it is more than chance would often do; None with one seed."""
        return None if np.isnan(self.error) else self.difference > self.error


def duels(entries: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Ours and every other private method that was run in the same situation; none where ours was not."""
    ours = {(e.cell.deal, e.cell.participation, e.cell.epsilon): e for e in entries if e.cell.method == OURS}
    rivals = [e for e in entries if e.cell.method in PRIVATE and e.cell.method != OURS]
    met = [(ours.get((e.cell.deal, e.cell.participation, e.cell.epsilon)), e) for e in rivals]
    return [(own, rival) for own, rival in met if own is not None]


def has_ours(entries: Sequence[Entry]) -> bool:
    """Whether our method is among those compared."""
    return any(entry.cell.method == OURS for entry in entries)


def behind(entries: Sequence[Entry]) -> list[Behind]:
    """Every private rival with a higher mean accuracy than ours in its situation."""
    found = []
    for own, entry in duels(entries):
        gaps = np.nan_to_num(entry.score) - np.nan_to_num(own.score)  # what diverged has reached nothing
        if gaps.mean() > 0:
            found.append(Behind(entry.cell, *mean_over_seeds(gaps)))
    return found


def standing(entries: Sequence[Entry], seeds: int) -> tuple[str, ...]:
    """The goal in words, and whether it is met."""
    if not has_ours(entries):
        return (f"{OURS} is not among the methods that were compared, so there is no duel.",)
    others = [rival for _, rival in duels(entries)]
    ahead = behind(entries)
    clearly = [found for found in ahead if found.more_than_one_error]
    admm = [e for e in others if e.cell.method == "DP-ADMM" and e.cell.participation == "20%"]
    lost = [found for found in ahead if found.cell.method == "DP-ADMM" and found.cell.participation == "20%"]
    if seeds == 1:
        won = len(others) - len(ahead)
        return (f"Of {len(others)} duels with another private method, {OURS} wins {won} (one seed: no errors).",)
    return (
        f"Of {len(others)} duels with another private method, {OURS} has the higher mean accuracy in "
        f"{len(others) - len(ahead)}, is behind by no more than one standard error in {len(ahead) - len(clearly)} and "
        f"by more in {len(clearly)} (differences paired over {seeds} seeds). Of as many duels between equals, one in "
        f"six, about {len(others) / 6:.0f}, would be lost by more than a standard error.",
        f"Against DP-ADMM at 20 % participation it is ahead in {len(admm) - len(lost)} of {len(admm)}.",
    )
