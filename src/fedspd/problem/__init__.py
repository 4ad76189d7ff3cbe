"""What is minimized: losses, regularizers, one client's objective, and the optimum to compare with.

Pure functions of arrays; this room knows no clients, no privacy and no rounds.
"""

from fedspd.problem.flipped import FlippedLabels
from fedspd.problem.losses import LOSSES, LeastSquares, Loss, Softmax, SquaredHinge
from fedspd.problem.minimize import GRADIENT_STEPS, LEFT, Minimum, check_exact, minimize, steps_enough
from fedspd.problem.objective import Gradient, Objective
from fedspd.problem.reference import reference_optimum, reference_solver
from fedspd.problem.regularizers import (
    L1,
    Box,
    ElasticNet,
    GroupL1,
    Regularizer,
    SquaredL2,
    Unregularized,
    make_regularizer,
)

__all__ = [
    "GRADIENT_STEPS",
    "L1",
    "LEFT",
    "LOSSES",
    "Box",
    "ElasticNet",
    "FlippedLabels",
    "Gradient",
    "GroupL1",
    "LeastSquares",
    "Loss",
    "Minimum",
    "Objective",
    "Regularizer",
    "Softmax",
    "SquaredHinge",
    "SquaredL2",
    "Unregularized",
    "check_exact",
    "make_regularizer",
    "minimize",
    "reference_optimum",
    "reference_solver",
    "steps_enough",
]
