"""A site's durable memory of its runs: replies, so that none is made twice, and the public state they leave behind.

It holds nothing un-noised, unless a site that needs no protection runs a method that keeps such state.
"""

import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from fedspd.errors import InputError

SCHEMA = """
CREATE TABLE IF NOT EXISTS site (
    one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL, mark TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS intents (
    one INTEGER PRIMARY KEY CHECK (one = 1), run TEXT NOT NULL, number INTEGER NOT NULL, mechanism TEXT NOT NULL,
    head TEXT NOT NULL, session TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS approvals (run TEXT PRIMARY KEY, terms TEXT NOT NULL, approved INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, terms TEXT NOT NULL, records TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS replies (
    run TEXT NOT NULL REFERENCES runs, number INTEGER NOT NULL, round INTEGER NOT NULL, request TEXT NOT NULL,
    upload BLOB NOT NULL, total BLOB NOT NULL, PRIMARY KEY (run, number)) STRICT;
CREATE TABLE IF NOT EXISTS states (run TEXT PRIMARY KEY REFERENCES runs, state BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS attempts (
    run TEXT NOT NULL REFERENCES runs, round INTEGER NOT NULL, attempt TEXT NOT NULL, masked INTEGER NOT NULL,
    secrets BLOB NOT NULL, PRIMARY KEY (run, round, attempt)) STRICT;
"""


class StoredRun(NamedTuple):
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


class Intent(NamedTuple):
    """A charge that this store's site has written and whose reply is not kept yet, by one process that still runs."""

    run: str
    number: int  # of the site's charges in the run, this one included
    mechanism: str
    head: str  # hash of the charge's row in the ledger
    session: str  # of the process that wrote it


class Approval(NamedTuple):
    """Terms that a person is asked to confirm, or has confirmed."""

    run: str
    terms: str  # as text
    approved: bool


