"""A site's budget cannot be lost: a missing, older, renamed or foreign ledger is refused, and no charge pays twice."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.deploy.protocol.messages import VERSION, Close, Closed, Enter, Hello, Measure, Refused, Reply
from fedspd.deploy.setup.join import join
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.respond import respond
from fedspd.deploy.site.spending import Session, Spending
from fedspd.deploy.site.store import Store
from fedspd.engine import release as door
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger
from tests.deploy.site.test_client import die, in_a_process_that_is_killed
from tests.support.deploy.sites import Federation, ask, federation, measure, play

SEE_LOG = Refused("the site could not answer; its log says why.", final=False)


def home(made: Federation) -> Path:
    return made.sites[0].parent


def away(made: Federation, name: str) -> None:
    """Take a database and what SQLite keeps beside it away."""
    for file in home(made).glob(f"{name}*"):
        file.unlink()


def kept(made: Federation, name: str) -> Callable[[], None]:
    """Copy a database; returns what puts the copy back."""
    copies = {file.name: file.read_bytes() for file in home(made).glob(f"{name}*")}

    def put_back() -> None:
        away(made, name)
        for each, content in copies.items():
            (home(made) / each).write_bytes(content)

    return put_back


def again(made: Federation) -> list[str]:
    """Join again, as somebody would who wonders why the site does not start."""
    said: list[str] = []
    join(made.sites[0], said.append)
    return said


def test_a_lost_ledger_is_refused_by_every_request_and_not_made_anew(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    play(made, terms)
    away(made, "ledger.db")
    for request in (Hello(VERSION, "nonce"), ask(terms, round=2, acknowledged=1), Close(terms.digest)):
        assert made.tell(0, request) == SEE_LOG
    assert not (home(made) / "ledger.db").exists()
    assert "got no file; restore it from a backup: a new one would be a second budget" in made.log()
    with pytest.raises(InputError, match=r"store\.db remembers one: the ledger was lost"):
        again(made)


def test_a_ledger_that_was_renamed_away_and_replaced_by_an_empty_one_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path)
    play(made, made.enter())
    empty = federation(tmp_path / "other")
    away(made, "ledger.db")
    shutil.copy(empty.sites[0].parent / "ledger.db", home(made) / "ledger.db")
    assert made.tell(0, Hello(VERSION, "nonce")) == SEE_LOG
    assert "the ledger is older than its mark or another one" in made.log()


def test_an_older_copy_of_the_ledger_is_refused_and_the_newest_is_not(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    play(made, terms)
    old = kept(made, "ledger.db")
    play(made, terms, round=2, acknowledged=1)
    newest = kept(made, "ledger.db")
    old()
    assert made.tell(0, ask(terms, round=3, acknowledged=2)) == SEE_LOG
    newest()
    assert play(made, terms, round=3, acknowledged=2).charges == 3


def test_another_name_is_no_new_budget(tmp_path: Path) -> None:
    made = federation(tmp_path)
    play(made, made.enter())
    text = made.sites[0].read_text()
    made.sites[0].write_text(text.replace('name = "site-0"', 'name = "site-9"'))
    assert made.tell(0, Hello(VERSION, "nonce")) == SEE_LOG
    assert "a new name would be a new budget" in made.log()
    away(made, "store.db")
    with pytest.raises(InputError, match="got an account of 'site-0'; a new name would be a new budget"):
        again(made)


def test_a_lost_store_and_ledger_are_remembered_by_the_witness(tmp_path: Path) -> None:
    witness = tmp_path / "another disk" / "witness"
    witness.parent.mkdir()
    made = federation(tmp_path / "site", site={"site.witness": str(witness)})
    play(made, made.enter())
    assert (witness.stat().st_mode & 0o777) == 0o600
    away(made, "ledger.db")
    away(made, "store.db")
    with pytest.raises(InputError, match="witness remembers one: the ledger was lost"):
        again(made)


def test_an_older_ledger_and_store_together_are_refused_by_the_witness(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    made = federation(tmp_path / "site", site={"site.witness": str(witness)})
    terms = made.enter()
    play(made, terms)
    old = [kept(made, name) for name in ("ledger.db", "store.db")]
    play(made, terms, round=2, acknowledged=1)
    for put_back in old:
        put_back()
    assert made.tell(0, ask(terms, round=2, acknowledged=1)) == SEE_LOG
    assert "the ledger is older than its mark or another one" in made.log()


def test_another_budget_than_the_account_has_is_refused_before_any_run_is_entered(tmp_path: Path) -> None:
    made = federation(tmp_path)
    play(made, made.enter())
    made.sites[0].write_text(made.sites[0].read_text().replace("epsilon = 1.0", "epsilon = 4.0"))
    for request in (Hello(VERSION, "nonce"), Enter(made.terms(run="run-2").text)):
        assert made.tell(0, request) == SEE_LOG
    assert "a budget that could be raised would promise nothing" in made.log()


def test_a_witness_that_is_not_there_is_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    made = federation(tmp_path / "site", site={"site.witness": str(witness)})
    terms = made.enter()
    witness.unlink()
    assert made.tell(0, ask(terms)) == SEE_LOG
    assert made.charges() == 0


def test_without_its_store_a_site_keeps_its_budget_and_forgets_its_runs(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"budget.epsilon": 2.0})
    terms = made.enter()
    play(made, terms)
    away(made, "store.db")
    assert made.tell(0, ask(terms, round=2)) == SEE_LOG
    assert any("store: store.db made" in line for line in again(made))
    assert made.tell(0, ask(terms, round=2)).reason == "the site has not entered a run under these terms."
    refusal = made.tell(0, Enter(terms.text))
    assert "was charged here before: the store no longer knows it" in refusal.reason
    play(made, made.enter(run="run-2"))
    assert made.charges() == 2


def test_joining_twice_changes_nothing(tmp_path: Path) -> None:
    made = federation(tmp_path)
    play(made, made.enter())
    before = (home(made) / "site.key").read_bytes()
    assert [line.split(",")[0] for line in again(made)] == [
        "key: site.key is there", "ledger: ledger.db is there", "store: store.db is there",
    ]  # fmt: skip
    assert (made.charges(), (home(made) / "site.key").read_bytes()) == (1, before)


def test_every_file_that_a_site_makes_is_its_owners_alone(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"site.witness": "witness"})
    os.umask(0o022)
    play(made, made.enter())
    ours = ("ledger.db", "store.db", "store.db.lock", "site.key", "site.log", "witness")
    assert {name: (home(made) / name).stat().st_mode & 0o077 for name in ours} == dict.fromkeys(ours, 0)


def crashed(made: Federation, request: Any, method: str = "keep") -> None:
    """A process that is killed in a request, at some method of its store."""

    def crash() -> None:
        setattr(Store, method, die)  # in the child alone
        with made.client() as client:
            client.answer(request)

    in_a_process_that_is_killed(crash)


def test_a_charge_whose_reply_never_left_is_used_once_and_then_never_again(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    for _ in range(3):
        crashed(made, ask(terms))
        assert made.charges() == 1
    assert [play(made, terms, round=round, acknowledged=round - 1).charges for round in (1, 2, 3)] == [1, 2, 3]
    assert made.charges() == 3
    assert made.tell(0, ask(terms, round=3, acknowledged=2, weights=0.5)).reason.startswith("the site has played all")


def test_a_lost_release_of_moments_is_made_up_for_by_moments_alone(tmp_path: Path) -> None:
    made = federation(tmp_path, data__scaling="noisy-moments")
    terms = made.enter()
    crashed(made, Measure(terms.digest))
    assert made.charges() == 1
    assert play(made, terms).charges == 2, "a round is another event and is charged"
    assert made.charges() == 2
    assert measure(made, terms).charges == 3, "and now more than that one charge was written since: it is gone"


def test_a_charge_of_one_run_is_not_used_by_another(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"budget.epsilon": 3.0})
    crashed(made, ask(made.enter()))
    other = made.enter(run="run-2")
    assert play(made, other).charges == 1
    assert made.charges() == 2


def test_a_site_that_was_ended_and_started_again_uses_no_charge_twice(tmp_path: Path) -> None:
    """Whatever was copied back meanwhile: only the process in which a charge was made may use it once more."""
    made = federation(tmp_path)
    terms = made.enter()
    crashed(made, ask(terms))
    session = Session()
    answer = respond(made.sites[0], "train.play", ask(terms), Records(), session).content
    assert isinstance(answer, Reply)
    assert (answer.charges, made.charges()) == (2, 2)


def test_a_store_that_was_put_back_frees_no_charge_whose_reply_has_left(tmp_path: Path) -> None:
    """A copy that was made between charge and reply says that the reply is still to come; the witness cannot tell."""
    made = federation(tmp_path / "site", site={"site.witness": str(tmp_path / "witness")})
    terms = made.enter()
    crashed(made, ask(terms))
    copies = [kept(made, name) for name in ("store.db", "ledger.db")]
    first = play(made, terms)
    for put_back in copies:
        put_back()
    second = made.tell(0, ask(terms, weights=0.5))
    assert isinstance(second, Reply)
    assert (first.charges, second.charges, made.charges()) == (1, 2, 2)


def test_two_stores_on_one_ledger_never_share_a_charge(tmp_path: Path) -> None:
    made = federation(tmp_path)
    path = home(made) / "other.toml"
    path.write_text(made.sites[0].read_text().replace("[site]", '[site]\nstore = "other.db"'))
    join(path, lambda line: None)
    terms = made.enter()

    def crash() -> None:
        Spending._write = die  # in the child alone: announced, and gone before the ledger was written
        with made.client() as client:
            client.answer(ask(terms))

    in_a_process_that_is_killed(crash)
    for request, kind in ((Enter(terms.text), "query.enter"), (ask(terms), "train.play")):
        other = respond(path, kind, request, Records()).content
    assert isinstance(other, Reply)
    mine = play(made, terms, weights=0.5)
    assert (other.charges, mine.charges, made.charges()) == (1, 2, 2)


def test_a_witness_that_cannot_be_written_is_found_before_anything_is_charged(tmp_path: Path) -> None:
    witness = tmp_path / "disk" / "witness"
    witness.parent.mkdir()
    made = federation(tmp_path / "site", site={"site.witness": str(witness)})
    terms = made.enter()
    (witness.parent / ".witness.draft").mkdir()  # as if the disk were full or read-only
    for _ in range(2):
        assert made.tell(0, ask(terms)) == SEE_LOG
    assert made.charges() == 0


def test_a_witness_that_is_a_link_to_another_disk_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "disk" / "mark", tmp_path / "link"
    real.parent.mkdir()
    link.symlink_to(real)
    made = federation(tmp_path / "site", site={"site.witness": str(link)})
    play(made, made.enter())
    assert link.is_symlink()
    assert '"charges":1' in real.read_text()


def test_an_announced_charge_that_was_never_written_costs_and_gives_nothing(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()

    def crash() -> None:
        Spending._write = die  # in the child alone
        with made.client() as client:
            client.answer(ask(terms))

    in_a_process_that_is_killed(crash)
    assert made.charges() == 0
    assert (play(made, terms).charges, made.charges()) == (1, 1)


def test_an_old_store_beside_a_newer_ledger_frees_no_charge(tmp_path: Path) -> None:
    """A backup that was taken in the middle of a turn has an announcement in it."""
    made = federation(tmp_path, run__rounds=5, site={"policy.most_rounds": 5})
    terms = made.enter()
    crashed(made, ask(terms))
    put_back = kept(made, "store.db")
    for round in (1, 2):
        play(made, terms, round=round, acknowledged=round - 1)
    put_back()
    answer = made.tell(0, ask(terms, round=3))
    assert isinstance(answer, Reply)
    assert (answer.charges, made.charges()) == (3, 3)


FAILURES: dict[str, dict[str, Any]] = {
    "a bias above the row norm": {"data__bias": 1.5},
    "a bias that is no positive number": {"data__bias": -0.1},
}


@pytest.mark.parametrize("what", FAILURES)
def test_settings_that_would_fail_after_the_charge_are_refused_when_the_run_is_entered(
    what: str, tmp_path: Path
) -> None:
    made = federation(tmp_path)
    terms = made.terms(**FAILURES[what])
    refusal = made.tell(0, Enter(terms.text))
    assert "data.bias must be" in refusal.reason
    assert made.charges() == 0


def test_a_missing_library_is_found_before_anything_is_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = federation(tmp_path)

    def missing(*_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'opendp'")

    monkeypatch.setattr(door, "exact_gaussian", missing)
    answer = made.tell(0, Enter(made.terms().text))
    assert answer == SEE_LOG
    assert made.charges() == 0
    with made.store() as store:
        assert store.runs() == []


def test_a_table_that_became_unreadable_costs_nothing(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    path = home(made) / "records.csv"
    whole = path.read_bytes()
    for content in (b"", b"age,income,color,bought\n", whole[: len(whole) // 2] + b'"', b"\xff\xfe"):
        path.write_bytes(content)
        assert isinstance(made.tell(0, ask(terms)), Refused)
    path.unlink()
    assert made.tell(0, ask(terms)) == SEE_LOG
    assert made.charges() == 0
    path.write_bytes(whole)
    assert play(made, terms).charges == 1


def test_a_release_without_an_event_is_refused_where_there_is_a_budget(tmp_path: Path) -> None:
    """Whatever a later method may plan: nothing leaves a protected site that its ledger cannot be charged for."""
    made = federation(tmp_path)
    terms = made.enter()
    with made.client() as client, client.store.turn():
        client.spending = Spending(client.site, client.store, client.session, client.log)
        with pytest.raises(InputError, match="has no event that a budget could be charged"):
            client._charge(client._entered(terms.digest), None, "fedspd")
        client.spending.close()
    assert made.charges() == 0


def test_a_reserved_delta_is_not_called_a_spent_budget(tmp_path: Path) -> None:
    """A first plan with subsampling keeps all of delta for itself: a later run of another kind is told so."""
    owner = {"budget.relation": "zero-out", "policy.min_batch": 10}
    made = federation(tmp_path, 1, 240, site=owner, algorithm__sampling="poisson", run__rounds=6)
    play(made, made.enter(run="first", algorithm__batch_size=30))
    refusal = made.tell(0, Enter(made.terms(run="second", algorithm__batch_size=20).text))
    assert isinstance(refusal, Refused)
    assert "reserved for the plan of its first run" in refusal.reason


def test_what_a_site_says_it_was_charged_is_what_its_ledger_says(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    crashed(made, ask(terms))
    play(made, terms)
    closed = made.tell(0, Close(terms.digest))
    assert isinstance(closed, Closed)
    with Ledger(home(made) / "ledger.db") as ledger:
        assert closed.charges == sum(charged.times for charged in ledger.charges()) == 1


def test_records_are_read_once_as_long_as_the_file_stays_the_same(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms, records = made.enter(), Records()
    respond(made.sites[0], "train.play", ask(terms), records)
    table, features = records._table, records._finished
    assert table is not None
    assert features is not None
    respond(made.sites[0], "train.play", ask(terms, round=2, acknowledged=1), records)
    assert records._table is table
    assert records._finished is features
    path = home(made) / "records.csv"
    path.write_text(path.read_text().replace("red", "blue", 1))
    answer = respond(made.sites[0], "train.play", ask(terms, round=3, acknowledged=2), records).content
    assert "records have changed" in answer.reason
    assert records._table is not table


def test_the_features_that_are_kept_are_those_of_the_scaling_that_is_asked_for(tmp_path: Path) -> None:
    from fedspd.data import finish

    made, records = federation(tmp_path), Records()
    table = records.table(home(made) / "records.csv", made.schema)
    for mean, deviation in ((0.0, 1.0), (0.1, 1.0), (0.1, 0.5), (0.0, 1.0)):
        scales = np.full(5, mean), np.full(5, deviation)
        np.testing.assert_array_equal(
            records.features(table, *scales, 0.25, 1.0), finish(table.features, *scales, 0.25, 1.0)
        )


@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_two_processes_at_one_site_take_turns_and_share_one_number_of_charges(number: int, tmp_path: Path) -> None:
    """Whatever is killed in between: the second process sees what the first has left, and pays for itself."""
    made = federation(tmp_path, run__rounds=5, site={"policy.most_rounds": 5})
    terms = made.enter()
    with made.client() as one:
        first = one.answer(ask(terms))
        crashed(made, ask(terms, round=2, acknowledged=1))
        second = one.answer(ask(terms, round=2, acknowledged=1))
    assert (first.charges, second.charges, made.charges()) == (1, 2, 2)
