"""Marks: a ledger that was lost, rolled back, forged or renamed is known by what was remembered of it elsewhere."""

import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Budget, Ledger, Mark, mark_of, read_mark, require_mark, verify, write_mark
from fedspd.privacy.ledger.file import NO_HASH
from fedspd.privacy.ledger.mark import from_text, to_text
from tests.support.ledger.crashes import fork
from tests.support.ledger.fresh import new_ledger

BUDGET, ROUND = Budget(1.0, 1e-5), Gaussian(60.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with five rows, of which four are charges."""
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET})
    charge(tmp_path / "ledger", "first", 4)
    return tmp_path / "ledger"


def charge(path: Path, run: str, times: int) -> Mark:
    with Ledger(path) as ledger:
        for number in range(times):
            assert ledger.charge(run, number, "uploads", {"ann": ROUND}).granted
        return mark_of(ledger, "ann")


def require(path: Path, mark: Mark) -> None:
    with Ledger(path) as ledger:
        require_mark(ledger, mark)


def mark(rows: int, client: str = "ann", digit: str = "a") -> Mark:
    return Mark(client, rows, max(0, rows - 1), digit * 64 if rows else NO_HASH)


def test_a_mark_has_the_clients_name_the_rows_the_charges_and_the_head(path: Path) -> None:
    with Ledger(path) as ledger:
        assert mark_of(ledger, "ann") == ("ann", 5, 4, verify(path).head)


def test_a_ledger_has_its_mark_and_keeps_it_when_it_goes_on(path: Path) -> None:
    noted = charge(path, "second", 2)
    require(path, noted)
    charge(path, "third", 3)
    require(path, noted)
    require(path, Mark("ann", 0, 0, NO_HASH))


def test_an_empty_ledger_has_the_empty_mark_and_no_other(path: Path, tmp_path: Path) -> None:
    with new_ledger(tmp_path / "new") as ledger:
        empty = mark_of(ledger, "ann")
        assert empty == ("ann", 0, 0, NO_HASH)
        require_mark(ledger, empty)
        with Ledger(path) as old, pytest.raises(InputError, match="got no such row and 0 charges"):
            require_mark(ledger, mark_of(old, "ann"))


def test_a_ledger_that_was_lost_and_begun_anew_is_refused_however_much_it_is_charged(
    path: Path, tmp_path: Path
) -> None:
    noted = charge(path, "second", 1)
    with new_ledger(tmp_path / "new") as ledger:
        ledger.enter({"ann": BUDGET})
    charge(tmp_path / "new", "first", 20)
    with pytest.raises(InputError, match=r"older than its mark or another one: restore"):
        require(tmp_path / "new", noted)


def test_an_old_copy_is_refused_also_when_it_was_charged_beyond_the_mark(path: Path) -> None:
    older = path.read_bytes()
    noted = charge(path, "second", 2)
    path.write_bytes(older)
    with pytest.raises(InputError, match=r"expected row 7 .*got no such row and 4 charges"):
        require(path, noted)
    ahead = charge(path, "third", 5)
    assert ahead.rows > noted.rows, "to compare the numbers of rows would not do"
    assert ahead.charges > noted.charges
    with pytest.raises(InputError, match=r"expected row 7 with hash .*got hash .* there and 9 charges"):
        require(path, noted)


def test_the_marked_hash_must_be_at_the_marked_row(path: Path) -> None:
    with Ledger(path) as ledger:
        noted = mark_of(ledger, "ann")
        for other in (noted._replace(rows=4, charges=3), noted._replace(hash="f" * 64), noted._replace(charges=5)):
            with pytest.raises(InputError, match="older than its mark"):
                require_mark(ledger, other)


def test_a_mark_sees_what_another_process_wrote_since_the_ledger_was_opened(path: Path) -> None:
    with Ledger(path) as ledger:
        noted = charge(path, "second", 1)
        require_mark(ledger, noted)


def test_a_ledger_with_an_account_of_another_name_is_refused(path: Path) -> None:
    with Ledger(path) as ledger:
        noted = mark_of(ledger, "ann")
        with pytest.raises(InputError, match=r"expected .* ledger of 'bob' alone, got an account of 'ann'"):
            mark_of(ledger, "bob")
        with pytest.raises(InputError, match="a new name would be a new budget"):
            require_mark(ledger, noted._replace(client="bob"))
        ledger.enter({"bob": BUDGET})
        with pytest.raises(InputError, match="got an account of 'bob'"):
            require_mark(ledger, noted)


def test_a_mark_is_one_line_of_json_and_comes_back(path: Path, tmp_path: Path) -> None:
    with Ledger(path) as ledger:
        noted = mark_of(ledger, "ann")
    assert "\n" not in to_text(noted)
    assert json.loads(to_text(noted)) == {"client": "ann", "rows": 5, "charges": 4, "hash": noted.hash}
    assert from_text(to_text(noted)) == noted
    write_mark(tmp_path / "mark", noted)
    assert read_mark(tmp_path / "mark") == noted
    assert (tmp_path / "mark").read_text() == f"{to_text(noted)}\n"


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "3", "[]", "{}", "no mark", "[" * 100_000, '{"rows":1}', "1" * 5000,
        to_text(mark(5))[:-1],
        to_text(mark(5)).replace('"rows":5', '"rows":true'),
        to_text(mark(5)).replace('"rows":5', '"rows":5.0'),
        to_text(mark(5)).replace('"rows":5', '"rows":-5'),
        to_text(mark(5)).replace('"rows":5', '"rows":9223372036854775808'),
        to_text(mark(5)).replace('"charges":4', '"charges":6'),
        to_text(mark(5)).replace("aaa", "AAA"),
        to_text(mark(5)).replace("aaa", ""),
        to_text(mark(5)).replace("ann", ""),
        to_text(mark(5)).replace("ann", "\\ud800"),
        to_text(mark(5)).replace('"ann"', "7"),
        to_text(mark(5)).replace("{", '{"more":1,'),
        to_text(mark(0)).replace("0" * 64, "a" * 64),
    ],
)  # fmt: skip
def test_what_is_no_mark_is_refused_and_kept(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a mark of a ledger"):
        from_text(text)
    (tmp_path / "mark").write_text(text)
    for use in (read_mark, lambda path: write_mark(path, mark(9))):
        with pytest.raises(InputError, match="mark: expected a mark of a ledger"):
            use(tmp_path / "mark")
    assert (tmp_path / "mark").read_text() == text
    assert os.listdir(tmp_path) == ["mark"]


def test_a_file_that_cannot_be_read_or_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "bytes"):
        with pytest.raises(InputError, match=r"expected a mark at .*restore it from a backup"):
            read_mark(path)
    with pytest.raises(InputError, match=r"expected a place for the mark .*name another"):
        write_mark(tmp_path / "no folder" / "mark", mark(1))
    with pytest.raises(InputError, match="expected a mark of a ledger"):
        write_mark(tmp_path / "mark", Mark("ann", 1, 2, "no hash"))
    assert os.listdir(tmp_path) == ["bytes"]


def test_a_mark_never_takes_the_place_of_one_with_more_rows(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    for rows, kept in [(0, 0), (3, 3), (5, 5), (4, 5), (0, 5), (5, 5), (6, 6)]:
        write_mark(path, mark(rows))
        assert read_mark(path) == mark(kept)
        assert os.listdir(tmp_path) == ["mark"]


def test_a_mark_of_another_client_or_another_ledger_is_refused_and_the_old_one_kept(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    write_mark(path, mark(5))
    for other in (mark(9, "bob"), mark(1, "bob"), mark(5, digit="b")):
        with pytest.raises(InputError, match="a mark belongs to one ledger of one client"):
            write_mark(path, other)
    assert read_mark(path) == mark(5)
    assert os.listdir(tmp_path) == ["mark"]


def test_processes_that_write_marks_at_once_leave_the_latest_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mark"

    def write(first: int) -> None:
        for rows in range(first, 160, 4):
            write_mark(path, mark(rows))
            assert read_mark(path).rows >= rows

    children = [fork(partial(write, first)) for first in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert read_mark(path) == mark(159)
    assert os.listdir(tmp_path) == ["mark"]


def test_what_a_killed_writer_left_behind_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".mark.draft").write_text(to_text(mark(77)) * 3)
    write_mark(tmp_path / "mark", mark(5))
    assert read_mark(tmp_path / "mark") == mark(5)
    assert os.listdir(tmp_path) == ["mark"]


@pytest.mark.parametrize("mask", [0o000, 0o777])
def test_a_mark_is_for_its_owner_alone_whatever_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_mark(tmp_path / "mark", mark(1))
        write_mark(tmp_path / "mark", mark(2))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "mark").stat().st_mode) == 0o600
