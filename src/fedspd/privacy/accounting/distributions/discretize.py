r"""Dominating pairs as finite distributions of the privacy loss on a grid that all events share.

Upper bounds use "connect the dots" (Doroshenko et al. 2022): the masses $(a, b)$ that the pair puts on one
cell $(k\Delta, (k+1)\Delta]$ of the loss move to the two ends of the cell so that both masses stay,
which replaces the profile by its chords: never below it, and off by $O(\Delta^2)$. Lower bounds merge a
cell into one outcome, whose loss is $\ln(a/b)$ (post-processing), and round that loss down.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedspd.privacy.accounting.distributions.profiles import (
    Dominating,
    Floats,
    LossTails,
    Pair,
    loss_range,
    loss_tails,
    positive_losses,
)

# How far beyond half way the cells of a lower bound reach, so that rounding down loses little.
_LEANS = (0.005, 0.015, 0.05, 0.15)


@dataclass(frozen=True)
class LossMasses:
    """Masses of the privacy loss at `(first + i) * spacing`, and the mass of an infinite loss."""

    spacing: float
    first: int
    masses: Floats
    infinite: float

    @property
    def losses(self) -> Floats:
        """The loss of each mass."""
        return np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.spacing


def pessimistic(pair: Pair, spacing: float, negligible: float) -> LossMasses:
    """The loss of a pair that dominates `pair` and lives on the grid.

    Guarantees:
        Its profile is at least that of `pair` at every alpha; what lies above the grid has infinite loss.
    """
    if not isinstance(pair, Dominating):
        return _listed(*positive_losses(pair), spacing, negligible)
    low, high = loss_range(pair, negligible)
    top = max(1, math.ceil(high / spacing))
    bottom = 0 if pair.order == "symmetric" else min(-1, math.floor(low / spacing))
    grid = np.arange(bottom, top + 1, dtype=np.float64) * spacing
    tails = loss_tails(pair, grid)
    masses = _connected_dots(tails, grid, spacing)
    infinite = max(0.0, float(tails.above[-1] - tails.scaled_second_above[-1]))
    if pair.order == "symmetric":
        return _symmetric(masses, grid, spacing, infinite)
    if pair.order == "removal":
        masses[0] += tails.below[0]
        return LossMasses(spacing, bottom, masses, infinite)
    mirrored = np.trim_zeros((masses * np.exp(-grid))[::-1], "b")
    return LossMasses(spacing, -top, mirrored, float(tails.second_below[0]))


def optimistic(pair: Dominating, spacing: float, negligible: float) -> LossMasses:
    """The loss of a post-processing of `pair`, in one of its two real orders, rounded down to the grid.

    Guarantees:
        Its profile, and that of its compositions, is at most that of `pair`; missing mass means a loss of
        minus infinity.
    """
    rounded = (_merged(pair, spacing, negligible, lean) for lean in _LEANS)
    return max(rounded, key=lambda masses: float(np.sum(masses.masses * masses.losses)))


def _merged(pair: Dominating, spacing: float, negligible: float, lean: float) -> LossMasses:
    low, high = loss_range(pair, negligible)
    middles = np.arange(math.floor(low / spacing) - 1, math.ceil(high / spacing) + 1)
    reverse = pair.order == "addition"
    shift = (-lean if reverse else lean) - 0.5
    edges = (np.append(middles, middles[-1] + 1).astype(np.float64) + shift) * spacing
    present, scaled = _cells(loss_tails(pair, edges), edges, spacing)
    absent = scaled * np.exp(-edges[:-1])
    if reverse:
        present, absent, middles = absent, present, -middles
    # Cells lighter than this hold rounding noise, and no lower bound needs them.
    kept = (present > 1e-16) & (absent > 1e-300)
    rounded = np.floor(np.log(present[kept] / absent[kept]) / spacing).astype(np.int64)
    steps = np.clip(rounded, middles[kept] - 1, middles[kept])
    first = int(steps.min())
    return LossMasses(spacing, first, gathered(steps - first, present[kept], int(np.ptp(steps)) + 1), 0.0)


def gathered(indices: NDArray[np.int64], masses: Floats, size: int) -> Floats:
    """The sum of the masses at each index below `size`."""
    return np.asarray(np.bincount(indices, weights=masses, minlength=size), dtype=np.float64)


def _cells(tails: LossTails, edges: Floats, spacing: float) -> tuple[Floats, Floats]:
    """The two masses of each cell, the second times exp(loss at its lower edge)."""
    negative = edges[1:] <= 0.0
    first = np.where(negative, np.diff(tails.below), -np.diff(tails.above))
    scaled = tails.scaled_second_above[:-1] - math.exp(-spacing) * tails.scaled_second_above[1:]
    lowest = np.exp(np.minimum(edges[:-1], 0.0))
    second = np.where(negative, np.diff(tails.second_below) * lowest, scaled)
    return np.maximum(first, 0.0), np.maximum(second, 0.0)


def _connected_dots(tails: LossTails, grid: Floats, spacing: float) -> Floats:
    """Masses at the grid points; what is above the grid sends the second member's share to its end."""
    first, second = _cells(tails, grid, spacing)
    above = np.clip((first - second) / -math.expm1(-spacing), 0.0, first)
    masses = np.zeros_like(grid)
    masses[:-1] += first - above
    masses[1:] += above
    masses[-1] += tails.scaled_second_above[-1]
    return masses


def _listed(losses: Floats, masses: Floats, spacing: float, negligible: float) -> LossMasses:
    """Losses of both signs, each moved to the ends of its cell; the largest are infinite if they are negligible."""
    kept = np.cumsum(masses[::-1])[::-1] > negligible
    infinite = float(np.sum(masses[~kept]))
    losses, masses = losses[kept], masses[kept]
    below = np.floor(losses / spacing).astype(np.int64)
    grid = np.arange(int(below[-1]) + 2, dtype=np.float64) * spacing
    share = np.clip(np.expm1(grid[below] - losses) / math.expm1(-spacing), 0.0, 1.0)
    spread = gathered(below, masses * (1.0 - share), len(grid)) + gathered(below + 1, masses * share, len(grid))
    return _symmetric(spread, grid, spacing, infinite)


def _symmetric(masses: Floats, grid: Floats, spacing: float, infinite: float) -> LossMasses:
    """Both halves from the positive one: a loss of -l has exp(-l) times the mass of l, 0 has the rest."""
    positive = masses[1:]
    negative = (positive * np.exp(-grid[1:]))[::-1]
    middle = max(0.0, 1.0 - infinite - float(positive.sum()) - float(negative.sum()))
    both = np.concatenate([negative, [middle], positive])
    return LossMasses(spacing, -len(positive), both, infinite)
