"""Means over seeds, with their standard errors."""

from typing import Any, NamedTuple

import numpy as np


class Mean(NamedTuple):
    """A mean ± its standard error, which is not a number where there is one value only."""

    value: Any
    error: Any


def mean_over_seeds(values: np.ndarray) -> Mean:
    """Over the first axis, for every place of the others."""
    count = len(values)
    average = values.mean(axis=0)
    error = values.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.full_like(average, np.nan, dtype=float)
    return Mean(average, error) if average.ndim else Mean(float(average), float(error))
