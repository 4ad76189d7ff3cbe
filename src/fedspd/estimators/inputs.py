"""From what is handed to `fit` and `predict` to columns and a schema. Nothing public is read from the records."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from fedspd.data import Categorical, Numeric, Schema
from fedspd.data.features.columns import Column
from fedspd.data.files.cells import MISSING
from fedspd.data.frames import Values, held, is_frame, text_of, values_of
from fedspd.data.tabular import cells_of
from fedspd.errors import InputError
from fedspd.target import Target

CLIP = (-5.0, 5.0)
"""What bounds="clip" declares, for features that were standardized elsewhere."""


class Found(NamedTuple):
    """A column as it came."""

    name: str
    values: Values
    kind: str  # what its type says: number, truth value, levels, or something else
    levels: tuple[str, ...] = ()


def read_columns(estimator: Any, X: Any, declared: bool, reset: bool) -> list[Found]:  # noqa: N803
    """The columns of X in their order, checked as scikit-learn does.

    Args:
        estimator: remembers number and names of the features at `fit`, and holds later ones against them.
        X: a data frame or a matrix.
        declared: whether a schema says what columns hold.
        reset: whether this is `fit`.
    """
    if issparse(X):
        raise InputError("expected a dense table, got a sparse matrix; pass X.toarray().")
    if is_frame(X):
        import narwhals.stable.v2 as nw

        validate_data(estimator, X, reset=reset, skip_check_array=True)
        frame = nw.from_native(X, eager_only=True)
        if not len(frame) or not frame.columns:
            raise InputError(f"expected records with columns, got a table of shape {frame.shape}; add some.")
        named = hasattr(estimator, "feature_names_in_")
        return [_found(name if named else f"x{n}", frame[:, n]) for n, name in enumerate(frame.columns)]
    kind: Any = {"dtype": None, "ensure_all_finite": False} if declared else {"dtype": np.float64}
    matrix = np.asarray(validate_data(estimator, X, reset=reset, **kind))
    return [Found(f"x{n}", matrix[:, n], "number") for n in range(matrix.shape[1])]


def _found(name: str, series: Any) -> Found:
    import narwhals.stable.v2 as nw

    dtype, values = series.dtype, values_of(series)
    if dtype == nw.Categorical and series.implementation.is_polars():
        raise InputError(
            f"column {name!r} must declare its levels, got a Categorical of polars, which holds whatever was seen; "
            "use pl.Enum with its levels."
        )
    if dtype in (nw.Categorical, nw.Enum):
        words = [text_of(level) for level in series.cat.get_categories().to_list()]
        return Found(name, values, "levels", tuple(word for word in words if word not in MISSING))
    if dtype == nw.Boolean:
        return Found(name, values, "truth value")
    return Found(name, values, "number" if dtype.is_numeric() else f"{dtype}")


def infer_schema(columns: Sequence[Found], bounds: Any, target: Target) -> Schema:
    """A schema by the types of columns and declared bounds."""
    numbers = [column.name for column in columns if column.kind == "number"]
    ranges = _ranges(bounds, numbers)
    return Schema(tuple(_declared(column, ranges) for column in columns), target)


def _declared(column: Found, ranges: Mapping[str, tuple[float, float]]) -> Column:
    match column.kind:
        case "number":
            lower, upper = ranges[column.name]
            return Numeric(column.name, lower, upper, lower)
        case "truth value":
            return Numeric(column.name, 0.0, 1.0, 0.0, linear=True)
        case "levels":
            return Categorical(column.name, column.levels)
    raise InputError(
        f"column {column.name!r} must hold numbers, truth values or declared levels, got {column.kind}; give it a "
        "categorical dtype with its levels, such as pd.CategoricalDtype([...]) or pl.Enum([...]), turn it into a "
        "number, or pass schema=."
    )


def _ranges(bounds: Any, numbers: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The declared range of every column of numbers."""
    if not numbers:
        return {}
    if bounds is None:
        raise InputError(
            "columns of numbers must have bounds that are publicly known, which are never read from the records, got "
            "none; pass bounds=(lower, upper), bounds={column: (lower, upper)}, bounds='clip' for features that are "
            f"standardized already, which are held to {CLIP[0]:g} and {CLIP[1]:g}, or schema=."
        )
    if isinstance(bounds, str):
        if bounds != "clip":
            raise InputError(f"bounds must be two numbers, a dictionary or 'clip', got {bounds!r}; use one of them.")
        return dict.fromkeys(numbers, CLIP)
    if not isinstance(bounds, Mapping):
        if _shape(bounds) == (len(numbers), 2):
            return {name: pair(f"bounds of column {name!r}", each) for name, each in zip(numbers, bounds, strict=True)}
        return dict.fromkeys(numbers, pair("bounds", bounds))
    named = {f"x{name}" if isinstance(name, int) else str(name): each for name, each in bounds.items()}
    odd = sorted({*numbers} ^ {*named})
    if odd:
        raise InputError(
            f"bounds must name each column of numbers once and nothing else, got too few or too many: "
            f"{', '.join(odd[:10])}; add or remove them."
        )
    return {name: pair(f"bounds of column {name!r}", each) for name, each in named.items()}


def pair(what: str, value: Any) -> tuple[float, float]:
    """Two numbers, the lower one first."""
    if _shape(value) != (2,):
        raise InputError(f"{what} must be two numbers, got {reprlib.repr(value)}; write (lower, upper).")
    lower, upper = (as_number(what, end) for end in value)
    return lower, upper


def _shape(value: Any) -> tuple[int, ...] | None:
    """The lengths of nested sequences, none where they are not as long as each other."""
    try:
        return np.shape(value)
    except ValueError:
        return None


def as_number(name: str, value: Any) -> float:
    """A number that somebody passed."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} must be a number, got {value!r}; pass one.")
    return float(value)


def places_of(schema: Schema, columns: Sequence[Found], named: bool) -> dict[str, int]:
    """Where each declared column stands in X: by name in a data frame, by its place in a matrix."""
    found = {column.name: place for place, column in reversed([*enumerate(columns)])}  # the first of a name
    declared = [column.name for column in schema.inputs]
    if not named:
        if len(columns) != len(declared):
            raise InputError(
                f"a matrix must have the {len(declared)} columns of the schema in their order, got {len(columns)}; "
                "pass a data frame with their names, or those columns."
            )
        return {name: place for place, name in enumerate(declared)}
    for name in declared:
        if name not in found:
            names = ", ".join(column.name for column in columns[:10])
            raise InputError(f"X must have the declared column {name!r}, got {names}; rename one.")
    return {name: found[name] for name in declared}


def cells(columns: Sequence[Found], schema: Schema, places: Mapping[str, int], missing: bool) -> dict[str, np.ndarray]:
    """The declared columns of records; `missing` says whether numbers may be."""
    found = held({name: columns[place].values for name, place in places.items()}, schema)
    for name, numbers in found.numbers.items():
        if not missing and numbers.missing + numbers.unreadable:
            raise InputError(
                f"column {name!r} must hold finite numbers, got missing values (NaN), infinity or something else; fill "
                "them in by a public rule, drop those records, or pass schema=, which declares what stands for them."
            )
    found.refuse_unreadable(schema.most_unreadable)
    return cells_of(found, schema)
