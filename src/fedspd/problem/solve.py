r"""Minimize $\sum_j w_j\,\ell(W; \mathrm{record}_j) + R(W)$ for any loss and regularizer, without clipping.

Smooth regularizers go to SciPy's L-BFGS. The others have a proximal map, so accelerated proximal gradient steps do,
begun anew whenever the momentum points uphill.
"""

from collections.abc import Callable

import numpy as np

from fedspd.problem.losses import Loss
from fedspd.problem.regularizers import Regularizer, SquaredL2, Unregularized

STEPS = 20_000
GOAL = 1e-8  # length of a step of size 1/L times L, over the gradient at zero

NEAR = 1e-3  # the same at a point that counts as an optimum; 1e-5 and below is usual

Gradient = Callable[[np.ndarray], np.ndarray]


def solve(
    loss: Loss,
    regularizer: Regularizer,
    features: np.ndarray,
    labels: np.ndarray,
    record_weights: np.ndarray,
    goal: float = GOAL,
) -> np.ndarray:
    """The weights at which the sum is least, as near as the goal says; begun at zero, the same bits every time."""
    shape = features.shape[1], loss.outputs

    def gradient(weights: np.ndarray) -> np.ndarray:
        return _gradient(loss, features, labels, record_weights, weights)

    def value(weights: np.ndarray) -> float:
        return float(record_weights @ loss.values(features @ weights, labels)) + float(regularizer.value(weights))

    if isinstance(regularizer, Unregularized | SquaredL2):
        return _smooth(value, lambda at: gradient(at) + regularizer.subgradient(at), shape, goal)
    return _proximal(gradient, regularizer, _steepest(loss, features, record_weights), shape, goal)


def is_near(
    loss: Loss, regularizer: Regularizer, features: np.ndarray, labels: np.ndarray, record_weights: np.ndarray,
    weights: np.ndarray,
) -> bool:  # fmt: skip
    """Whether a proximal gradient step from these weights is short beside the gradient at zero, as at the optimum."""
    steepest = max(_steepest(loss, features, record_weights), np.finfo(float).tiny)
    at_zero, here = (_gradient(loss, features, labels, record_weights, at) for at in (np.zeros_like(weights), weights))
    step = weights - regularizer.prox(weights - here / steepest, 1 / steepest)
    return bool(steepest * np.linalg.norm(step) <= NEAR * np.linalg.norm(at_zero))


def _gradient(
    loss: Loss, features: np.ndarray, labels: np.ndarray, record_weights: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    return features.T @ (record_weights[:, None] * loss.slopes(features @ weights, labels))


def _steepest(loss: Loss, features: np.ndarray, record_weights: np.ndarray) -> float:
    """The largest curvature of the sum of losses, at most."""
    return loss.curvature * float(np.linalg.norm((features.T * record_weights) @ features, 2))


def _smooth(
    value: Callable[[np.ndarray], float], gradient: Gradient, shape: tuple[int, int], goal: float
) -> np.ndarray:
    from scipy.optimize import minimize

    found = minimize(
        lambda flat: (value(flat.reshape(shape)), gradient(flat.reshape(shape)).ravel()),
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 0.0, "gtol": goal, "maxcor": 30},
    )
    return found.x.reshape(shape)


def _proximal(
    gradient: Gradient, regularizer: Regularizer, steepest: float, shape: tuple[int, int], goal: float
) -> np.ndarray:
    """Steps of size 1/L, L at least the largest curvature."""
    here = ahead = np.zeros(shape)
    momentum, step = 1.0, 1 / max(steepest, np.finfo(float).tiny)
    near = goal * step * float(np.linalg.norm(gradient(here)))
    for _ in range(STEPS):
        there = regularizer.prox(ahead - step * gradient(ahead), step)
        if np.linalg.norm(there - ahead) <= near:
            return there
        if np.vdot(ahead - there, there - here) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        here, ahead = there, there + (momentum - 1) / following * (there - here)
        momentum = following
    return here
