"""A classifier with scikit-learn's conventions."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from fedspd.data import Schema
from fedspd.data.frames import text_of, texts_of
from fedspd.data.names import check_names
from fedspd.data.tabular import codes_of
from fedspd.errors import InputError
from fedspd.estimators.base import FederatedEstimator
from fedspd.estimators.inputs import Found
from fedspd.scoring.own_units import own_units
from fedspd.target import Classes


def _has_probabilities(estimator: Any) -> bool:
    return estimator.loss in (None, "softmax")


class FedSPDClassifier(ClassifierMixin, FederatedEstimator):
    """Classes, learned from the records of many clients with differential privacy for every record.

    After `fit`, `privacy_` states the guarantee, `run_` is the run behind it, `history_` a data frame of its rounds.
    Predictions use the model after the last round. `coef_` and `intercept_` are in the units of the features as they
    were given. Rows longer than `data.row_norm` are shortened before they are scored, by `decision_function` too, so
    for them coefficients are not exact. A column that became several features (levels, bins, a spline) has a
    coefficient for each, and one on a logarithmic scale has that of log(1 + value); `coefficient_names_` names them.

    Args:
        epsilon: the privacy loss of the whole fit.
        delta: its failure probability.
        method: any that `fedspd methods` lists; one without privacy needs `epsilon=float("inf")`.
        bounds: publicly known bounds of numbers, beyond which values are moved onto them: (lower, upper) for all,
            {column: (lower, upper)}, a list of (lower, upper) in the order of the columns of numbers, or "clip" for -5
            and 5, where features are standardized already. They are never read from the records.
        schema: all that is public about the table, a `fedspd.data.Schema` or the path to a `schema.toml`, in place of
            bounds and classes. Without one, a categorical dtype declares levels; missing numbers are refused.
        clients: to so many the records are dealt at random, where `fit` gets no `groups`.
        classes: the classes there are; None: those in y, and the statement says that their set was taken as public.
        ledger: the path to a ledger (`fedspd ledger create`) that every fit is charged to, by client.
        ledger_epsilon: what a client may spend on the ledger in all its fits; None: the epsilon of one.
        random_state: None draws noise from the operating system and keeps nothing of it. A number makes a fit
            repeatable, and whoever knows it can subtract the noise: for science only.
        preprocessing: "private" refuses steps of a pipeline that learn from the records; "public" says that whatever
            they learned is public.
        loss: softmax; least-squares or squared-hinge for two classes.
        settings: any other setting by "section.key", e.g. {"run.rounds": 50} (`fedspd settings`).
    """

    classes_: np.ndarray

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        method: str = "fedspd",
        bounds: Any = None,
        schema: Any = None,
        clients: int | None = None,
        classes: Any = None,
        ledger: Any = None,
        ledger_epsilon: float | None = None,
        random_state: Any = None,
        preprocessing: str = "private",
        loss: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.bounds = bounds
        self.schema = schema
        self.clients = clients
        self.classes = classes
        self.ledger = ledger
        self.ledger_epsilon = ledger_epsilon
        self.random_state = random_state
        self.preprocessing = preprocessing
        self.loss = loss
        self.settings = settings

    def _labels(self, answers: np.ndarray, declared: Schema | None, name: str) -> tuple[Classes, np.ndarray]:
        check_classification_targets(answers)
        if declared is not None:
            return self._declared_labels(answers, declared)
        kinds = np.unique(answers if self.classes is None else np.asarray(self.classes))
        if len(kinds) < 2:
            raise InputError(f"a classifier needs at least two classes, got {len(kinds)} class; add the others.")
        target = Classes(name, tuple(text_of(kind) for kind in kinds.tolist()))
        self.classes_ = kinds
        return target, self._codes(answers, target)

    def _declared_labels(self, answers: np.ndarray, declared: Schema) -> tuple[Classes, np.ndarray]:
        target = declared.target
        if not isinstance(target, Classes):
            raise InputError("a classifier needs a schema whose target has classes, got another; use FedSPDRegressor.")
        if self.classes is not None:
            raise InputError("classes stand in the schema, got classes beside it; leave out one of them.")
        codes = self._codes(answers, target)
        kinds = np.array(target.classes, dtype=object if answers.dtype == object else None)
        self.classes_ = kinds.astype(answers.dtype) if answers.dtype.kind in "iuf" else kinds
        return target, codes

    def _codes(self, answers: np.ndarray, target: Classes) -> np.ndarray:
        check_names("classes", target.classes, at_least=2)
        codes = codes_of(texts_of(answers), target.classes)
        if codes.min() < 0:
            raise InputError(
                f"y must hold the declared classes {', '.join(target.classes)} only, got something else in row "
                f"{int(np.argmin(codes))}, counted from 0; declare it or leave out that record."
            )
        return codes

    def _taken_as_public(self, columns: list[Found]) -> list[str]:
        read = self.schema is None and self.classes is None
        return ["the set of classes, which was read from y"] * read + super()._taken_as_public(columns)

    def _set_coefficients(self) -> None:
        model = self._model
        coefficients, constant = own_units(model.recipe, model.loss.contrast(model.weights))
        self.coef_, self.intercept_ = coefficients.T, constant - self._threshold

    @property
    def _threshold(self) -> float:
        """The score between two classes; least squares takes them as 0 and 1."""
        return 0.5 if self.run_.config.problem.loss == "least-squares" else 0.0

    def decision_function(self, X: Any) -> np.ndarray:  # noqa: N803
        """For two classes how far a record speaks for the second, else a score for each class."""
        scores = self._scores(X)
        if len(self.classes_) > 2:
            return scores
        return scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else self._threshold)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class that each record's scores speak for."""
        scores = self.decision_function(X)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """The probability of each class."""
        probabilities = self._model.probabilities(self._scores(X))
        assert probabilities is not None, "softmax has them"
        return probabilities
