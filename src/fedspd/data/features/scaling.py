"""Scaling of feature columns, and the bound on the length of a record."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedspd.errors import InputError

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


BLOCK = 1 << 16  # rows that are scaled at a time
LARGE = 1 << 30  # bytes of features from which on nothing is remembered that can be computed again


def in_blocks(scale: Callable[[Matrix], Matrix], features: Matrix, width: int) -> Matrix:
    """Rows scaled each by itself, a block at a time: of a large table there is never a second copy on the way."""
    if len(features) <= BLOCK:
        return scale(features)
    scaled = np.empty((len(features), width))
    for begin in range(0, len(features), BLOCK):
        rows = slice(begin, begin + BLOCK)
        scaled[rows] = scale(features[rows])
    return scaled


def moments(features: Matrix) -> tuple[Vector, Vector]:
    """Mean and standard deviation of each column; exactly 0 deviation where a column is constant.

    They are read from the records and carry no noise: a guarantee that is to cover them needs
    moments that were released with noise, in place of these.
    """
    constant = (features == features[0]).all(axis=0)
    mean = features.mean(axis=0, keepdims=True)
    return mean[0], np.where(constant, 0.0, features.std(axis=0, mean=mean))


def z_score(features: Matrix, mean: Vector, deviation: Vector) -> Matrix:
    r"""Columns in standard deviations from the mean: $(a - \mu)/\sigma$.

    A column without deviation becomes 0: it tells records apart nowhere, so it should weigh nothing.
    """
    factor = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 0)
    scaled = features - mean
    scaled *= factor  # in place: a second array of this size takes longer to get than to fill
    return scaled


def min_max(features: Matrix, lower: Vector, upper: Vector) -> Matrix:
    r"""Columns on [0, 1]: $(a - l)/(u - l)$, with values outside the bounds moved onto them.

    The bounds are declared in public, not measured, so this scaling reads nothing from the records.
    """
    if not (np.isfinite(lower) & np.isfinite(upper) & (lower < upper)).all():
        column = int(np.argmin(np.isfinite(lower) & np.isfinite(upper) & (lower < upper)))
        raise InputError(
            f"each column's lower bound must be finite and below its upper bound, got {lower[column]} and "
            f"{upper[column]} for column {column}; declare the range its values may take."
        )
    return (np.clip(features, lower, upper) - lower) / (upper - lower)


def clip_rows(features: Matrix, norm: float) -> Matrix:
    r"""Shorten each record to L2 norm at most `norm`: $a \min(1, R/\|a\|)$. Shorter ones are untouched."""
    if not 0 < norm < np.inf:
        raise InputError(f"row norm must be positive and finite, got {norm}; use 1.0, or none for no bound.")
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features * (norm / np.maximum(lengths, norm))
