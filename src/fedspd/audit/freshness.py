"""Whether noise is drawn anew: for every round, every client and every seed. Two releases with one noise tell it."""

from itertools import product

import numpy as np

from fedspd.audit.game import unit_noise
from fedspd.audit.target import Target

ROUNDS, CLIENTS, RUNS = 3, 2, 500
NORMAL = 6.0  # deviations that a correlation of independent draws never reaches: once in 5e8


def noise_is_fresh(target: Target, seed: int) -> bool:
    """Whether no two draws of a few rounds, clients and seeds go together.

    Another seed is one that a server may have: noise that it can draw again protects nobody.
    """
    drawn = [
        np.ravel(unit_noise(target, RUNS, seed + other, 1 + turn, client))
        for other, turn, client in product(range(2), range(ROUNDS), range(CLIENTS))
    ]
    rows = np.stack(drawn)
    rows = rows[:, np.any(rows != 0, axis=0)]
    rows = rows - rows.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(rows, axis=1)
    together = np.abs(rows @ rows.T / np.outer(lengths, lengths)) - np.eye(len(rows))
    return bool(together.max() * np.sqrt(rows.shape[1]) < NORMAL)
