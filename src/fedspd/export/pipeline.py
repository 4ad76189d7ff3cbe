"""A model as a fitted pipeline of scikit-learn: what encodes records, then a linear model of its own."""

import io
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, SGDClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from fedspd.data.features.scaling import Matrix
from fedspd.errors import InputError
from fedspd.export.encoder import RecordEncoder
from fedspd.problem import Huber, LeastSquares, Poisson, Softmax, SquaredHinge
from fedspd.problem.regression import LEAST_SHARE
from fedspd.scoring.model import Model
from fedspd.target import Number


class WithinBounds(RegressorMixin, BaseEstimator):
    """A regressor whose predictions are moved onto declared bounds."""

    def __init__(self, regressor: Any, lower: float, upper: float) -> None:
        self.regressor, self.lower, self.upper = regressor, lower, upper

    def fit(self, rows: Any, values: Any) -> Self:
        """Fit the regressor."""
        self.regressor.fit(rows, values)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.regressor, "coef_")

    def predict(self, rows: Any) -> np.ndarray:
        """Within the bounds."""
        return np.clip(self.regressor.predict(rows), self.lower, self.upper)


def to_sklearn(model: Model) -> Pipeline:
    """The model as a fitted pipeline; it takes frames of pandas or polars, or a dict of columns."""
    return Pipeline([("encoder", RecordEncoder(model.recipe.arrays())), ("model", _linear(model))])


def sklearn_bytes(model: Model) -> bytes:
    """The pipeline as joblib writes it."""
    import joblib

    content = io.BytesIO()
    joblib.dump(to_sklearn(model), content)
    return content.getvalue()


def _linear(model: Model) -> Any:
    weights, classes = model.weights, model.target.classes
    match model.loss:
        case Softmax():
            coefficients = weights[:, 1:] - weights[:, :1] if len(classes) == 2 else weights
            return _classifier(LogisticRegression(), coefficients, 0.0, classes)
        case SquaredHinge():
            return _classifier(LinearSVC(), weights, 0.0, classes)
        case LeastSquares() if classes:
            return _classifier(SGDClassifier(loss="squared_error"), weights, -0.5, classes)
        case LeastSquares() | Huber() if isinstance(model.target, Number):
            lower, upper = model.target.lower, model.target.upper
            half = (upper - lower) / 2
            return WithinBounds(_regressor(LinearRegression(), half * weights, lower + half), lower, upper)
        case Poisson(most=most, center=center):
            least = LEAST_SHARE * center
            return WithinBounds(_regressor(PoissonRegressor(), weights, np.log(center)), least, most)
    raise InputError(
        f"scikit-learn must have a linear model for the loss, got {type(model.loss).__name__}, which is none of "
        "fedspd's own; export to csv."
    )


def _classifier(estimator: Any, weights: Matrix, intercept: float, classes: tuple[str, ...]) -> Any:
    # Fitted to nothing, so that it has all that a fitted one of its version has; then it gets its numbers.
    labels = np.repeat(np.arange(len(classes)), 3)  # with one of each it would warn that they look like numbers
    estimator.fit(np.zeros((len(labels), len(weights))), labels)
    estimator.coef_, estimator.intercept_ = weights.T.copy(), np.full(weights.shape[1], intercept)
    estimator.classes_ = np.asarray(classes)
    return estimator


def _regressor(estimator: Any, weights: Matrix, intercept: float) -> Any:
    estimator.fit(np.zeros((2, len(weights))), np.ones(2))
    estimator.coef_, estimator.intercept_ = weights[:, 0].copy(), float(intercept)
    return estimator
