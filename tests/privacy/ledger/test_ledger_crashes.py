"""Killed and concurrent processes: no release without its row, no budget spent twice."""

import os
import sqlite3
import time
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger, create_ledger, verify
from tests.support.ledger.crashes import (
    EVENT,
    FITS,
    Order,
    fork,
    kill_workers,
    prepare,
    violations,
)


def finish(children: list[int]) -> None:
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


@pytest.mark.slow
def test_killing_the_process_at_any_moment_never_loses_a_spent_row_nor_spends_a_budget_twice(tmp_path: Path) -> None:
    path, releases = tmp_path / "ledger", tmp_path / "releases"
    prepare(path)
    kill_workers(path, releases, "charge, then release", kills=200, seed=1)
    assert violations(path, releases) == []
    marks = releases.read_text().count("\n")
    rows = verify(path).charges
    assert 200 < marks <= rows


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("look, release, then charge", "released without a row"),
        ("release, then charge", "released beyond the budget"),
    ],
)
def test_releasing_before_the_row_is_written_or_the_budget_checked_is_caught(
    order: Order, expected: str, tmp_path: Path
) -> None:
    path, releases = tmp_path / "ledger", tmp_path / "releases"
    prepare(path)
    for attempt in range(10):
        kill_workers(path, releases, order, kills=20, seed=attempt)
        if any(violation.startswith(expected) for violation in violations(path, releases)):
            return
    pytest.fail("the check missed a planted bug")


def test_processes_that_share_a_ledger_spend_all_of_each_budget_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    prepare(path)
    some = dict.fromkeys(["client-0", "client-1"], EVENT)

    listen, tell = os.pipe()

    def spend() -> None:
        os.close(tell)
        with Ledger(path) as ledger:
            os.read(listen, 1)  # until the parent lets all of them start
            run, number = f"run-{os.getpid()}", 0
            while ledger.charge(run, number, "uploads", some).granted:
                number += 1
                time.sleep(0.001)  # let the others have their turn

    children = [fork(spend) for _ in range(3)]
    os.close(tell)
    finish(children)
    os.close(listen)
    with sqlite3.connect(path) as connection:
        counts = dict(connection.execute("SELECT client, COUNT(*) FROM charges GROUP BY client"))
        runs = connection.execute("SELECT COUNT(DISTINCT run) FROM charges").fetchone()[0]
    connection.close()
    assert counts == {client: FITS[client] for client in some}
    assert runs > 1


def test_of_several_processes_that_create_a_ledger_at_once_one_does_and_the_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"

    def create() -> None:
        try:
            create_ledger(path)
        except InputError as error:
            os._exit(3 if "a ledger is created once" in str(error) else 4)

    for _ in range(5):
        children = [fork(create) for _ in range(4)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(codes) == [0, 3, 3, 3]
        assert verify(path).rows == 0
        assert os.listdir(tmp_path) == ["ledger"], "complete, and nothing beside it"
        path.unlink()
