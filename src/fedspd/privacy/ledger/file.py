"""The ledger's file: an SQLite database with a write-ahead log, synced at every commit.

A copy of the file alone misses what is still in the log beside it (`-wal`); close the ledger before copying, or
use SQLite's backup.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from fedspd.errors import InputError

APPLICATION = 0x46535044  # "FSPD"
VERSION = 1
NO_HASH = "0" * 64

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


def create_file(path: Path) -> None:
    """Write an empty ledger unless there is a file.

    Guarantees:
        The file appears complete or not at all, also when two processes create it at once.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with refusing(path):
            connection = sqlite3.connect(draft, isolation_level=None)
            connection.execute("PRAGMA page_size = 1024")  # small pages leave few unused bytes, which no hash covers
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in (*SCHEMA.values(), f"PRAGMA application_id = {APPLICATION}"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("INSERT INTO head VALUES (1, 0, ?)", (NO_HASH,))
            connection.execute("COMMIT")
            connection.close()
        os.link(draft, path)
        _persist_name(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise InputError(f"expected a place for the ledger {path}, got {error}; name another file.") from error
    finally:
        draft.unlink(missing_ok=True)


def connect(path: Path, wait: float) -> sqlite3.Connection:
    """Open a ledger for reading and durable writing.

    Guarantees:
        A file that is no ledger, or whose tables, triggers, indices or pages were changed, is refused.
    """
    if not path.is_file():
        raise InputError(
            f"expected a ledger at {path}, got no file; restore it if there was one, for a new ledger forgets "
            "what is spent, or else create it."
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


def _persist_name(path: Path) -> None:
    """Make the file's name as durable as its content."""
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
