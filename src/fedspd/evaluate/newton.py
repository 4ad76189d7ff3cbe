r"""Coefficients with intervals: one noised Newton step from released weights, on records that were held out.

The model is the usual regression without a penalty, in coordinates of its own: a constant, numbers on their public
ranges, and blocks without their first feature. A record is $x$ with $\|x\| \le R$, a public bound. At the released
weights $\beta_0$ the records release three sums with Gaussian noise:
$$g = \sum r x, \qquad H = \sum h\, xx^\top, \qquad s = \sum r^2,$$
with $r = p - y$, $h = p(1-p)$ for two classes, and $r = x^\top\beta_0 - y$ moved into $[-2, 2]$, $h = 1$ for a number
on $[-1, 1]$. Then $\hat\beta = \beta_0 - \hat H^{-1}\hat g$, whose noise is known (`docs/proofs/inference.md`).

Each block is divided by its bound and weighted by the square root of its share $\omega$. Claimed: replacing a record,
or a person with all of its rows, moves the whole by at most $2\sqrt{\omega_g}$ for classes and
$\sqrt{2\omega_g + 2\omega_H + \omega_g^2/2\omega_H}$ for a number, zeroing it out by $\sqrt{\omega_g + \omega_H/2}$
and 1. All but the third are attained; it is met within two parts in a hundred.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspd.data.holding.held_out import STEPS
from fedspd.data.holding.units import MOST_ROWS
from fedspd.typing import Query

Array = NDArray[np.float64]
Released = tuple[Array, float]
SHARES = {"classes": (0.42, 0.58, 0.0), "number": (0.35, 0.55, 0.1)}
"""Of the squared noise budget: gradient, matrix, squares. The proof holds for these."""
FURTHEST = 2.0  # of a residual on [-1, 1]
WELL_ABOVE = 3.0  # the matrix must be so many times longer than its noise in every direction
MOST_BIAS = 2.0  # standard errors that a step may leave
UNLIKELY = 3.0
"""Standard deviations of noise that would have to help a matrix which is too small at best."""
FROM_ZERO = (0.05, 0.1, 0.2, 0.64)
"""Of the squared budget: steps for classes that begin at zero. Below one together, so that roundings fit."""


@dataclass(frozen=True)
class Step:
    """A noised Newton step: what is public about it."""

    kind: str  # "classes" (two) or "number"
    bound: float  # R, of a record's length
    start: Array  # beta_0

    @property
    def furthest(self) -> float:
        """Bound of a residual; from zero a number is no further than its own range."""
        return 1.0 if self.kind == "classes" or not self.start.any() else FURTHEST

    @property
    def bounds(self) -> tuple[float, float, float]:
        """Of a record's part in gradient, matrix and squares."""
        steepest = 0.25 if self.kind == "classes" else 1.0
        return self.furthest * self.bound, self.bound**2 * steepest, self.furthest**2

    def sensitivity(self, relation: str) -> float:
        """L2 bound of one client's sums."""
        gradient, matrix, _ = SHARES[self.kind]
        if self.kind == "classes":
            moved = 2 * sqrt(gradient) if relation == "replace-one" else sqrt(gradient + matrix / 2)
        else:
            both = 2 * (gradient + matrix) + gradient**2 / (2 * matrix)
            moved = sqrt(both) if relation == "replace-one" else 1.0
        count = len(self.start)
        cut = sqrt(count + count * (count + 1) / 2 + 1) / STEPS  # every row's part is cut to steps, summed exactly
        return moved + 2 * MOST_ROWS * cut

    def query(self, rows: Array, labels: Array, weights: Array, owners: NDArray[np.int64], clients: int) -> Query:
        """The three sums of each client, each over its bound, as one row.

        Args:
            rows: of records, no longer than the bound.
            labels: 0 and 1, or numbers on [-1, 1].
            weights: of records: those of a person add up to one at most; who has more than `MOST_ROWS` has no part.
            owners: the client of each.
            clients: how many there are.
        """
        weights = np.where(weights * (MOST_ROWS + 1) > 1, weights, 0.0)
        residuals, bends = self._parts(rows @ self.start, labels)
        weighted = weights * residuals
        blocks = [
            weighted[:, None] * rows,
            (weights * bends)[:, None] * _pairs(rows),
            (weights * residuals**2)[:, None],
        ]
        weighing = [sqrt(share) / bound for share, bound in zip(SHARES[self.kind], self.bounds, strict=True)]
        scaled = [weight * block for weight, block in zip(weighing, blocks, strict=True)]
        terms = np.trunc(np.concatenate(scaled, axis=1) * STEPS) / STEPS
        sums = np.zeros((clients, terms.shape[1]))
        np.add.at(sums, owners, terms)
        return Query(sums, np.zeros(clients))

    def _parts(self, scores: Array, labels: Array) -> tuple[Array, Array]:
        if self.kind == "classes":
            chance = 1.0 / (1.0 + np.exp(-np.clip(scores, -80.0, 80.0)))
            return chance - labels, chance * (1 - chance)
        return np.clip(scores - labels, -self.furthest, self.furthest), np.ones_like(scores)

    def concluded(self, released: Array, variance: float, records: int) -> "Inferred":
        """Estimates and their covariance.

        Args:
            released: noised sums of all clients together.
            variance: of the noise on each coordinate.
            records: that were counted.
        """
        count, shares, bounds = len(self.start), SHARES[self.kind], self.bounds
        gradient = released[:count] * bounds[0] / sqrt(shares[0])
        matrix = _matrix(released[count:-1], count) * bounds[1] / sqrt(shares[1])
        on_gradient = variance * bounds[0] ** 2 / shares[0]
        on_matrix = variance * bounds[1] ** 2 / shares[1]
        least = float(np.linalg.eigvalsh(matrix)[0])
        if least < WELL_ABOVE * sqrt(2 * count * on_matrix):
            return Inferred(self.start, None, TOO_NOISY)
        step = np.linalg.solve(matrix, gradient)
        spread = 1.0
        if self.kind == "number":
            squares = released[-1] * bounds[2] / sqrt(shares[2])
            spread = max(0.0, float(squares - gradient @ step)) / max(1, records - count)
        known = np.linalg.inv(matrix)
        through_matrix = on_matrix / 2 * (step @ step * np.eye(count) + np.outer(step, step))
        covariance = known @ (spread * matrix + on_gradient * np.eye(count) + through_matrix) @ known
        left = self._left(step, matrix)
        within = left * np.sqrt(np.diag(known)) <= MOST_BIAS * np.sqrt(np.diag(covariance))
        return Inferred(self.start - step, covariance, None if within.all() else NOT_CONVERGED, known, left)

    def _left(self, step: Any, matrix: Any) -> float:
        r"""What it may leave of a direction, over its length in $H^{-1}$: $\frac12\max|x^\top\delta|\,\|\delta\|_H$."""
        if self.kind == "number":
            return 0.0  # a quadratic has no remainder
        reach = min(self.bound * float(np.linalg.norm(step)), float(np.abs(step).sum()))
        return reach / 2 * sqrt(float(step @ matrix @ step))


