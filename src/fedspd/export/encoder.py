"""Records in a frame or in columns, as rows that a linear model is multiplied with: a transformer of scikit-learn."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from fedspd.data import Categorical, Numeric, Recipe, encode
from fedspd.data.features.columns import Column
from fedspd.data.files.cells import MISSING, number_of, stripped
from fedspd.errors import InputError


class RecordEncoder(TransformerMixin, BaseEstimator):
    """Applies what a run has declared and released about its columns. There is nothing to fit.

    Args:
        recipe: the arrays of a `fedspd.data.Recipe`.
    """

    def __init__(self, recipe: Mapping[str, np.ndarray]) -> None:
        self.recipe = recipe

    def fit(self, records: Any, y: Any = None) -> Self:
        """Itself."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, records: Any) -> np.ndarray:
        """Rows of records: a frame of pandas or polars, or columns by their names; other columns are ignored.

        Cells mean what they mean in a file: texts may stand for numbers, and what marks a missing value there does so
        here, beside None and not-a-number.
        """
        recipe = Recipe.of(self.recipe)
        schema = recipe.schema
        markers = frozenset((*MISSING, *schema.missing_markers))
        cells = {}
        for column in schema.inputs:
            entries = _entries(records, column)
            cells[column.name] = (
                _codes(entries, column, markers)
                if isinstance(column, Categorical)
                else _numbers(entries, column, markers, schema.most_unreadable)
            )
        return recipe.rows(encode(cells, schema))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of a row."""
        return np.asarray(Recipe.of(self.recipe).columns, object)


def _entries(records: Any, column: Column) -> np.ndarray:
    try:
        found = records[column.name]
    except (KeyError, IndexError, TypeError, ValueError):  # and polars' own, which is no KeyError
        found = None
    except Exception as error:
        if type(error).__name__ != "ColumnNotFoundError":
            raise
        found = None
    if found is None:
        raise InputError(
            f"records must have the column {column.name!r}, as a frame or as a dict of columns, got none; add it."
        )
    if hasattr(found, "to_numpy"):
        found = found.to_numpy()
    return np.asarray(found)


def _codes(entries: np.ndarray, column: Categorical, markers: frozenset[str]) -> np.ndarray:
    places = {level: place for place, level in enumerate(column.levels) if level not in markers}
    if entries.dtype.kind in "OUT":
        return np.array([_place(entry, places) for entry in entries.tolist()], int)
    known, where = np.unique(entries, return_inverse=True)
    return np.array([_place(value, places) for value in known.tolist()], int)[where]


def _place(entry: Any, places: Mapping[str, int]) -> int:
    """Of a level that may be a number in a frame: 3.0 is found as 3 too, and True as true."""
    if isinstance(entry, str):
        return places.get(stripped(entry), -1)
    if isinstance(entry, float) and np.isnan(entry):
        return -1
    text = str(entry).lower() if isinstance(entry, bool) else str(entry)
    if text not in places and isinstance(entry, float) and entry.is_integer():
        text = str(int(entry))
    return places.get(text, -1)


def _numbers(entries: np.ndarray, column: Numeric, markers: frozenset[str], most: float) -> np.ndarray:
    if entries.dtype.kind in "biuf":
        values = entries.astype(float)
    elif entries.dtype.kind in "OUT":
        values = np.array([_number(entry, markers) for entry in entries.tolist()], float)
    else:
        raise InputError(f"column {column.name!r} must hold numbers, got dates or the like; turn them into numbers.")
    unreadable = np.isinf(values)
    if unreadable.sum() > most * len(values):
        raise InputError(
            f"column {column.name!r} must hold finite numbers, got something else in record "
            f"{int(np.argmax(unreadable)) + 1}; correct it or leave it out."
        )
    return np.where(unreadable, np.nan, values)


def _number(entry: Any, markers: frozenset[str]) -> float:
    """Not a number where it is missing, infinite where it is unreadable."""
    if isinstance(entry, str):
        return number_of(entry, markers)
    try:
        return np.nan if entry is None else float(entry)
    except (TypeError, ValueError):  # of pandas, that a value is missing
        return np.nan if type(entry).__name__ in ("NAType", "NaTType") else np.inf
