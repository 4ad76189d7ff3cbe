"""Tables with one row per client, as nested named tuples of arrays."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedspd.typing import PerClient


def gather(table: Any, rows: np.ndarray) -> Any:
    """The rows of some clients, as a table of the same type."""
    if isinstance(table, tuple):
        return _rebuild(table, (gather(field, rows) for field in table))
    return table.take(rows, axis=0)


def heard(told: Any, rows: Any) -> Any:
    """What some of the participants hear: of what differs between them, their rows."""
    if isinstance(told, PerClient):
        return PerClient(told.rows[rows])
    return _rebuild(told, (heard(field, rows) for field in told)) if isinstance(told, tuple) else told


def scatter(table: Any, rows: np.ndarray, values: Any) -> None:
    """Write the rows of some clients back, in place."""
    if isinstance(table, tuple):
        for field, value in zip(table, values, strict=True):
            scatter(field, rows, value)
    else:
        table[rows] = values


def writable(table: Any) -> Any:
    """A copy of the table whose fields do not share memory."""
    if isinstance(table, tuple):
        return _rebuild(table, (writable(field) for field in table))
    return np.array(table)


def converted(table: Any, kind: Any) -> Any:
    """The table, or a message, with its arrays in this type of number; plain numbers take any."""
    if isinstance(table, tuple):
        return _rebuild(table, (converted(field, kind) for field in table))
    return table.astype(kind, copy=False) if isinstance(table, np.ndarray) else table


def _rebuild(table: Any, fields: Iterable[Any]) -> Any:
    return type(table)(*fields) if hasattr(table, "_fields") else tuple(fields)
