"""Ties called ties: classes of methods that cannot be told apart, and where each stands over all situations.

All methods of a situation have the same seeds: the same deal of the records, the same participants, and where it has
the same shape the same noise. So they are held against each other by differences within a seed. Two methods are told
apart if Student's two-sided test of these differences says so at 5 % after Holm's correction over all pairs of the
situation: among methods that are equal, any two are told apart with a chance of 5 % at most, whichever looks best.

The first class is the method with the best mean and all that are not told apart from it; the second is the best of the
rest and all of these that are not told apart from it; and so on. Whoever is in a class may be told apart from others
in it, only not from its best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fedspd.studies.compare.plan import Ground
from fedspd.studies.compare.run import Entry
from fedspd.studies.lineup import BY_RULE, PRIVATE
from fedspd.studies.testing import LEVEL, holm

SAME = 1e-9  # points; means that are no farther apart than rounding are equal


def told_apart(scores: np.ndarray) -> np.ndarray:
    """(methods, methods): which differ by more than chance explains, from scores of (methods, seeds)."""
    count, seeds = scores.shape
    apart = np.zeros((count, count), bool)
    if seeds < 2 or count < 2:
        return apart
    first, second = np.array(list(combinations(range(count), 2))).T
    found = holm(_student(scores[first] - scores[second])) < LEVEL
    apart[first, second] = apart[second, first] = found
    return apart


def _student(gaps: np.ndarray) -> np.ndarray:
    """Two-sided p-values of means that are zero, from gaps of (pairs, seeds)."""
    from scipy.special import stdtr

    seeds = gaps.shape[1]
    mean, error = gaps.mean(axis=1), gaps.std(axis=1, ddof=1) / np.sqrt(seeds)
    # a gap that is the same with every seed is beyond chance, unless it is rounding
    ratio = np.abs(mean) / np.maximum(error, SAME)
    return np.where(np.abs(mean) <= SAME, 1.0, 2 * stdtr(seeds - 1, -ratio))


def classes(scores: np.ndarray) -> np.ndarray:
    """The class of every method, from 1 on, by scores of (methods, seeds); what diverged has reached nothing."""
    scores = np.nan_to_num(scores)
    means, apart = scores.mean(axis=1), told_apart(scores)
    found, number = np.zeros(len(scores), int), 0
    while not found.all():
        number += 1
        rest = np.flatnonzero(found == 0)
        best = rest[np.argmax(means[rest])]
        found[rest[~apart[best, rest]]] = number
    return found


def ranks(found: np.ndarray) -> np.ndarray:
    """Places by classes: those of a class share the mean of theirs."""
    better = (found[None, :] < found[:, None]).sum(axis=1)
    equal = (found[None, :] == found[:, None]).sum(axis=1)
    return better + (equal + 1) / 2


def is_ranked(entry: Entry) -> bool:
    """Whether a method is on the board: its privacy is proved."""
    return entry.cell.method in PRIVATE or entry.cell.method in BY_RULE


def by_situation(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Those that are ranked, together with whom they are held against."""
    found: dict[tuple, list[Entry]] = {}
    for entry in entries:
        if is_ranked(entry):
            found.setdefault(entry.cell.situation, []).append(entry)
    return list(found.values())


def class_of(entries: Sequence[Entry]) -> dict[int, int]:
    """Class by the identity of an entry; nothing of those that are not ranked, or of one seed, which tells nothing."""
    found: dict[int, int] = {}
    for group in by_situation(entries):
        scores = np.array([entry.score for entry in group])
        if scores.shape[1] > 1:
            found |= {id(entry): int(one) for entry, one in zip(group, classes(scores), strict=True)}
    return found


@dataclass(frozen=True)
class Place:
    """Where a method stands over all situations that it was entered in."""

    method: str
    label: str
    ranks: tuple[float, ...]  # one per situation
    firsts: dict[Ground, tuple[int, int]]  # by data: in how many situations it is in the first class, and of how many


def places(entries: Sequence[Entry]) -> list[Place]:
    """Every ranked method, best mean rank first; none where there is one seed."""
    known = class_of(entries)
    if not known:
        return []
    standing: dict[str, list[tuple[Entry, float]]] = {}
    for group in by_situation(entries):
        for entry, rank in zip(group, ranks(np.array([known[id(one)] for one in group])), strict=True):
            standing.setdefault(entry.cell.method, []).append((entry, float(rank)))
    found = [_place(method, own, known) for method, own in standing.items()]
    return sorted(found, key=lambda place: float(np.mean(place.ranks)))


def _place(method: str, own: list[tuple[Entry, float]], known: dict[int, int]) -> Place:
    firsts: dict[Ground, tuple[int, int]] = {}
    for entry, _ in own:
        won, entered = firsts.get(entry.cell.ground, (0, 0))
        firsts[entry.cell.ground] = (won + (known[id(entry)] == 1), entered + 1)
    return Place(method, own[0][0].cell.label, tuple(rank for _, rank in own), firsts)
