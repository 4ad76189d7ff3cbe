"""A site's records, read once and kept: encoded features, and those of the present run's scaling."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedspd.data import Schema, Table, finish, read_table
from fedspd.data.holding.units import Units
from fedspd.errors import InputError
from fedspd.typing import Unit

Made = TypeVar("Made")


class Seen(NamedTuple):
    """What tells whether a file is still the one that was read, without reading it."""

    size: int
    changed: int  # in nanoseconds
    number: int


class Records:
    """The records of one file under one schema.

    Guarantees:
        A file that is changed or replaced is read anew before it is used again.
    """

    def __init__(self) -> None:
        self._read: tuple[Path, Seen, str] | None = None
        self._table: Table | None = None
        self._fingerprint = ""
        self._derived: tuple[Any, Table, Any] | None = None
        self._finished: tuple[Table, bytes, np.ndarray] | None = None

    def table(self, path: Path, schema: Schema, unit: Unit = "record") -> Table:
        """The table, read where that is needed."""
        now = path, _seen(path), f"{schema.digest} {unit}"
        if self._table is None or now != self._read:
            self._finished = self._derived = None
            content = hashlib.blake2b(path.read_bytes() if path.is_file() else b"", digest_size=16)
            self._table = read_table(path, schema, unit)
            if _seen(path) != now[1]:
                self._table = None
                raise InputError(f"expected {path} to stay as it is while it is read, got a change; try again.")
            self._fingerprint, self._read = content.hexdigest(), now
        return self._table

    def fingerprint(self, path: Path, schema: Schema, unit: Unit = "record") -> str:
        """A short name of the file's content."""
        self.table(path, schema, unit)
        return self._fingerprint

    def derived(self, key: Any, table: Table, make: Callable[[], Made]) -> Made:
        """Something that follows from the table; the last one is kept."""
        if self._derived is None or self._derived[0] != key or self._derived[1] is not table:
            self._derived = None
            self._derived = key, table, make()
        return self._derived[2]

    def features(self, table: Table, mean: np.ndarray, deviation: np.ndarray, bias: float, norm: float) -> np.ndarray:
        """The table's features, scaled and bounded; those of one scaling are kept."""
        key = repr((bias, norm)).encode() + mean.tobytes() + deviation.tobytes()
        if self._finished is None or self._finished[0] is not table or self._finished[1] != key:
            self._finished = None  # before the next one is made: two of them may not fit into memory
            self._finished = table, key, finish(table.features, mean, deviation, bias, norm)
        return self._finished[2]


def units_of(unit: Unit, table: Table) -> Units | None:
    """Whose rows count as one, of a table as `read_table` gives it; None: each row by itself."""
    if unit == "record":
        return None
    if unit == "client":
        return Units.clients(np.array([0, len(table)]))
    assert table.persons is not None, "read for persons"
    return Units.alone(table.persons.codes)


def count_of(unit: Unit, table: Table) -> int:
    """How many there are to protect: what a site tells a server."""
    units = units_of(unit, table)
    return len(table) if units is None else len(units.rows)


def _seen(path: Path) -> Seen:
    try:
        found = path.stat()
    except OSError:
        return Seen(-1, -1, -1)  # reading it says what is wrong
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)
