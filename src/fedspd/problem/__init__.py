"""What is minimized: losses, regularizers, one client's objective, and the optimum to compare with.

Pure functions of arrays; this room knows no clients, no privacy and no rounds.
"""

from fedspd.problem.flipped import FlippedLabels
from fedspd.problem.losses import Loss, Softmax, SquaredHinge
from fedspd.problem.makers import LOSSES, Maker, loss_name, make_loss
from fedspd.problem.minimize import GRADIENT_STEPS, LEFT, Minimum, check_exact, minimize, steps_enough
from fedspd.problem.objective import Gradient, Objective
from fedspd.problem.reference import reference_optimum
from fedspd.problem.regression import Huber, LeastSquares, Poisson, is_regression
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
    "Huber",
    "LeastSquares",
    "Loss",
    "Maker",
    "Minimum",
    "Objective",
    "Poisson",
    "Regularizer",
    "Softmax",
    "SquaredHinge",
    "SquaredL2",
    "Unregularized",
    "check_exact",
    "is_regression",
    "loss_name",
    "make_loss",
    "make_regularizer",
    "minimize",
    "reference_optimum",
    "steps_enough",
]
