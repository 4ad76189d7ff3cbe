"""A site's store: all of a turn or nothing, one process after the other, and on disk when the turn ends."""

import os
import signal
import time
from pathlib import Path

import pytest

from fedspd.deploy.site.store import Approval, Intent, Store, Stored, StoredRun, create_store
from fedspd.errors import InputError
from tests.support.ledger.crashes import fork

RUN = StoredRun("run-1", "terms", "digest")
FIRST = Stored(1, 1, "asked", b"upload", b"total")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_store(tmp_path / "store.db", "north", "mark")
    return tmp_path / "store.db"


def test_what_a_turn_wrote_is_there_after_a_restart(path: Path) -> None:
    with Store(path) as store, store.turn():
        store.enter(RUN)
        store.keep("run-1", FIRST, b"state")
    with Store(path) as store:
        assert (store.run("run-1"), store.runs(), store.run("run-2")) == (RUN, [RUN], None)
        assert store.repeated("run-1", "asked") == store.reply("run-1", 1) == FIRST
        assert (store.repeated("run-2", "asked"), store.reply("run-1", 2)) == (None, None)
        assert (store.last("run-1"), store.last("run-2")) == ((1, 1), (0, 0))
        assert (store.state("run-1"), store.state("run-2")) == (b"state", None)


def test_the_last_state_replaces_the_one_before_and_replies_are_kept(path: Path) -> None:
    with Store(path) as store, store.turn():
        store.enter(RUN)
        store.keep("run-1", FIRST, b"state")
        store.keep("run-1", FIRST._replace(number=3, round=2, request="later"), b"next state")
        store.keep("run-1", FIRST._replace(number=4, round=0, request="moments"), None)
        assert store.state("run-1") == b"next state"
        assert store.last("run-1") == (4, 2)
        assert store.reply("run-1", 1) == FIRST


def test_a_turn_that_fails_leaves_nothing(path: Path) -> None:
    def fail(store: Store) -> None:
        with store.turn():
            store.enter(RUN)
            store.keep("run-1", FIRST, b"state")
            raise RuntimeError("in the middle")

    with Store(path) as store:
        with pytest.raises(RuntimeError, match="in the middle"):
            fail(store)
        assert (store.runs(), store.last("run-1"), store.state("run-1")) == ([], (0, 0), None)


def test_a_process_that_is_killed_in_its_turn_leaves_nothing(path: Path) -> None:
    with Store(path) as store, store.turn():
        store.enter(RUN)

    def work() -> None:
        with Store(path) as store, store.turn():
            store.keep("run-1", FIRST, b"state")
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(fork(work), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with Store(path) as store, store.turn():
        assert (store.runs(), store.last("run-1"), store.state("run-1")) == ([RUN], (0, 0), None)


def test_a_second_process_waits_for_its_turn(path: Path) -> None:
    listen, tell = os.pipe()

    def work() -> None:
        os.read(listen, 1)
        with Store(path) as store, store.turn():
            assert store.runs() == [RUN]
            store.keep("run-1", FIRST, None)

    child = fork(work)  # before this process opens the file: locks are not shared with a fork
    with Store(path) as store:
        with store.turn():
            os.write(tell, b"1")
            time.sleep(0.1)
            store.enter(RUN)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert store.last("run-1") == (1, 1)
    os.close(listen)
    os.close(tell)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("no database, but much longer than the name of one" * 10)
    with pytest.raises(InputError, match="expected a site's store"):
        Store(path)
    with pytest.raises(InputError, match="expected a place for the site's store"):
        create_store(tmp_path / "no folder" / "store.db", "north", "mark")


def test_a_store_is_never_made_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got no file; let `fedspd deploy join` make a new one"):
        Store(tmp_path / "store.db")
    assert list(tmp_path.iterdir()) == []


def test_a_second_store_is_not_made_in_the_place_of_the_first(path: Path) -> None:
    with pytest.raises(InputError, match="File exists"):
        create_store(path, "south", "mark")
    with Store(path) as store:
        assert store.site() == ("north", "mark")


def test_a_store_and_its_companions_are_the_owners_alone(path: Path) -> None:
    with Store(path) as store, store.turn():
        store.enter(RUN)
        found = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert found.keys() >= {"store.db", "store.db-wal", "store.db-shm", "store.db.lock"}
    assert set(found.values()) == {0o600}


def test_what_was_settled_stays_when_the_turn_fails_later(path: Path) -> None:
    def fail(store: Store) -> None:
        with store.turn():
            store.intend(Intent("run-1", 1, "fedspd", "hash", "session"))
            store.settle()
            store.enter(RUN)
            raise RuntimeError("in the middle")

    with Store(path) as store:
        with pytest.raises(RuntimeError, match="in the middle"):
            fail(store)
        assert store.intent() == Intent("run-1", 1, "fedspd", "hash", "session")
        assert store.runs() == []


def test_nobody_gets_a_turn_while_another_has_settled_in_the_middle_of_its_own(path: Path) -> None:
    listen, tell = os.pipe()

    def work() -> None:
        os.read(listen, 1)
        with Store(path) as store, store.turn():
            assert store.intent() is None, "the other turn was over"

    child = fork(work)
    with Store(path) as store:
        with store.turn():
            store.intend(Intent("run-1", 1, "fedspd", "hash", "session"))
            store.settle()
            os.write(tell, b"1")
            time.sleep(0.2)
            store.intend(None)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    os.close(listen)
    os.close(tell)


def test_what_a_person_was_asked_and_said_is_remembered(path: Path) -> None:
    with Store(path) as store, store.turn():
        store.approve(Approval("run-1", "terms", approved=False))
        store.approve(Approval("run-1", "terms", approved=True))
        assert store.approvals() == [Approval("run-1", "terms", approved=True)]
        assert (store.approval("run-1"), store.approval("run-2")) == (Approval("run-1", "terms", approved=True), None)
