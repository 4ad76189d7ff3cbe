r"""How much noise of density $\propto e^{-\|b\|/s}$ in $d$ dimensions leaks, if a record moves it within $k$ of them.

With $\rho = \|b\|/s$ and $c$ the cosine between $b$ and the $k$ directions, a shift of $1/z$ at most lengthens the
noise by at most $U = \sqrt{\rho^2 + 2\rho c/z + 1/z^2} - \rho$, and $\rho \sim \mathrm{Gamma}(d)$ and
$c^2 \sim \mathrm{Beta}(k/2, (d-k)/2)$ are independent (docs/accounting.md, Theorem A5). The law of $U$ is replaced by
one on finitely many values whose profile $\mathbb{E}(1 - \alpha e^{-U})_+$ is nowhere smaller:

- $U$ decreases in $\rho$, so $\rho$ may move down to the end of its cell. Where $3\rho z^2 \ge 1$, $e^{-U}$ is concave
  in $\rho$ besides, so $\rho$ may move to both ends of its cell and keep its mean: the profile is convex in $e^{-U}$.
- Then $U$ moves to the ends of its own cell. If the mean of $e^{-U}$ is to stay, the mass above each cell is the
  average of $\Pr[U > x]$ over the cell, taken in $e^{-x}$. Given $\rho$, that tail bends once, from concave to convex,
  so the value at the middle or the mean of the ends is above the average; where it bends, the value at the lower end
  of the cell is. docs/proofs/numerics.md proves it, and that tabulated tails are nowhere below the tail.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Cells of the loss up to the tail, and within it; of the angle; of the norm for any dimension, and more for few.
_LOSS_CELLS, _TAIL_CELLS, _ANGLE_CELLS = 800, 64, 1 << 14
_NORM_CELLS, _NORM_CELLS_BY_DIMENSION = 64, 2000
# Norms from here to there, as standard normal quantiles, and where typical ones begin.
_LEAST_NORM, _GREATEST_NORM, _LEAST_TYPICAL_NORM = -11.0, 8.0, -6.0
# Angles below all but this share count as that share, angles above all but that one as all.
_LEAST_ANGLE, _GREATEST_ANGLE = 1e-25, 1e-12
# Averages are raised by this; nothing of the proof needs it, but what is not thought of.
_MARGIN = 3e-6
# Special functions and the roundings on the way to a tabulated chance are right to this part of it.
_TRUSTED = 1e-8


@lru_cache(maxsize=256)
def lengthening(noise_multiplier: float, dimension: int, directions: int) -> tuple[Floats, Floats]:
    """Ascending values of U and their masses, which sum to one; the largest is the reciprocal of the multiplier.

    Guarantees:
        The profile of these values is at least that of U at every alpha.
    """
    norms, weights = _norms(dimension, noise_multiplier)
    ends = _cells(norms, noise_multiplier, dimension, directions)
    # The middle of a cell in exp(-x).
    middles = ends[:-1] - np.log1p(0.5 * np.expm1(ends[:-1] - ends[1:]))
    at_ends = _tails(ends, norms, noise_multiplier, dimension, directions)
    at_middles = _tails(middles, norms, noise_multiplier, dimension, directions)
    averages = np.maximum(at_middles, 0.5 * (at_ends[:, :-1] + at_ends[:, 1:])) * (1.0 + _MARGIN)
    margin = _table_margin(dimension, directions)
    averages = np.where(_bends(ends, at_ends, margin), at_ends[:, :-1], np.minimum(averages, at_ends[:, :-1]))
    # A norm of zero, the first of them, lengthens by the most.
    above = weights[0] + weights[1:] @ averages
    masses = -np.diff(above, prepend=1.0, append=0.0)
    kept = masses > 0.0
    return _frozen(ends[kept]), _frozen(masses[kept])


def _bends(ends: Floats, tails: Floats, margin: float) -> NDArray[np.bool_]:
    """Cells in which a tail may turn from concave to convex: there nothing but its largest value is above it.

    Args:
        ends: of the cells.
        tails: at the ends, for each norm.
        margin: by which part of themselves tails may be off.

    Guarantees:
        The cell of the turn is among them. At the ends of four cells in a row that surround it, differences of slopes
        have either sign or none that is certain; the two first and the two last cells have no such neighbors.
    """
    widths = np.minimum(np.diff(ends), 700.0)
    steepness = -1.0 / np.expm1(-widths)
    slopes = -np.diff(tails, axis=1) * steepness  # by exp(-x), in units of it at the start of each cell
    change = np.exp(widths[:-1]) * slopes[:, 1:] - slopes[:, :-1]
    uncertain = 2.0 * margin * (np.exp(widths[:-1]) * steepness[1:] + steepness[:-1]) * tails[:, :-2]
    curvatures = np.where(np.abs(change) <= uncertain, 0.0, np.sign(change))
    doubtful = (np.diff(curvatures, axis=1) != 0) | (curvatures[:, 1:] == 0)
    found = np.zeros(slopes.shape, bool)
    for place in range(3):
        found[:, place : place + doubtful.shape[1]] |= doubtful
    found[:, :2] = found[:, -2:] = True
    return found


def _frozen(values: Floats) -> Floats:
    values.setflags(write=False)
    return values


def _longest(cosine: float, norm: float, noise_multiplier: float) -> float:
    shift = 1.0 / noise_multiplier
    return shift * (2.0 * norm * cosine + shift) / (math.sqrt(norm * (norm + 2.0 * cosine * shift) + shift**2) + norm)


def _cells(norms: Floats, noise_multiplier: float, dimension: int, directions: int) -> Floats:
    """The ends of the cells of U: fine where its mass is, coarse beyond."""
    from scipy.special import gammaincinv, ndtr  # scipy.special takes 0.3 s to import

    largest = 1.0 / noise_multiplier
    small = float(gammaincinv(dimension, ndtr(_LEAST_TYPICAL_NORM)))
    closest, farthest = _angle_range(dimension, directions)
    least = _longest(math.cos(farthest), float(norms[-1]), noise_multiplier)
    rare = min(_longest(math.cos(closest), small, noise_multiplier), largest)
    fine, coarse = np.linspace(least, rare, _LOSS_CELLS + 1), np.linspace(rare, largest, _TAIL_CELLS + 1)
    return np.unique(np.concatenate([[0.0], fine, coarse]))


def _tails(losses: Floats, norms: Floats, noise_multiplier: float, dimension: int, directions: int) -> Floats:
    """The chance of U above each loss given each norm but the first, which is zero.

    Guarantees:
        Never below it, and above it by twice the margin of the table at most, but where less than `_LEAST_ANGLE` is
        left or all but `_GREATEST_ANGLE`.
    """
    share = np.minimum(losses * noise_multiplier, 1.0)
    needed = (1.0 - share) * (1.0 + share) / (2.0 * noise_multiplier)
    cosines = share - needed / norms[1:, None]
    first, step, chances = _angles(dimension, directions)
    places = np.clip((np.arccos(np.clip(cosines, 0.0, 1.0)) - first) / step, 0.0, _ANGLE_CELLS)
    below = np.minimum(places.astype(np.int64), _ANGLE_CELLS - 1)
    return chances[below] + (places - below) * (chances[below + 1] - chances[below])


def _angle_range(dimension: int, directions: int) -> tuple[float, float]:
    from scipy.special import betaincinv  # scipy.special takes 0.3 s to import

    across, along = 0.5 * (dimension - directions), 0.5 * directions
    closest = math.asin(math.sqrt(float(betaincinv(across, along, _LEAST_ANGLE))))
    return closest, math.acos(math.sqrt(float(betaincinv(along, across, _GREATEST_ANGLE))))


@lru_cache(maxsize=32)
def _angles(dimension: int, directions: int) -> tuple[float, float, Floats]:
    """The first of equidistant angles, their step, and the chances that the noise is that close to the directions.

    Raised by what a line between two of them may be below the chance: it is concave for large angles.
    """
    from scipy.special import betainc  # scipy.special takes 0.3 s to import

    angles = np.linspace(*_angle_range(dimension, directions), _ANGLE_CELLS + 1)
    chances = betainc(0.5 * (dimension - directions), 0.5 * directions, np.sin(angles) ** 2)
    chances = np.minimum(chances * (1.0 + _table_margin(dimension, directions)), 1.0)
    chances[-1] = 1.0
    return float(angles[0]), float(angles[-1] - angles[0]) / _ANGLE_CELLS, _frozen(chances)


def _table_margin(dimension: int, directions: int) -> float:
    r"""$(k-1)(d-k)h^2/2$, with $h$ the step of the table: a line is below the chance by at most this part of it."""
    closest, farthest = _angle_range(dimension, directions)
    step = (farthest - closest) / _ANGLE_CELLS
    return _TRUSTED + 0.5 * (directions - 1) * (dimension - directions) * step * step


@lru_cache(maxsize=32)
def _norm_cells(dimension: int) -> tuple[Floats, Floats, Floats]:
    """Ends of cells of the norm from zero on, the mass from each of them on, and the part of it at the lower end."""
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, ndtr  # takes 0.3 s to import

    cells = _NORM_CELLS + _NORM_CELLS_BY_DIMENSION // dimension
    quantiles = np.linspace(_LEAST_NORM, _GREATEST_NORM, cells)
    small, large = gammaincinv(dimension, ndtr(quantiles)), gammainccinv(dimension, ndtr(-quantiles))
    ends = np.append(0.0, np.where(quantiles < 0.0, small, large))

    def masses(shape: int) -> Floats:
        lower = np.diff(gammainc(shape, ends), append=1.0)
        upper = -np.diff(gammaincc(shape, ends), append=0.0)
        return np.where(ends < dimension, lower, upper)

    mass, width = masses(dimension), np.diff(ends, append=math.inf)
    excess = (dimension * masses(dimension + 1) - ends * mass) / width
    at_lower = np.clip(mass - excess + 1e-10 * mass, 0.0, mass)
    return _frozen(ends), _frozen(mass), _frozen(at_lower)


def _norms(dimension: int, noise_multiplier: float) -> tuple[Floats, Floats]:
    """Norms from zero on, and the mass of each."""
    ends, mass, at_lower = _norm_cells(dimension)
    concave = 3.0 * ends * noise_multiplier**2 >= 1.0
    lower = np.where(concave, at_lower, mass)
    return ends, lower + np.append(0.0, (mass - lower)[:-1])
