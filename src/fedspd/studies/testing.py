"""Tests over seeds, and what is left of them when there are many."""

import numpy as np

LEVEL = 0.05
"""Chance that any of a family of tests tells apart what is equal."""


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values after Holm's correction: those below a level are rejected, and any wrongly with that chance at most."""
    order = np.argsort(p_values, kind="stable")
    stretched = np.minimum(1.0, p_values[order] * np.arange(len(order), 0, -1))
    corrected = np.empty(len(order))
    corrected[order] = np.maximum.accumulate(stretched)
    return corrected
