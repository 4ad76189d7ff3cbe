"""Engines run algorithms: draws, one round, many rounds, and what a simulator may measure.

`round.play` is the one text of a round; `simulate` repeats it on NumPy.
"""

from fedspd.engine.convergence import Convergence, convergence, optimum
from fedspd.engine.draws import stream
from fedspd.engine.simulate import Drawn, Outcome, Simulation, draw_round, simulate

__all__ = [
    "Convergence",
    "Drawn",
    "Outcome",
    "Simulation",
    "convergence",
    "draw_round",
    "optimum",
    "simulate",
    "stream",
]