def stepped(
    kind: str, bound: float, start: Array, shares: tuple[float, ...], release: Callable[[Step, float], Released],
    records: int,
) -> "Inferred":  # fmt: skip
    """Steps that share one charge, each from where the last one ended; what the last one found.

    Args:
        kind: of the regression.
        bound: of a record's length.
        start: of the first step.
        shares: of the squared budget, which add up to at most one.
        release: the noised sums of a step, with the variance on each coordinate, for its share.
        records: that were held out.
    """
    step = Step(kind, bound, start)
    found = step.concluded(*release(step, shares[0]), records)
    for share in shares[1:]:
        step = Step(kind, bound, found.estimates)
        found = step.concluded(*release(step, share), records)
    return found


def records_needed(kind: str, widths: tuple[int, ...], noise: float) -> float:
    r"""Held-out units below which noise surely drowns the matrix, whatever the records are.

    A direction of a column of $m$ levels beside the first, $u = (-1, 2, \dots, 2)$, has $|x^\top u| \le 1$ and
    $\|u\|^2 = 4m + 1$, so no matrix of $n$ units has a least eigenvalue above $n\max h/(4m + 1)$.

    Args:
        kind: of the regression.
        widths: of each column: 0 of a number, else how many features its block has beside the first.
        noise: standard deviation on each coordinate, of all clients together.
    """
    count = 1 + sum(max(1, width) for width in widths)
    longest = 1 + len(widths)  # squared; the steepest h cancels
    wanted = WELL_ABOVE * sqrt(2 * count) - UNLIKELY
    return (4 * max(widths) + 1) * wanted * longest * noise / sqrt(SHARES[kind][1])


TOO_NOISY = (
    "the noise on the matrix of second derivatives drowns some direction of it: fewer columns, more held-out records "
    "or a larger budget are needed"
)
NOT_CONVERGED = (
    "the weights are so far from the fit to the held-out records that one Newton step may leave a bias: begin another "
    "one where this one ended (--again), for another charge"
)


@dataclass(frozen=True)
class Inferred:
    """Estimates in the coordinates of the step; where something is in doubt, no interval is honest."""

    estimates: Any
    covariance: Any | None
    doubt: str | None
    inverse: Any | None = None  # of the matrix
    left: float = 0.0  # a bound on what the step leaves of a direction, over its length in the inverse

    def intervals(self, transform: Array) -> tuple[Array, Array, Array]:
        """Value and ends of the 95 % interval of linear functions of the coefficients.

        They hold sampling, noise, and any bias that the step may have left, like those of Armstrong and Kolesár (2018).
        """
        assert self.covariance is not None
        assert self.inverse is not None
        value = transform @ self.estimates
        error, length = (
            np.sqrt(np.einsum("ij,jk,ik->i", transform, matrix, transform))
            for matrix in (self.covariance, self.inverse)
        )
        half = quantile(self.left * length / error) * error
        return value, value - half, value + half


def quantile(bias: Array) -> Array:
    """Of the absolute value of a normal variable with this mean and variance one: 95 % lie below."""
    from scipy.special import chndtrix  # takes 0.3 s to import

    return np.sqrt(chndtrix(0.95, 1.0, np.square(bias)))


def _pairs(rows: Array) -> Array:
    """The upper triangle of every record's outer product; what stands beside the diagonal counts twice."""
    first, second = np.triu_indices(rows.shape[1])
    return rows[:, first] * rows[:, second] * np.where(first == second, 1.0, sqrt(2.0))


def _matrix(pairs: Array, count: int) -> Array:
    first, second = np.triu_indices(count)
    matrix = np.zeros((count, count))
    matrix[first, second] = pairs / np.where(first == second, 1.0, sqrt(2.0))
    return matrix + np.triu(matrix, 1).T
