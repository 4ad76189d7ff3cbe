"""Marks: what is remembered of a ledger elsewhere, to know it again.

A ledger that was lost and begun anew, put back from an old copy, or forged from some row on lacks the row that a mark
names. A ledger is ahead of its mark where a process was killed after a charge, and that is fine.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fedspd.errors import InputError
from fedspd.privacy.ledger.accounts import require_name
from fedspd.privacy.ledger.file import MOST_ROWS, NO_HASH, OWNER_ONLY, persist_name
from fedspd.privacy.ledger.ledger import Ledger


class Mark(NamedTuple):
    """A ledger of one client at some moment: its rows, how many of them are charges, and the hash of the last."""

    client: str
    rows: int
    charges: int
    hash: str


def mark_of(ledger: Ledger, client: str) -> Mark:
    """The mark of a client's ledger, as of the last turn on the file.

    Guarantees:
        A ledger with an account of another name is refused.
    """
    require_name("client", client)
    _require_owner(ledger, client)
    return Mark(client, ledger.head.rows, _charges(ledger), ledger.head.hash)


def require_mark(ledger: Ledger, mark: Mark) -> None:
    """Refuse a ledger that is not the marked one, or is older than the mark.

    Guarantees:
        What is accepted has the marked row, with its hash, at its place, and so every row before it too. It has
        no fewer charges, and no account of another name.
    """
    found, charges = ledger.hash_at(mark.rows), _charges(ledger)
    _require_owner(ledger, mark.client)
    if found != mark.hash or charges < mark.charges:
        there = {None: "no such row", mark.hash: "that row"}.get(found, f"hash {found} there")
        raise InputError(
            f"expected row {mark.rows} with hash {mark.hash} and at least {mark.charges} charges in {ledger.path}, got "
            f"{there} and {charges} charges; the ledger is older than its mark or another one: restore the newer one."
        )


def to_text(mark: Mark) -> str:
    """A mark as one line of JSON; `from_text` is its inverse."""
    return json.dumps(mark._asdict(), separators=(",", ":"))


def from_text(text: str) -> Mark:
    """The mark that `to_text` wrote; everything else is refused."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    mark = _checked(values)
    if mark is None:
        shown = repr(text if len(text) <= 80 else f"{text[:80]}...")
        raise InputError(
            f"expected a mark of a ledger, {', '.join(Mark._fields)} as JSON, got {shown}; restore it from a backup."
        )
    return mark


def read_mark(path: Path | str) -> Mark:
    """The mark in a file; what is no mark is refused."""
    try:
        return from_text(Path(path).read_bytes().decode())
    except OSError as error:
        raise InputError(f"expected a mark at {path}, got '{error.strerror}'; restore it from a backup.") from error
    except UnicodeDecodeError:
        raise InputError(f"expected a mark at {path}, got no text; restore it from a backup.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_mark(path: Path | str, mark: Mark) -> None:
    """Keep a mark in a file, unless a later one is there already.

    Guarantees:
        The mark, or a later one, is on disk when this returns; the file is the old one or the new one at any moment.
        A mark never takes the place of one with more rows, also when several processes write at once.
        A file with something else in it, or with the mark of another client or another ledger, is refused and kept.
        The file is readable and writable for its owner alone, whatever the umask.
    """
    path = Path(path)
    line = to_text(mark)
    from_text(line)
    try:
        with _drafted(path) as (draft, file):
            if _supersedes(mark, path):
                file.write(f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())
                draft.replace(path)
            persist_name(path)
    except OSError as error:
        raise InputError(f"expected a place for the mark {path}, got '{error.strerror}'; name another.") from error


def _supersedes(mark: Mark, path: Path) -> bool:
    """Whether a mark is to take the place of what is at `path`."""
    if not os.path.lexists(path):
        return True
    kept = read_mark(path)
    if kept.client != mark.client or (kept.rows == mark.rows and kept != mark):
        raise InputError(
            f"expected a mark of the ledger that {path} remembers, {kept}, got {mark}; a mark belongs to one ledger of "
            "one client: restore that ledger, or name another file."
        )
    return kept.rows < mark.rows


@contextmanager
def _drafted(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """An empty file beside `path` to write into, locked against all others that write to `path`."""
    from fcntl import LOCK_EX, flock  # not on every system, and most of the program can do without

    draft = path.with_name(f".{path.name}.draft")
    while True:
        with open(os.open(draft, os.O_CREAT | os.O_RDWR, OWNER_ONLY), "r+b") as file:
            flock(file, LOCK_EX)
            if not _is_at(file, draft):
                continue  # another writer has moved it into place or removed it meanwhile
            try:
                os.fchmod(file.fileno(), OWNER_ONLY)
                file.truncate(0)  # a killed writer may have left a part
                yield draft, file
            finally:
                if _is_at(file, draft):
                    draft.unlink()
            return


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _charges(ledger: Ledger) -> int:
    return ledger.head.rows - len(ledger.accounts)


def _require_owner(ledger: Ledger, client: str) -> None:
    if strangers := [name for name in ledger.accounts if name != client]:
        raise InputError(
            f"expected {ledger.path} to be the ledger of {client!r} alone, got an account of {strangers[0]!r}; a new "
            "name would be a new budget: keep the old one, or name this client's own ledger."
        )


def _checked(values: Any) -> Mark | None:
    """The mark that a value of JSON is, or None."""
    if not isinstance(values, dict) or set(values) != set(Mark._fields):
        return None
    client, rows, charges, head = (values[name] for name in Mark._fields)
    if type(rows) is not int or type(charges) is not int or not 0 <= charges <= rows <= MOST_ROWS:
        return None
    if not isinstance(client, str) or not client or not client.isprintable():
        return None
    if not isinstance(head, str) or not re.fullmatch("[0-9a-f]{64}", head) or (rows == 0 and head != NO_HASH):
        return None
    return Mark(client, rows, charges, head)
