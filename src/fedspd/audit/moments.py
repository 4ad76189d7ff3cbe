"""The release of moments before the first round, as a part of the game: one record at the far ends of its columns."""

import numpy as np

from fedspd.algorithms import Moments
from fedspd.audit.target import Target
from fedspd.engine.release import Drawn, release

FLOOR = 0.1


def moments_scores(target: Target, second: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Log-likelihood ratios of the moments of each run; zero where none are released."""
    if target.moments_multiplier is None:
        return np.zeros(runs)
    moments = Moments(np.array([True, False, False]), 1, FLOOR, target.algorithm.relation)
    shards = neighbors(target.algorithm.relation)
    first, other = (np.asarray(moments.query(shard, np.array([0, len(shard)])).value) for shard in shards)
    scale = target.moments_multiplier * moments.sensitivity
    rows = np.tile(shards[second], (runs, 1))
    query = moments.query(rows, np.arange(0, len(rows) + 1, len(shards[0])))
    normals = rng.standard_normal(np.shape(query.value))
    seen = np.asarray(release(query, Drawn("gaussian", scale, normals)).value)
    return ((seen - first) ** 2 - (seen - other) ** 2).sum(axis=1) / (2 * scale**2)


def neighbors(relation: str) -> tuple[np.ndarray, np.ndarray]:
    """Two shards of a numeric column and a block of two levels that differ in their first record."""
    rest = np.array([[0.3, 1.0, 0.0], [-0.2, 0.0, 1.0]])
    one = np.array([[1.0, 1.0, 0.0]])
    other = np.zeros((1, 3)) if relation == "zero-out" else np.array([[-1.0, 0.0, 1.0]])
    return np.concatenate([one, rest]), np.concatenate([other, rest])
