"""Uniform cubic B-splines: smooth functions of a number, none of them negative, that add up to one."""

import numpy as np

DEGREE = 3


def spline(values: np.ndarray, lower: float, upper: float, count: int) -> np.ndarray:
    """So many functions at each value, a column each."""
    from scipy.interpolate import BSpline  # takes a while to import

    within = np.clip((values - lower) / (upper - lower), 0.0, 1.0)
    return np.asarray(BSpline.design_matrix(within, spline_knots(count), DEGREE).todense())


def spline_knots(count: int) -> np.ndarray:
    """Knots on [0, 1], those at the ends as often as so many functions need."""
    inner = np.linspace(0.0, 1.0, count - DEGREE + 1)
    return np.concatenate([np.zeros(DEGREE), inner, np.ones(DEGREE)])
