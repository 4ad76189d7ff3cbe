"""An attack on the sums of a Newton step and on scores of models: the pairs of units that move them furthest."""

from itertools import combinations

import numpy as np

from fedspd.data.holding.units import MOST_ROWS
from fedspd.evaluate.newton import SHARES, Step
from fedspd.evaluate.scoring import score_query, score_sensitivity

Unit = tuple[np.ndarray, np.ndarray]  # rows and labels of a record, or of a person


def sums_of(step: Step, unit: Unit) -> np.ndarray:
    """Of one unit: its rows weigh one together, as in a table that says whom they are about."""
    rows, labels = unit
    weights = np.full(len(rows), np.floor(2**30 / len(rows)) / 2**30)
    return np.asarray(step.query(rows, labels, weights, np.zeros(len(rows), int), 1).value)[0]


def at_angles(bound: float) -> list[np.ndarray]:
    """Records of the full length at many angles: the third number is what a steep start tells them by."""
    angles = np.concatenate([[1e-4], np.linspace(0.02, np.pi / 2, 40)])
    return [bound * np.array([np.cos(angle), 0.0, side * np.sin(angle)]) for angle in angles for side in (-1, 1)]


def worst_pairs(kind: str, bound: float) -> list[tuple[Step, list[Unit]]]:
    """Steps, with units that may stand in for each other: mild, steep and no starts, every label, persons too."""
    ends = (0.0, 1.0) if kind == "classes" else (-1.0, 1.0)
    rng, found = np.random.default_rng(0), []
    for steepness in (0.0, 0.12, 0.35, 1.0, 1e7):
        units = [(row[None], np.array([end])) for row in at_angles(bound) for end in ends]
        for size in (2, 3, 20, MOST_ROWS):
            rows = rng.standard_normal((size, 3))
            rows *= bound / np.linalg.norm(rows, axis=1, keepdims=True)
            units += [(rows, np.full(size, end)) for end in ends]
        found.append((Step(kind, bound, np.array([0.0, 0.0, steepness])), units))
    return found


def worst_move(kind: str, relation: str, sensitivity: float | None = None) -> float:
    """The largest L2 distance that was found, over the sensitivity, or over another number in its place."""
    worst = 0.0
    for step, units in worst_pairs(kind, 2.0):
        sums = np.stack([sums_of(step, unit) for unit in units])
        if relation == "replace-one":
            distances = max(float(np.linalg.norm(one - other)) for one, other in combinations(sums, 2))
        else:
            distances = float(np.linalg.norm(sums, axis=1).max())
        worst = max(worst, distances / (sensitivity or step.sensitivity(relation)))
    return worst


def worst_move_of_scores(models: int, sensitivity: float | None = None) -> float:
    """Of scores: all models are right about one record, and wrong about the other."""
    scores = [np.full((1, models), score) for score in (0.0, 1.0)]
    moved = [np.asarray(score_query(one, np.ones(1), np.zeros(1, int), 1).value) for one in scores]
    return float(np.linalg.norm(moved[0] - moved[1])) / (sensitivity or score_sensitivity(models))


def claimed(kind: str) -> float:
    """For replaced units, without what rounding adds."""
    gradient, matrix, _ = SHARES[kind]
    if kind == "classes":
        return 2 * gradient**0.5
    return (2 * gradient + 2 * matrix + gradient**2 / (2 * matrix)) ** 0.5
