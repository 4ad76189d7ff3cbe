"""The file: whatever was damaged, edited, cut off or is no ledger is refused."""

import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Budget, Ledger, verify
from fedspd.privacy.ledger.file import SCHEMA
from tests.support.ledger.fresh import new_ledger

ROUND = Gaussian(60.0)
CLIENTS = ("ann", "bob", "eve")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter(dict.fromkeys(CLIENTS, Budget(1.0, 1e-5)))
        for number in range(10):
            ledger.charge("first", number, "uploads", dict.fromkeys(CLIENTS, ROUND))
    return tmp_path / "ledger"


def content(path: Path) -> Sequence[object]:
    connection = sqlite3.connect(path)
    found = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("clients", "charges", "head")]
    connection.close()
    return found


def edit(path: Path, *statements: str) -> None:
    """Change rows behind the ledger's back: drop the triggers, edit, put them back."""
    triggers = {name: sql for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")}
    connection = sqlite3.connect(path)
    for statement in (*(f"DROP TRIGGER {name}" for name in triggers), *statements, *triggers.values()):
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_an_untouched_file_is_accepted(path: Path) -> None:
    assert verify(path)[:3] == (33, 3, 30)
    assert Ledger(path).head == (33, verify(path).head)


@pytest.mark.parametrize("table", ["clients", "charges"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET time = 'never'", "DELETE FROM {}"])
def test_rows_can_only_be_appended(path: Path, table: str, statement: str) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement.format(table))
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ("UPDATE charges SET event = replace(event, '60.0', '90.0') WHERE sequence = 20",),
        ("UPDATE charges SET round = 77 WHERE sequence = 33",),
        ("UPDATE charges SET client = 'bob', round = 99 WHERE sequence = 4",),
        ("UPDATE charges SET time = CAST(time AS BLOB) WHERE sequence = 9",),
        ("UPDATE clients SET terms = replace(terms, '1e-05', '1e-02')",),
        ("UPDATE clients SET client = 'mallory' WHERE client = 'eve'",),
        ("DELETE FROM charges WHERE sequence = 33",),
        ("DELETE FROM charges WHERE sequence > 30", "UPDATE head SET rows = 30"),
        ("DELETE FROM charges WHERE sequence = 12",),
        ("DELETE FROM charges",),
        ("DELETE FROM head",),
        ("UPDATE head SET rows = 34",),
        ("UPDATE head SET hash = 'no'",),
        ("INSERT INTO charges SELECT 34, client, run, 99, mechanism, event, time, hash FROM charges LIMIT 1",),
        (
            "UPDATE charges SET sequence = 100 WHERE sequence = 10",
            "UPDATE charges SET sequence = 10 WHERE sequence = 11",
            "UPDATE charges SET sequence = 11 WHERE sequence = 100",
        ),
    ],
)
def test_a_row_that_was_changed_moved_inserted_or_removed_is_refused(path: Path, statements: tuple[str, ...]) -> None:
    edit(path, *statements)
    with pytest.raises(InputError, match="expected an intact ledger"):
        verify(path)
    with pytest.raises(InputError, match="expected an intact ledger"):
        Ledger(path)


def test_an_edit_under_an_open_ledger_is_refused_at_the_next_charge(path: Path) -> None:
    with Ledger(path) as ledger:
        edit(path, "DELETE FROM charges WHERE sequence > 30", "UPDATE head SET rows = 30")
        with pytest.raises(InputError, match="expected an intact ledger"):
            ledger.charge("second", 1, "uploads", {"ann": ROUND})


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER charges_no_delete",
        "CREATE TABLE more (one)",
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 0",
        "PRAGMA journal_mode = DELETE",
    ],
)
def test_a_file_whose_tables_or_triggers_were_changed_is_refused(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match="expected an intact ledger"):
        verify(path)


def test_a_flipped_bit_is_refused_or_lies_where_nothing_is_stored(path: Path) -> None:
    original, before = path.read_bytes(), content(path)
    rng, refused = random.Random(3), 0
    for _ in range(300):
        damaged = bytearray(original)
        damaged[rng.randrange(len(original))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            verify(path)
        except InputError:
            refused += 1
        else:
            assert content(path) == before
    assert refused > 150


def test_a_file_whose_index_of_charged_rounds_was_changed_is_refused(path: Path) -> None:
    original = path.read_bytes()
    leaves = [at for at in range(0, len(original), 1024) if original[at] == 0x0A]  # of an index
    keys = [at for page in leaves if (at := original.find(b"uploads", page, page + 1024)) >= 0]
    assert keys
    for at in keys:
        path.write_bytes(original[:at] + b"unloads" + original[at + 7 :])
        with pytest.raises(InputError, match="expected an intact ledger"):
            verify(path)


def test_a_truncated_file_is_refused(path: Path) -> None:
    original = path.read_bytes()
    for size in (0, 1, 100, 4096, len(original) // 2, len(original) - 4096, len(original) - 1):
        path.write_bytes(original[:size])
        with pytest.raises(InputError, match="expected an intact ledger"):
            Ledger(path)


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("dear diary, " * 500)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE charges (one)")
    connection.commit()
    connection.close()
    for other in (text, database):
        before = other.read_bytes()
        with pytest.raises(InputError, match="expected an intact ledger"):
            Ledger(other)
        assert other.read_bytes() == before


def test_a_file_older_than_a_noted_head_is_refused(path: Path) -> None:
    older, noted = path.read_bytes(), verify(path).head
    with Ledger(path) as ledger:
        ledger.charge("second", 1, "uploads", {"ann": ROUND})
    newer = verify(path, noted).head
    path.write_bytes(older)
    assert verify(path, noted).head == noted
    with pytest.raises(InputError, match="older than the note"):
        verify(path, newer)
