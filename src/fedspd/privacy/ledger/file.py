"""The ledger's file: an SQLite database with a write-ahead log, synced at every commit.

A copy of the file alone misses what is still in the log beside it (`-wal`); close the ledger before copying, or
use SQLite's backup.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from fedspd.errors import InputError

APPLICATION = 0x46535044  # "FSPD"
VERSION = 1
NO_HASH = "0" * 64
MOST_ROWS = 2**63 - 1  # of an SQLite table
OWNER_ONLY = 0o600

SCHEMA = {
    "head": "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), rows INTEGER NOT NULL, hash TEXT NOT NULL)",
    "clients": """CREATE TABLE clients (sequence INTEGER PRIMARY KEY, client TEXT NOT NULL UNIQUE,
        terms TEXT NOT NULL, time TEXT NOT NULL, hash TEXT NOT NULL)""",
    "charges": """CREATE TABLE charges (sequence INTEGER PRIMARY KEY, client TEXT NOT NULL REFERENCES clients (client),
        run TEXT NOT NULL, round INTEGER NOT NULL, mechanism TEXT NOT NULL, event TEXT NOT NULL,
        time TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (run, round, mechanism, client))""",
    **{
        f"{table}_no_{action.lower()}": f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in ("clients", "charges")
        for action in ("UPDATE", "DELETE")
    },
    "head_no_delete": "CREATE TRIGGER head_no_delete BEFORE DELETE ON head "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
}


def create_ledger(path: Path | str) -> None:
    """Write an empty ledger, once: whoever lost one restores it, for a new one forgets what is spent.

    Guarantees:
        The file appears complete or not at all. It never takes the place of another, nor of one that left its log
        behind; of several processes that create it at once, one does and the others are refused.
        The file, and the log beside it, are readable and writable for their owner alone, whatever the umask.
    """
    path = Path(path)
    _require_free(path)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY))
        os.chmod(draft, OWNER_ONLY)  # the umask may have taken more; SQLite gives its logs the mode of the file
        with refusing(path):
            _write_empty(draft)
        os.link(draft, path)
        persist_name(path)
    except FileExistsError as error:
        raise _taken(path, "a file") from error
    except OSError as error:
        raise InputError(
            f"expected a place for the ledger {path}, got '{error.strerror}'; name another file."
        ) from error
    finally:
        with suppress(OSError):  # there may be no such folder
            draft.unlink()


def connect(path: Path, wait: float) -> sqlite3.Connection:
    """Open a ledger for reading and durable writing.

    Guarantees:
        A file that is no ledger, or whose tables, triggers, indices or pages were changed, is refused.
    """
    if not os.path.isfile(path):  # also where the name is too long to ask
        got = "a folder" if os.path.isdir(path) else "no file"
        raise InputError(
            f"expected a ledger at {path}, got {got}; restore it, for a new one forgets what is spent, or run 'fedspd "
            f"ledger create {path}' if there never was one."
        )
    with refusing(path):
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", wait, isolation_level=None, uri=True)
        try:
            _check_file(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def damaged(path: Path, got: str) -> InputError:
    """The error for a file that is no intact ledger."""
    return InputError(f"expected an intact ledger at {path}, got {got}; restore it from a backup.")


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into the program's."""
    try:
        yield
    except MemoryError as error:  # the size of something in it is damaged
        raise damaged(path, "a file that asks for more memory than there is") from error
    except (sqlite3.Error, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            # SQLite may quote the damaged bytes themselves, which are nothing to print
            raise damaged(path, f"'{str(error).partition(' with text')[0]}'") from error
        busy = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        remedy = "end the process that holds it" if busy else "check the disk, its space and the file's permissions"
        raise InputError(f"expected to read and write the ledger {path}, got '{error}'; {remedy}.") from error


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    def pragma(name: str) -> object:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]

    if pragma("application_id") != APPLICATION:
        raise damaged(path, "a database of another program")
    if pragma("user_version") != VERSION:
        raise damaged(path, f"version {pragma('user_version')} of its format, and this program writes {VERSION}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    if pragma("journal_mode") != "wal":
        raise damaged(path, "a file without write-ahead log")
    schema = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    if dict(schema) != SCHEMA:
        raise damaged(path, "changed tables or triggers")
    if (problem := pragma("integrity_check")) != "ok":
        raise damaged(path, f"'{problem}'")


def persist_name(path: Path) -> None:
    """Make a file's name as durable as its content."""
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _require_free(path: Path) -> None:
    """Refuse a place where a ledger is, or was: SQLite would read an old log into a new file."""
    if os.path.lexists(path):
        raise _taken(path, "a folder" if os.path.isdir(path) else "a file")
    for end in ("-wal", "-shm", "-journal"):
        if os.path.lexists(f"{path}{end}"):
            raise _taken(path, f"the log {path.name}{end} of a ledger that is gone")


def _taken(path: Path, got: str) -> InputError:
    return InputError(
        f"expected no ledger at {path} before it is created, got {got}; a ledger is created once: use or restore the "
        "one there is, or name another file."
    )


def _write_empty(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size = 1024")  # small pages leave few unused bytes, which no hash covers
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*SCHEMA.values(), f"PRAGMA application_id = {APPLICATION}"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("INSERT INTO head VALUES (1, 0, ?)", (NO_HASH,))
        connection.execute("COMMIT")
    finally:
        connection.close()
