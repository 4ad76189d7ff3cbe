"""Engines run algorithms: draws, one round, many rounds, and what a simulator may measure.

`round.play` is the one text of a round; `simulate` repeats it on NumPy, `compiled` on JAX.
"""

from fedspd.engine.draws import stream
from fedspd.engine.measuring.convergence import convergence, optimum
from fedspd.engine.numpy_engine import simulate
from fedspd.engine.simulation import Outcome, Simulation, check_run

__all__ = [
    "Outcome",
    "Simulation",
    "check_run",
    "convergence",
    "optimum",
    "simulate",
    "stream",
]
