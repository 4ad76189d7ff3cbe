"""Data frames, through narwhals, as the cells of a schema. No text of an error holds a cell."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedspd.data.cells import MISSING, number_of
from fedspd.data.columns import Categorical, Column, Numeric
from fedspd.data.dataset import Category, Table
from fedspd.data.partition import CLIENT
from fedspd.data.schema import Schema
from fedspd.data.source import Cells
from fedspd.data.tabular import encode
from fedspd.errors import InputError
from fedspd.target import Classes

Values = np.ndarray
"""A column: truth values, float64 with NaN where one is missing, or texts (objects) with None where one is missing."""


def is_frame(value: Any) -> bool:
    """Whether it is a data frame that can be read."""
    import narwhals.stable.v2 as nw

    return nw.dependencies.is_into_dataframe(value)


def frame_values(frame: Any) -> dict[Any, Values]:
    """The columns of a data frame by their names."""
    import narwhals.stable.v2 as nw

    read = nw.from_native(frame, eager_only=True)
    return {name: values_of(read[name]) for name in read.columns}


def values_of(series: Any) -> Values:
    """A series of any library as NumPy has it; anything else is handed to NumPy."""
    import narwhals.stable.v2 as nw

    read = nw.from_native(series, series_only=True, pass_through=True)
    if not isinstance(read, nw.Series):
        return np.asarray(read)
    if read.dtype == nw.Boolean and not read.is_null().any():
        return read.to_numpy().astype(bool)
    if read.dtype.is_numeric() or read.dtype == nw.Boolean:
        return read.cast(nw.Float64).fill_null(float("nan")).to_numpy()
    texts = np.empty(len(read), dtype=object)
    texts[:] = [None if _is_missing(value) else value for value in read.to_list()]
    return texts


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def text_of(value: Any) -> str:
    """An entry as a schema writes it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def texts_of(values: Values) -> list[str | None]:
    """Entries as a schema writes them, None where one is missing."""
    return [None if _is_missing(value) else text_of(value) for value in values.tolist()]


def codes_among(values: Values, levels: tuple[str, ...]) -> np.ndarray:
    """For each record the index of its entry among some levels, -1 where it is none of them."""
    places: dict[str | None, int] = {level: place for place, level in enumerate(levels)}
    return np.array([places.get(text, -1) for text in texts_of(values)], dtype=np.int64)


def cells_of(values: Values, column: Column, markers: tuple[str, ...] = ()) -> np.ndarray:
    """What `encode` takes of a column; an entry that is no finite number counts as missing."""
    if isinstance(column, Categorical):
        return codes_among(values, column.levels)
    if values.dtype == object:
        missing = {*MISSING, *markers}
        values = np.array([np.nan if text is None else number_of(text, missing) for text in texts_of(values)])
    numbers = values.astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def client_category(values: Values) -> Category:
    """Which client each record belongs to, by name."""
    if values.ndim != 1:
        raise InputError(f"clients must be named by one column, got shape {values.shape}; name one for each record.")
    names = texts_of(values)
    if None in names or "" in names:
        raise InputError("every record must name its client, got records that do not; fill them in or drop them.")
    return Category.of(np.array(names, dtype=np.str_))


def frame_cells(frame: Any, schema: Schema, client: str | None = None) -> Cells:
    """The records of a data frame under a schema; columns that it does not declare are ignored.

    Args:
        frame: of pandas, polars or Arrow.
        schema: what is public about it, its target included.
        client: the column that names each record's client; None: the one that the schema names.
    """
    if not is_frame(frame):
        raise InputError(
            f"expected a data frame of pandas, polars or Arrow, a preset, a file or a configuration, got "
            f"{type(frame).__name__}; pass one of them."
        )
    if client is not None and schema.client not in (None, client):
        raise InputError(
            f"expected the client column that the schema names, {schema.client!r}, got {client!r}; change one of them."
        )
    values = {str(name): column for name, column in frame_values(frame).items()}
    named = client or schema.client
    needed = [column.name for column in schema.inputs] + [schema.target.column] + ([named] if named else [])
    for name in needed:
        if name not in values:
            raise InputError(
                f"the data frame must have the declared column {name!r}, got {', '.join([*values][:10])}; rename one."
            )
    features = encode({c.name: cells_of(values[c.name], c, schema.missing_markers) for c in schema.inputs}, schema)
    attributes = {CLIENT: client_category(values[named])} if named else {}
    labels = _labels(values[schema.target.column], schema)
    target = None if isinstance(schema.target, Classes) else schema.target
    table = Table(features, labels, schema.columns, schema.target.classes, attributes, target)
    return Cells(table, None, replace(schema, client=named))


def _labels(values: Values, schema: Schema) -> np.ndarray:
    """The target of each record, the way losses see it."""
    target = schema.target
    if isinstance(target, Classes):
        labels = codes_among(values, target.classes)
        absent, wanted = labels < 0, f"one of the classes {', '.join(target.classes)}"
    else:
        numbers = cells_of(values, Numeric(target.column, 0.0, 1.0, 0.0))
        labels, absent, wanted = target.labels(numbers), np.isnan(numbers), "a number"
    if absent.any():
        raise InputError(
            f"row {int(np.argmax(absent))}, counted from 0: column {target.column!r} must hold {wanted}, got something "
            "else; correct that row or leave it out."
        )
    return labels
