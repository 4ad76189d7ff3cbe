"""Replay and game against any mechanism: a function of records and a generator, with a declared statement."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np

from fedspd.audit.bounds import CONFIDENCE, PICKED_ON, Claim, Lower, lower_bound
from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian, spent
from fedspd.reading import shown

Mechanism = Callable[[Any, np.random.Generator], Any]
"""From records and a generator to what is released: a number, or an array of always one shape."""

Neighbors = Literal["replace-one", "add-or-remove", "zero-out"]

RIDGE = 1e-9
REPLAYED = 20


@dataclass(frozen=True)
class Statement:
    """What a mechanism declares: (epsilon, delta), or the mu of Gaussian DP, which says more.

    Args:
        epsilon: of (epsilon, delta)-DP; leave it out where mu is given.
        delta: with mu, where epsilon is compared.
        mu: of Gaussian DP: sensitivity over the deviation of the noise, for one Gaussian release.
        neighbors: what differs: one record's value, one record at all, or one record against zeros.
        sensitivity: L2 bound of what noise is added to, where there is such: then the mechanism is replayed as well.
    """

    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None
    neighbors: Neighbors = "replace-one"
    sensitivity: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no statement."""
        for name in ("epsilon", "delta", "mu", "sensitivity"):
            value = getattr(self, name)
            if not (isinstance(value, Real) or (value is None and name != "delta")):
                raise InputError(f"{name} must be a number, got {shown(value)}; correct it.")
        if self.neighbors not in get_args(Neighbors):
            known = ", ".join(get_args(Neighbors))
            raise InputError(f"neighbors must be one of {known}, got {shown(self.neighbors)}; correct them.")
        if self.sensitivity is not None and not 0 <= self.sensitivity < inf:
            raise InputError(f"sensitivity must be at least 0 and finite, got {self.sensitivity!r}; correct it.")
        if (self.epsilon is None) == (self.mu is None):
            raise InputError("a statement has epsilon or mu, got both or neither; give one of them.")
        if not 0 <= self.delta < 1 or (self.mu is not None and self.delta == 0):
            raise InputError(f"delta must be below 1, and above 0 with mu, got {self.delta!r}; correct it.")
        if not 0 < (self.epsilon or self.mu or 0.0) < inf:
            given = self.mu if self.epsilon is None else self.epsilon
            raise InputError(f"epsilon or mu must be positive and finite, got {given!r}; correct it.")

    @property
    def claim(self) -> Claim:
        """As bounds know it."""
        if self.mu is None:
            assert self.epsilon is not None
            return Claim(self.epsilon, self.delta)
        history = ((Gaussian(1 / self.mu), 1),)
        return Claim(spent(history, self.delta).epsilon, self.delta, history)


def worst_neighbor(records: Any, neighbors: str) -> tuple[Any, Any]:
    """Two data sets whose difference is the largest that the records themselves suggest.

    The record farthest from the mean is replaced by the one farthest from it, made zero, or left out.
    """
    rows = np.asarray(records)
    if rows.dtype.kind not in "fiub" or len(rows) < 2:
        raise InputError("records must be two numbers or rows of numbers at least, got something else; give neighbor=.")
    flat = rows.reshape(len(rows), -1).astype(float)
    place = int(np.argmax(np.linalg.norm(flat - flat.mean(axis=0), axis=1)))
    if neighbors == "add-or-remove":
        return rows, np.delete(rows, place, axis=0)
    other = rows.copy()
    farthest = int(np.argmax(np.linalg.norm(flat - flat[place], axis=1)))
    other[place] = 0 * rows[place] if neighbors == "zero-out" else rows[farthest]
    if np.array_equal(rows, other):
        raise InputError("records must differ, or there is nothing to tell apart, got equal ones; give neighbor=.")
    return rows, other


def distinguish(mechanism: Mechanism, worlds: tuple[Any, Any], claim: Claim, runs: int, seed: int) -> Lower:
    """Play the game, with a statistic that is learned on the runs that thresholds are picked on."""
    released = [_released(mechanism, records, runs, [seed, world]) for world, records in enumerate(worlds)]
    taught = [rows[: int(PICKED_ON * runs)] for rows in released]
    candidates = []
    for features in (lambda rows: rows, _with_squares):
        score = _discriminant(*map(features, taught))
        scores = [score(features(rows)) for rows in released]
        seen = [one[: int(PICKED_ON * runs)] for one in scores]
        candidates.append((_area(*seen), scores))
    first, second = max(candidates, key=lambda pair: pair[0])[1]
    return lower_bound(first, second, claim, CONFIDENCE)


def moved(mechanism: Mechanism, worlds: tuple[Any, Any], seed: int) -> float:
    """How far two neighbors are apart under the same draws, at most of a few."""
    pairs = [
        [_numbers(mechanism(records, np.random.default_rng([seed, run]))) for records in worlds]
        for run in range(REPLAYED)
    ]
    return max(float(np.linalg.norm(second - first)) for first, second in pairs)


def _released(mechanism: Mechanism, records: Any, runs: int, key: list[int]) -> np.ndarray:
    rng = np.random.default_rng(key)
    rows = [_numbers(mechanism(records, rng)) for _ in range(runs)]
    if len({len(row) for row in rows}) > 1:
        raise InputError("a mechanism must release as many numbers every time, got more or fewer; fill them up.")
    return np.stack(rows)


def _numbers(released: Any) -> np.ndarray:
    """What a mechanism released, in a row."""
    try:
        row = np.ravel(np.asarray(released, float))
    except (TypeError, ValueError):
        row = np.full(1, np.nan)
    if not np.isfinite(row).all() or not len(row):
        raise InputError(
            f"a mechanism must release finite numbers, at least one, got {shown(released)}; put numbers in their place."
        )
    return row


def _with_squares(rows: np.ndarray) -> np.ndarray:
    """For what shows in the size of a release, not in its place."""
    return np.concatenate([rows, rows**2], axis=1)


def _discriminant(first: np.ndarray, second: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fisher's linear discriminant (1936): the best direction for two normals of one covariance."""
    both = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)])
    spread = both.T @ both / len(both)
    apart = second.mean(axis=0) - first.mean(axis=0)
    size = max(float(np.trace(spread)), float(apart @ apart), 1e-200)  # the second where there is no noise at all
    ridge = RIDGE * size * np.eye(len(spread))
    direction = np.linalg.solve(spread + ridge, apart)
    return lambda rows: rows @ direction


def _area(first: np.ndarray, second: np.ndarray) -> float:
    """Under the curve of true against false positives: the chance that a score of the second world is the larger."""
    order = np.searchsorted(np.sort(first), second, side="left") + np.searchsorted(np.sort(first), second, side="right")
    return float(order.mean() / (2 * len(first)))
