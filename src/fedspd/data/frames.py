"""Tables that a program holds: data frames, through narwhals, and matrices, as if they were read from files."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.data.dataset import Category
from fedspd.data.features.columns import Categorical
from fedspd.data.files.cells import MISSING, PLACES, Numbers, Texts, number_of
from fedspd.data.files.reading import Columns
from fedspd.data.schema import Schema
from fedspd.data.tabular import Cells, by_name, table_of
from fedspd.errors import InputError
from fedspd.target import Classes

Values = np.ndarray
"""A column: truth values, float64 with NaN where one is missing, or objects with None where one is missing."""


def is_frame(value: Any) -> bool:
    """Whether it is a data frame that can be read."""
    import narwhals.stable.v2 as nw

    return nw.dependencies.is_into_dataframe(value)


def frame_values(frame: Any) -> dict[str, Values]:
    """The columns of a data frame by their names."""
    import narwhals.stable.v2 as nw

    listed = [str(name) for name in getattr(frame, "column_names", None) or frame.columns]
    if twice := sorted({name for name in listed if listed.count(name) > 1}):
        raise InputError(
            f"the columns of a data frame must all be different, got {twice[0]!r} more than once; rename one."
        )
    read = nw.from_native(frame, eager_only=True)
    return {str(name): values_of(read.get_column(name)) for name in read.columns}


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
    objects = np.empty(len(read), dtype=object)
    objects[:] = [None if _is_missing(value) else value for value in read.to_list()]
    return objects


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def text_of(value: Any) -> str:
    """An entry as a schema writes it: whole numbers without a point, true and false, nothing where it is missing."""
    if _is_missing(value):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def texts_of(values: Values, markers: Collection[str] = MISSING) -> Texts:
    """A column as texts."""
    places: dict[str, int] = {}
    words = (text_of(value) for value in values.tolist())
    codes = [-1 if word in markers else places.setdefault(word, len(places)) for word in words]
    return Texts(np.array(codes, np.int32), [*places], codes.count(-1))


def numbers_of(values: Values, markers: Collection[str] = MISSING) -> Numbers:
    """A column as numbers."""
    if values.dtype.kind in "biuf":
        read = values.astype(np.float64)
    else:
        read = np.array([number_of(text_of(value), markers) for value in values.tolist()], np.float64)
    (odd,) = np.nonzero(np.isinf(read))
    missing = int(np.isnan(read).sum())
    return Numbers(np.where(np.isinf(read), np.nan, read), missing, len(odd), tuple(odd[:PLACES].tolist()))


@dataclass(frozen=True)
class Held:
    """A table in memory, its rows counted from 0."""

    columns: Mapping[str, Values]
    path: Path = Path("the table")

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return tuple(self.columns)

    def find(self, records: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """For each of these records the number of its row, and its cells."""
        return {one: (one, [text_of(values[one]) for values in self.columns.values()]) for one in records}


def held(columns: Mapping[str, Values], schema: Schema, *others: str) -> Columns:
    """The declared columns of a table in memory, and others as texts."""
    markers = frozenset((*MISSING, *schema.missing_markers))
    text = {column.name for column in schema.inputs if isinstance(column, Categorical)} | {*others}
    if isinstance(schema.target, Classes):
        text.add(schema.target.column)
    rows = len(next(iter(columns.values())))
    numbers = {name: numbers_of(values, markers) for name, values in columns.items() if name not in text}
    texts = {name: texts_of(columns[name], markers) for name in columns if name in text}
    return Columns(rows, numbers, texts, (Held(columns),), (rows,))


def named_by(values: Values, whom: str) -> Category:
    """The client or the person of each record, as a table keeps it."""
    return by_name(_named(values, whom))


def _named(values: Values, whom: str) -> Texts:
    if values.ndim != 1:
        raise InputError(f"{whom}s must be named by one column, got shape {values.shape}; name one for each record.")
    names = texts_of(values)
    if names.missing:
        raise InputError(f"every record must name its {whom}, got records that do not; fill them in or drop them.")
    return names


def frame_cells(frame: Any, schema: Schema, client: str | None = None, person: str | None = None) -> Cells:
    """The records of a data frame under a schema; columns that it does not declare are ignored.

    Args:
        frame: of pandas, polars or Arrow.
        schema: what is public about it, its target included.
        client: the column that names each record's client; None: the one that the schema names.
        person: the column that says whom a record is about; None: the one that the schema names.
    """
    if not is_frame(frame):
        raise InputError(
            f"expected a data frame of pandas, polars or Arrow, a preset, a file or a configuration, got "
            f"{type(frame).__name__}; pass one of them."
        )
    for whom, wanted, declared in (("client", client, schema.client), ("person", person, schema.person)):
        if wanted is not None and declared not in (None, wanted):
            raise InputError(
                f"expected the {whom} column that the schema names, {declared!r}, got {wanted!r}; change one of them."
            )
    values = frame_values(frame)
    schema = replace(schema, client=client or schema.client, person=person or schema.person)
    needed = [*(column.name for column in schema.inputs), schema.target.column, *schema.naming]
    for name in needed:
        if name not in values:
            raise InputError(
                f"the data frame must have the declared column {name!r}, got {', '.join([*values][:10])}; rename one."
            )
    columns = (("client", schema.client), ("person", schema.person))
    clients, persons = (None if name is None else _named(values[name], whom) for whom, name in columns)
    found = held({name: values[name] for name in needed}, schema, *schema.naming)
    return Cells(table_of(found, schema, clients, persons), None, schema)
