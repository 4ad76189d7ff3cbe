"""A regressor with scikit-learn's conventions, for numbers and for counts."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from fedspd.data import Schema
from fedspd.errors import InputError
from fedspd.estimators.base import FederatedEstimator
from fedspd.estimators.inputs import as_number, pair
from fedspd.scoring.own_units import own_units
from fedspd.target import Classes, Count, Number


class FedSPDRegressor(RegressorMixin, FederatedEstimator):
    """A number or a count, learned from the records of many clients with differential privacy for every record.

    After `fit` it has what `FedSPDClassifier` has but classes. `coef_` and `intercept_` are in the units of features
    and target, of a count in those of its logarithm, and exact for rows that are not shortened. Predictions keep to the
    declared bounds. `score` is the share of the variance that is explained (R²), of a count that of the deviance (D²).

    Args:
        epsilon: the privacy loss of the whole fit.
        delta: its failure probability.
        target_bounds: (lower, upper), publicly known, of a number; records beyond count as if they were there.
        most: in place of these, the largest count there can be: then the target is a count, learned by Poisson's loss.
        typical: of a count: a public guess at its mean.
        loss: least-squares or huber for a number, poisson for a count; None: the first.
        method: as of `FedSPDClassifier`, and so are all the others.
        bounds: of numbers among the features.
        schema: in place of all bounds.
        clients: to so many the records are dealt at random, where `fit` gets no `groups`.
        ledger: the path to a ledger that every fit is charged to.
        ledger_epsilon: what a client may spend on the ledger in all its fits; None: the epsilon of one.
        random_state: None for noise that nobody can subtract; a number for science only.
        preprocessing: "private", or "public" for steps of a pipeline whose knowledge is public.
        settings: any other setting by "section.key".
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        target_bounds: Any = None,
        most: float | None = None,
        typical: float | None = None,
        loss: str | None = None,
        method: str = "fedspd",
        bounds: Any = None,
        schema: Any = None,
        clients: int | None = None,
        ledger: Any = None,
        ledger_epsilon: float | None = None,
        random_state: Any = None,
        preprocessing: str = "private",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target_bounds = target_bounds
        self.most = most
        self.typical = typical
        self.loss = loss
        self.method = method
        self.bounds = bounds
        self.schema = schema
        self.clients = clients
        self.ledger = ledger
        self.ledger_epsilon = ledger_epsilon
        self.random_state = random_state
        self.preprocessing = preprocessing
        self.settings = settings

    def _labels(self, answers: np.ndarray, declared: Schema | None, name: str) -> tuple[Number | Count, np.ndarray]:
        target = self._target(name) if declared is None else self._declared_target(declared)
        values = answers.astype(np.float64)
        if isinstance(target, Count) and values.min() < 0:
            raise InputError("counts must be at least 0, got lower ones in y; pass target_bounds if y is a number.")
        return target, target.labels(values)

    def _target(self, name: str) -> Number | Count:
        if (self.target_bounds is None) == (self.most is None):
            raise InputError(
                "expected target_bounds=(lower, upper) of a number or most=, the largest count there can be, publicly "
                f"known and never read from the records, got {'neither' if self.most is None else 'both'}; pass one."
            )
        if self.most is None:
            if self.typical is not None:
                raise InputError("typical is of a count, got it with target_bounds; leave it out, or pass most.")
            return Number(name, *pair("target_bounds", self.target_bounds))
        return Count(name, as_number("most", self.most), as_number("typical", self.typical or 0.0))

    def _declared_target(self, declared: Schema) -> Number | Count:
        if isinstance(declared.target, Classes):
            raise InputError("a regressor needs a schema of a number or a count, got classes; use FedSPDClassifier.")
        if self.target_bounds is not None or self.most is not None:
            raise InputError("the target stands in the schema, got target_bounds or most beside it; leave them out.")
        if self.typical is not None:
            raise InputError("the target stands in the schema, got typical beside it; leave it out.")
        return declared.target

    def _set_coefficients(self) -> None:
        coefficients, constant = own_units(self.run_.recipe, self.run_.weights)
        match self.run_.recipe.schema.target:
            case Number(lower=lower, upper=upper):
                scale = (upper - lower) / 2
                self.coef_, self.intercept_ = scale * coefficients[:, 0], float(lower + scale * (constant[0] + 1))
            case Count() as target:
                self.coef_, self.intercept_ = coefficients[:, 0], float(constant[0] + np.log(target.center))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The number, or the rate of the count, within what was declared."""
        return self._model.predictions(self._scores(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """The share that is explained: R², or D² of a count."""
        predicted = self.predict(X)
        if isinstance(self.run_.recipe.schema.target, Count):
            return float(d2_tweedie_score(y, predicted, sample_weight=sample_weight, power=1))
        return super().score(X, y, sample_weight)
