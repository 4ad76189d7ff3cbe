"""A site's durable memory of its runs: replies, so that none is made twice, and the public state they leave behind.

It holds nothing un-noised, unless a site that needs no protection runs a method that keeps such state.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from fedspd.errors import InputError

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, terms TEXT NOT NULL, records TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS replies (
    run TEXT NOT NULL REFERENCES runs, number INTEGER NOT NULL, round INTEGER NOT NULL, request TEXT NOT NULL,
    upload BLOB NOT NULL, total BLOB NOT NULL, PRIMARY KEY (run, number)) STRICT;
CREATE TABLE IF NOT EXISTS states (run TEXT PRIMARY KEY REFERENCES runs, state BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS secrets (
    run TEXT NOT NULL REFERENCES runs, round INTEGER NOT NULL, attempt TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (run, round, attempt)) STRICT;
"""


class Run(NamedTuple):
    """A run the site has entered."""

    run: str
    terms: str  # as text
    records: str  # digest of the site's data file, which must not change during a run


class Stored(NamedTuple):
    """A reply that was made."""

    number: int  # of the site's charges in the run, this one included
    round: int
    request: str  # digest of what was asked
    upload: bytes
    total: bytes  # what the server holds of the site once it has merged the upload


class Store:
    """An open store. Everything happens in a turn, one process after the other."""

    def __init__(self, path: Path) -> None:
        try:
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise InputError(f"expected a site's store at {path}, got '{error}'; check the file.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One request: what it writes is on disk when the turn ends, or nothing is."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def enter(self, run: Run) -> None:
        """Remember a run's terms."""
        self._connection.execute("INSERT INTO runs VALUES (?, ?, ?)", run)

    def run(self, name: str) -> Run | None:
        """A run by its name."""
        found = self._connection.execute("SELECT * FROM runs WHERE run = ?", (name,)).fetchone()
        return found and Run(*found)

    def runs(self) -> list[Run]:
        """All runs."""
        return [Run(*found) for found in self._connection.execute("SELECT * FROM runs")]

    def repeated(self, run: str, request: str) -> Stored | None:
        """The reply that was made to the very same request."""
        query = "SELECT number, round, request, upload, total FROM replies WHERE run = ? AND request = ?"
        found = self._connection.execute(query, (run, request)).fetchone()
        return found and Stored(*found)

    def reply(self, run: str, number: int) -> Stored | None:
        """A reply by its number."""
        query = "SELECT number, round, request, upload, total FROM replies WHERE run = ? AND number = ?"
        found = self._connection.execute(query, (run, number)).fetchone()
        return found and Stored(*found)

    def last(self, run: str) -> tuple[int, int]:
        """Number and round of the last reply; zeros before the first."""
        query = "SELECT COALESCE(MAX(number), 0), COALESCE(MAX(round), 0) FROM replies WHERE run = ?"
        return self._connection.execute(query, (run,)).fetchone()

    def state(self, run: str) -> bytes | None:
        """What the site carries from round to round."""
        found = self._connection.execute("SELECT state FROM states WHERE run = ?", (run,)).fetchone()
        return found and found[0]

    def keep(self, run: str, reply: Stored, state: bytes | None) -> None:
        """Remember a reply together with the state it leaves behind."""
        self._connection.execute("INSERT INTO replies VALUES (?, ?, ?, ?, ?, ?)", (run, *reply))
        if state is not None:
            self._connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (run, state))

    def secrets(self, run: str, round: int, attempt: str) -> bytes | None:
        """The secrets of a masked round."""
        query = "SELECT content FROM secrets WHERE run = ? AND round = ? AND attempt = ?"
        found = self._connection.execute(query, (run, round, attempt)).fetchone()
        return found and found[0]

    def keep_secrets(self, run: str, round: int, attempt: str, content: bytes) -> None:
        """Remember the secrets of a masked round; those of other rounds and attempts are forgotten."""
        self._connection.execute("DELETE FROM secrets WHERE run = ?", (run,))
        self._connection.execute("INSERT INTO secrets VALUES (?, ?, ?, ?)", (run, round, attempt, content))
