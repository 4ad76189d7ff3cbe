"""diffprivlib: two mechanisms on a sum, a mean, a linear and a logistic regression."""
# pyright: basic, reportMissingImports=false

import numpy as np
from diffprivlib.mechanisms import Gaussian, Laplace
from diffprivlib.models import LinearRegression, LogisticRegression
from diffprivlib.tools import mean
from releases import Case, write

DELTA, NORM, STRENGTH = 1e-5, 100.0, 0.008
NUMBERS = np.linspace(0.0, 1.0, 10), np.append(0.0, np.linspace(0.0, 1.0, 10)[:-1])  # 1 is replaced by 0
ROWS = np.array([[1.0], [0.1]]), np.array([[0.0], [0.1]])
LONG = np.array([[NORM], [0.0], [0.0]]), np.zeros((3, 1))
rng = np.random.RandomState(0)

laplace = Laplace(epsilon=1.0, sensitivity=1.0, random_state=rng)
gaussian = Gaussian(epsilon=1.0, delta=DELTA, sensitivity=1.0, random_state=rng)


def linear(world: int) -> float:
    """The size of the coefficient, which shows by how much the noise was divided."""
    model = LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1), fit_intercept=False, random_state=rng)
    return abs(model.fit(ROWS[world], np.array([0.0, 0.0])).coef_[0])


def logistic(world: int) -> float:
    """The curvature that a record adds shows where the coefficient is near zero."""
    model = LogisticRegression(epsilon=1.0, data_norm=NORM, C=STRENGTH, fit_intercept=False, random_state=rng)
    return abs(model.fit(LONG[world], np.array([1, 0, 1])).coef_[0, 0])


write(
    "diffprivlib",
    [
        Case(
            "Laplace noise on a sum", {"epsilon": 1.0}, lambda world: laplace.randomise(float(np.sum(NUMBERS[world])))
        ),
        Case(
            "Gaussian noise on a sum",
            {"gaussian": 1.0, "delta": DELTA},
            lambda world: gaussian.randomise(float(np.sum(NUMBERS[world]))),
        ),
        Case(
            "`tools.mean`",
            {"epsilon": 1.0},
            lambda world: mean(NUMBERS[world], epsilon=1.0, bounds=(0, 1), random_state=rng),
        ),
        Case("`LinearRegression`, bounds from 0 to 1, no intercept", {"epsilon": 1.0}, linear, 0.25),
        Case("`LogisticRegression`, norm 100, C 0.008, no intercept", {"epsilon": 1.0}, logistic, 0.1),
    ],
)
