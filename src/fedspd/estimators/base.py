"""What classifier and regressor share: a fit is a run."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fedspd.assemble import Run
from fedspd.data import Schema, encode, read_schema
from fedspd.data.frames import is_frame, values_of
from fedspd.errors import InputError
from fedspd.estimators import pictures
from fedspd.estimators.callers import check_pipeline, check_repetition
from fedspd.estimators.inputs import Found, cells, infer_schema, places_of, read_columns
from fedspd.estimators.statement import Privacy
from fedspd.estimators.training import GROUPS, PERSONS, clients_of, persons_of, train
from fedspd.problem import make_loss
from fedspd.report.of_runs.terminal import DIVERGED
from fedspd.results.evaluation import Evaluation
from fedspd.results.inference import Inference
from fedspd.scoring.model import Model
from fedspd.scoring.own_units import words
from fedspd.target import Target

LIBRARIES = ("pandas", "polars", "pyarrow")


class FederatedEstimator(BaseEstimator, ABC):
    """Fits by a run over clients; predicts by the rows that the run was trained on."""

    epsilon: Any
    schema: Any
    bounds: Any
    loss: Any
    ledger: Any
    preprocessing: Any

    run_: Run
    privacy_: Privacy
    n_features_in_: int
    feature_names_in_: np.ndarray

    def fit(self, X: Any, y: Any, groups: Any = None, persons: Any = None) -> Self:  # noqa: N803
        """Train on records that belong to clients.

        Args:
            X: records, a row each: a matrix, or a data frame of pandas, polars or Arrow.
            y: what is to be predicted, for each record.
            groups: the client of each record, by name; None: records are dealt to `clients` of them at random.
            persons: whom each record is about, by name. Then a person is protected with all of its records at a
                client; None: each record by itself.
        """
        check_pipeline(self.preprocessing)
        check_repetition(self.ledger, self.epsilon)
        declared = self._declared()
        given: Any = None if y is None else values_of(y)
        answers = np.asarray(validate_data(self, y=given))
        columns = read_columns(self, X, declared is not None, reset=True)
        check_consistent_length(columns[0].values, answers)
        clients, about = clients_of(self, groups, len(answers)), persons_of(persons, len(answers))
        taken = {column.name for column in columns}
        target, labels = self._labels(answers, declared, _free("target", taken))
        schema = declared or infer_schema(columns, self.bounds, target)
        if clients is not None and schema.client is None:
            schema = replace(schema, client=_free(GROUPS, taken | {target.column}))
        if about is not None and schema.person is None:
            schema = replace(schema, person=_free(PERSONS, taken | {target.column, *schema.naming}))
        self._places = places_of(schema, columns, declared is None or hasattr(self, "feature_names_in_"))
        found = cells(columns, schema, self._places, missing=declared is not None)
        self.run_ = train(self, found, labels, schema, clients, about)
        self._library = _library(X)
        self.privacy_ = Privacy(self.run_.summary, (sizes(about), *self._taken_as_public(columns)))
        self.n_iter_ = self.run_.summary.rounds
        self._set_coefficients()
        self._warn_if_stopped()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.schema is not None
        return tags

    @abstractmethod
    def _labels(self, answers: np.ndarray, declared: Schema | None, name: str) -> tuple[Target, np.ndarray]:
        """What is predicted, and the target of each record the way losses see it."""

    @abstractmethod
    def _set_coefficients(self) -> None:
        """By the weights of the run."""

    def _declared(self) -> Schema | None:
        if self.schema is None:
            return None
        if self.bounds is not None:
            raise InputError("bounds stand in the schema, got bounds beside it; leave out one of them.")
        return self.schema if isinstance(self.schema, Schema) else read_schema(self.schema)

    def _taken_as_public(self, columns: list[Found]) -> list[str]:
        taken = ["the levels of categorical columns"] if any(column.levels for column in columns) else []
        return taken + ["what steps before this one learned"] * (self.preprocessing == "public")

    def _warn_if_stopped(self) -> None:
        if self.run_.summary.stopped:
            warnings.warn(f"The run stopped {self.run_.summary.stopped}.", ConvergenceWarning, stacklevel=3)
        if self.run_.summary.diverged:
            warnings.warn(f"The run diverged: {DIVERGED}.", ConvergenceWarning, stacklevel=3)

    @property
    def _model(self) -> Model:
        """After the last round."""
        check_is_fitted(self)
        problem, recipe = self.run_.config.problem, self.run_.recipe
        return Model(self.run_.weights, recipe, make_loss(problem.loss, recipe.schema.target, problem.threshold))

    def _scores(self, X: Any) -> np.ndarray:  # noqa: N803
        """Scores of records, one column for each output."""
        declared, model = self.schema is not None, self._model
        columns = read_columns(self, X, declared, reset=False)
        schema = model.recipe.schema
        return model.scores(encode(cells(columns, schema, self._places, missing=declared), schema))

    def evaluate(self, **asked: Any) -> Evaluation:
        """The fit measured on records that it held out (settings={"evaluation.held_out": 0.2}), charged to its ledger.

        Args:
            asked: `average`, `bins`, `subgroup`, `least_size`, `again`, as of `fedspd evaluate`.
        """
        check_is_fitted(self)
        return self.run_.evaluate(**asked)

    def infer(self, columns: Sequence[str] = ()) -> Inference:
        """Coefficients with confidence intervals from noised Newton steps on held-out records, charged to its ledger.

        Where no interval would be honest, `doubt` says why, and there are none.

        Args:
            columns: of a regression of its own on these alone; none: all of the fit's.
        """
        check_is_fitted(self)
        return self.run_.infer(columns)

    @property
    def coefficient_names_(self) -> tuple[str, ...]:
        """Names of the features behind `coef_`: columns, or their levels, bins and spline functions."""
        check_is_fitted(self)
        return words(self.run_.recipe.schema)

    @property
    def history_(self) -> Any:
        """What is known of every round, as a data frame of the library that X came in; else pandas, polars or Arrow."""
        check_is_fitted(self)
        columns = self.run_.history.columns
        known = {name: values for name, values in columns.items() if not np.isnan(values.astype(float)).all()}
        if self._library is None:
            return known
        import narwhals.stable.v2 as nw

        library: Any = self._library
        return nw.from_dict(known, backend=library).to_native()

    def plot_history(self) -> Any:
        """Epsilon spent after every round, of the client that spent most and on average, as axes of Matplotlib.

        `axes.figure` is the picture.
        """
        check_is_fitted(self)
        return pictures.history(self.run_)

    def plot_coefficients(self, most: int = 20) -> Any:
        """The largest coefficients by what they weigh over the range of their feature, as axes of Matplotlib."""
        return pictures.coefficients(self._model, most)

    def plot_curve(self, column: str) -> Any:
        """What a column of numbers adds to the score over its bounds, in its own units, as axes of Matplotlib."""
        return pictures.curve(self._model, column)


def sizes(persons: Any) -> str:
    """What is known of a client's table, whatever it holds."""
    return f"how many {'records' if persons is None else 'persons'} each client holds"


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _library(X: Any) -> str | None:  # noqa: N803
    """What a history is shown in."""
    if not is_frame(X):
        return next((name for name in LIBRARIES if find_spec(name) is not None), None)
    import narwhals.stable.v2 as nw

    return nw.from_native(X, eager_only=True).implementation.value
