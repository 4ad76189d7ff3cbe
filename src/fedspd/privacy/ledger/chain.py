"""The ledger's rows, chained by hashes.

Each row carries the SHA-256 of its content and of the row before; the head (number of rows, last hash) is
written in the same transaction. The chain has no key: it finds damage and edits, but a forger who computes
all hashes anew, or puts an older copy in place, is found only by comparing with a head noted elsewhere.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedspd.privacy.ledger.file import NO_HASH, damaged

_ROWS_AFTER = """
SELECT sequence, client, NULL, NULL, NULL, terms, time, hash FROM clients WHERE sequence > :rows UNION ALL
SELECT sequence, client, run, round, mechanism, event, time, hash FROM charges WHERE sequence > :rows
ORDER BY sequence
"""


_compact = json.JSONEncoder(separators=(",", ":")).encode


class Row(NamedTuple):
    """One row: a charge, or, without a run, the entry of a client on its terms."""

    sequence: int
    client: str
    run: str | None
    round: int | None
    mechanism: str | None
    content: str
    time: str


class Head(NamedTuple):
    """The number of rows and the hash of the last one."""

    rows: int
    hash: str


EMPTY = Head(0, NO_HASH)


def link(previous: str, row: Row) -> str:
    """The hash of a row that follows the one with hash `previous`."""
    return hashlib.sha256(f"{previous}{_compact(row)}".encode()).hexdigest()


def rows_after(connection: sqlite3.Connection, head: Head, path: Path) -> tuple[list[Row], Head]:
    """The rows that follow `head`, each checked against the chain, and the head of the file.

    Guarantees:
        A row that was changed, moved, inserted or removed is refused.
    """
    rows: list[Row] = []
    found = connection.execute("SELECT rows, hash FROM head").fetchone()
    if found != head:
        for *values, stored in connection.execute(_ROWS_AFTER, {"rows": head.rows}):
            row = Row(*values)
            if any(isinstance(value, bytes) for value in row) or link(head.hash, row) != stored:
                raise damaged(path, f"a changed, moved or missing row at {head.rows + 1}")
            rows.append(row)
            head = Head(row.sequence, stored)
    if found != head:
        raise damaged(path, f"{head.rows} rows where its head names {found and found[0]}, or another last hash")
    return rows, head


def append(connection: sqlite3.Connection, head: Head, rows: Iterable[Row]) -> Head:
    """Write rows that follow `head`, inside the caller's transaction, and return the new head."""
    entries: list[Sequence[object]] = []
    charges: list[Sequence[object]] = []
    for row in rows:
        head = Head(row.sequence, link(head.hash, row))
        if row.run is None:
            entries.append((row.sequence, row.client, row.content, row.time, head.hash))
        else:
            charges.append((*row, head.hash))
    connection.executemany("INSERT INTO clients VALUES (?, ?, ?, ?, ?)", entries)
    connection.executemany("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)", charges)
    connection.execute("UPDATE head SET rows = ?, hash = ?", head)
    return head
