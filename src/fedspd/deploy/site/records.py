"""A site's records, read once and kept: encoded features, and those of the present run's scaling."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspd.data import Schema, Table, finish, read_table
from fedspd.errors import InputError


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
        self._finished: tuple[bytes, np.ndarray] | None = None

    def table(self, path: Path, schema: Schema) -> Table:
        """The table, read where that is needed."""
        now = path, _seen(path), schema.digest
        if self._table is None or now != self._read:
            self._finished = None
            content = hashlib.blake2b(path.read_bytes() if path.is_file() else b"", digest_size=16)
            self._table = read_table(path, schema)
            if _seen(path) != now[1]:
                self._table = None
                raise InputError(f"expected {path} to stay as it is while it is read, got a change; try again.")
            self._fingerprint, self._read = content.hexdigest(), now
        return self._table

    def fingerprint(self, path: Path, schema: Schema) -> str:
        """A short name of the file's content."""
        self.table(path, schema)
        return self._fingerprint

    def features(self, table: Table, mean: np.ndarray, deviation: np.ndarray, bias: float, norm: float) -> np.ndarray:
        """The table's features, scaled and bounded; those of one scaling are kept."""
        key = repr((bias, norm)).encode() + mean.tobytes() + deviation.tobytes()
        if table is not self._table:
            return finish(table.features, mean, deviation, bias, norm)
        if self._finished is None or self._finished[0] != key:
            self._finished = None  # before the next one is made: two of them may not fit into memory
            self._finished = key, finish(table.features, mean, deviation, bias, norm)
        return self._finished[1]


def _seen(path: Path) -> Seen:
    try:
        found = path.stat()
    except OSError:
        return Seen(-1, -1, -1)  # reading it says what is wrong
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)