def create_store(path: Path, name: str, mark: str) -> None:
    """A new store for the site of this name, beside a ledger of which `mark` is remembered.

    Guarantees:
        A file that exists is refused. The new one is readable by its owner alone.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with Store(draft) as store:
            with store.turn():
                store._connection.execute("INSERT INTO site VALUES (1, ?, ?)", (name, mark))
            store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.link(draft, path)  # complete, or not there at all
    except OSError as error:
        raise InputError(f"expected a place for the site's store, got {path}: {error.strerror}.") from None
    finally:
        for left in path.parent.glob(f"{draft.name}*"):
            left.unlink(missing_ok=True)


class Store:
    """An open store. Everything happens in a turn, one process after the other."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(
                f"expected the site's store at {path}, got no file; let `fedspd deploy join` make a new one, which "
                "forgets the runs that are under way. Do not put an old copy back."
            )
        # A file of its own: to close another descriptor of the database would take SQLite's locks away.
        self._lock = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            self._connection = sqlite3.connect(path, timeout=60.0, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA secure_delete = ON")  # secrets that are erased are overwritten
            self._connection.executescript(SCHEMA)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise InputError(f"expected a site's store at {path}, got '{error}'; check the file.") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        os.close(self._lock)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One request: what it writes is on disk when the turn ends; of a turn that fails, only what was settled.

        Guarantees:
            Turns of several processes do not overlap, also where one settles in the middle of its turn.
        """
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # nothing is open where settling itself failed
                    self._connection.execute("ROLLBACK")
                raise
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def settle(self) -> None:
        """Put what the turn has written so far on disk; the turn goes on."""
        self._connection.execute("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")

    def site(self) -> tuple[str, str]:
        """The name of the site the store belongs to, and what it remembers of the ledger."""
        found = self._connection.execute("SELECT name, mark FROM site").fetchone()
        if found is None:
            raise InputError("expected a store that `fedspd deploy join` made, got another one; restore it.")
        return found

    def remember(self, mark: str) -> None:
        """Remember the ledger as it is now."""
        self._connection.execute("UPDATE site SET mark = ?", (mark,))

    def intent(self) -> Intent | None:
        """A charge that was made in a turn that ended before its reply was kept."""
        found = self._connection.execute("SELECT run, number, mechanism, head, session FROM intents").fetchone()
        return found and Intent(*found)

    def intend(self, intent: Intent | None) -> None:
        """Remember a charge that waits for its reply, or that none does."""
        self._connection.execute("DELETE FROM intents")
        if intent is not None:
            self._connection.execute("INSERT INTO intents VALUES (1, ?, ?, ?, ?, ?)", intent)

    def approval(self, run: str) -> Approval | None:
        """What a person was asked about a run."""
        found = self._connection.execute("SELECT * FROM approvals WHERE run = ?", (run,)).fetchone()
        return found and Approval(found[0], found[1], bool(found[2]))

    def approvals(self) -> list[Approval]:
        """Everything that a person was asked."""
        found = self._connection.execute("SELECT * FROM approvals ORDER BY rowid")
        return [Approval(run, terms, bool(approved)) for run, terms, approved in found]

    def forget(self, run: str) -> None:
        """Take a question back."""
        self._connection.execute("DELETE FROM approvals WHERE run = ?", (run,))

    def approve(self, approval: Approval) -> None:
        """Ask a person, or remember the answer."""
        self._connection.execute("INSERT OR REPLACE INTO approvals VALUES (?, ?, ?)", approval)

    def enter(self, run: StoredRun) -> None:
        """Remember a run's terms."""
        self._connection.execute("INSERT INTO runs VALUES (?, ?, ?)", run)

    def run(self, name: str) -> StoredRun | None:
        """A run by its name."""
        found = self._connection.execute("SELECT * FROM runs WHERE run = ?", (name,)).fetchone()
        return found and StoredRun(*found)

    def runs(self) -> list[StoredRun]:
        """All runs."""
        return [StoredRun(*found) for found in self._connection.execute("SELECT * FROM runs")]

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
        """The secrets of an attempt at a masked round; None: it was never begun; no bytes: it is over."""
        query = "SELECT secrets FROM attempts WHERE run = ? AND round = ? AND attempt = ?"
        found = self._connection.execute(query, (run, round, attempt)).fetchone()
        return found and found[0]

    def keep_secrets(self, run: str, round: int, attempt: str, masked: bool, secrets: bytes) -> None:
        """Remember the secrets of an attempt, and whether it has masked anything; all other attempts are over."""
        self.erase_secrets(run)
        self._connection.execute(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?)", (run, round, attempt, masked, secrets)
        )

    def erase_secrets(self, run: str) -> None:
        """Every attempt of the run is over; that there was one is remembered."""
        self._connection.execute("UPDATE attempts SET secrets = x'' WHERE run = ?", (run,))

    def masked_attempts(self, run: str, round: int) -> int:
        """How often an upload of a round was masked."""
        query = "SELECT COUNT(*) FROM attempts WHERE run = ? AND round = ? AND masked"
        return self._connection.execute(query, (run, round)).fetchone()[0]


def digest_of_count(request: Any) -> str:
    """A short name of the model that held-out records are counted by."""
    arrays = (request.weights, request.mean, request.deviation)
    content = b"".join(np.ascontiguousarray(array, "<f8").tobytes() for array in arrays)
    return hashlib.blake2b(f"count {request.terms}".encode() + content, digest_size=16).hexdigest()


def digest_of_ask(ask: Any) -> str:
    """A short name of what a round is asked with; each attempt at a masked round is asked for by itself."""
    arrays = (np.ascontiguousarray(array, "<f8").tobytes() for array in (ask.weights, ask.mean, ask.deviation))
    head = f"{ask.terms} {ask.round} {ask.acknowledged} {ask.stretch!r} {getattr(ask, 'attempt', '')}".encode()
    return hashlib.blake2b(head + b"".join(arrays), digest_size=16).hexdigest()
