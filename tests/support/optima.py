"""The optimum of a run that has one."""

import numpy as np

from fedspd.engine import Simulation, optimum


def known_optimum(run: Simulation) -> np.ndarray:
    """As the engine solves for it; that it was found is part of the test."""
    found = optimum(run)
    assert found is not None
    return found
