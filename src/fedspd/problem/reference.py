r"""The optimum $x^\star$ of $\sum_i F_i$, for the convergence criterion H of the paper.

By scikit-learn where it knows the problem, else by a solver of our own for every loss and regularizer. What either
finds is checked, for a point that is no optimum gives a wrong H. scikit-learn and SciPy take more than a second to
import and only the criterion needs them, so they are imported on use.
"""

import warnings
from typing import Any

import numpy as np

from fedspd.problem.losses import Loss, Softmax, SquaredHinge
from fedspd.problem.regression import LeastSquares
from fedspd.problem.regularizers import L1, ElasticNet, Regularizer, SquaredL2, Unregularized
from fedspd.problem.solve import is_near, solve


def reference_optimum(
    loss: Loss, regularizer: Regularizer, features: np.ndarray, labels: np.ndarray, record_weights: np.ndarray
) -> np.ndarray | None:
    r"""$\arg\min_W \sum_j w_j\,\ell(W; \mathrm{record}_j) + R(W)$, as near as solvers come; None where none did.

    Args:
        loss: the un-clipped loss.
        regularizer: the total one, i.e. N times a client's.
        features: all records of all clients.
        labels: their labels.
        record_weights: $1/m_i$ for the records of client i.
    """
    model = _known_solver(loss, regularizer, float(np.sum(record_weights)))
    problem = loss, regularizer, features, labels, record_weights
    found = None if model is None else _fitted(model, loss, features, labels, record_weights)
    if found is None or not is_near(*problem, found):
        found = solve(*problem)
    return found if is_near(*problem, found) else None


def _fitted(model: Any, loss: Loss, features: np.ndarray, labels: np.ndarray, record_weights: np.ndarray) -> np.ndarray:
    """What scikit-learn ends with; whether that is good enough is seen from the point, not from its warnings."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features, labels, sample_weight=record_weights)
    weights = np.atleast_2d(model.coef_).T
    if isinstance(loss, Softmax) and loss.classes == 2:
        # A binary model is the difference of our two columns; opposite halves have the least norm.
        weights = np.concatenate([-weights / 2, weights / 2], axis=1)
    return weights


def _known_solver(loss: Loss, regularizer: Regularizer, total_weight: float) -> Any:
    """The scikit-learn model whose fit is the optimum; None where it has none."""
    if not isinstance(regularizer, Unregularized | L1 | SquaredL2 | ElasticNet):
        return None
    l1, l2 = _strengths(regularizer)
    match loss:
        case Softmax():
            return _logistic(loss.classes, l1, l2)
        case LeastSquares():
            return _least_squares(l1, l2, total_weight)
        case SquaredHinge() if (l1 > 0) != (l2 > 0):
            return _support_vectors(l1, l2)
    return None


def _strengths(regularizer: Unregularized | L1 | SquaredL2 | ElasticNet) -> tuple[float, float]:
    """Weights of $|x|_1$ and of $|x|^2/2$."""
    match regularizer:
        case Unregularized():
            return 0.0, 0.0
        case L1(strength):
            return strength, 0.0
        case SquaredL2(strength):
            return 0.0, strength
        case ElasticNet(strength, ratio):
            return strength * ratio, strength * (1 - ratio)


def _support_vectors(l1: float, l2: float) -> Any:
    """liblinear minimizes R/strength + C * sum of losses."""
    from sklearn.svm import LinearSVC

    return LinearSVC(
        penalty="l1" if l1 > 0 else "l2",
        C=1 / (l1 + l2),
        dual=False,  # pyright: ignore[reportArgumentType]
        fit_intercept=False,
        tol=1e-8,
        max_iter=10**5,
        random_state=0,
    )


def _logistic(classes: int, l1: float, l2: float) -> Any:
    """scikit-learn minimizes C * losses + ratio |v|_1 + (1-ratio)/2 |v|^2, for two classes over one difference v."""
    from sklearn.linear_model import LogisticRegression

    if classes == 2:
        l2 = l2 / 2  # |x|^2 of the two opposite halves is |v|^2 / 2
    if l1 + l2 == 0:
        return LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-8, max_iter=10**4)
    ratio = l1 / (l1 + l2)
    if ratio > 0 and (ratio < 1 or classes > 2):
        return None  # only saga would do, which ends far away: 2 % above the least value on digits
    solver = "lbfgs" if ratio == 0 else "liblinear"
    # liblinear's stopping rule is relative: 1e-5 leaves 1e-8 of the objective on Adult
    tol = 1e-5 if solver == "liblinear" else 1e-8
    return LogisticRegression(
        C=1 / (l1 + l2), l1_ratio=ratio, solver=solver, fit_intercept=False, tol=tol, max_iter=10**4, random_state=0
    )


def _least_squares(l1: float, l2: float, total_weight: float) -> Any:
    """scikit-learn's lasso divides the losses by the total weight; its ridge does not halve them."""
    from sklearn.linear_model import ElasticNet as LinearElasticNet
    from sklearn.linear_model import Lasso, LinearRegression, Ridge

    common: dict[str, Any] = {"fit_intercept": False}
    if l1 == 0:
        return Ridge(alpha=l2, tol=1e-10, **common) if l2 > 0 else LinearRegression(**common)
    common |= {"tol": 1e-10, "max_iter": 10**5}
    if l2 == 0:
        return Lasso(alpha=l1 / total_weight, **common)
    return LinearElasticNet(alpha=(l1 + l2) / total_weight, l1_ratio=l1 / (l1 + l2), **common)
