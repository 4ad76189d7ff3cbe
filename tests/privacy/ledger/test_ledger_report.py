"""Statements: what is spent is recomposed, what still fits is what charging would grant."""

import sqlite3
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    delta_at,
    from_dict,
    participations_that_fit,
    spent,
)
from fedspd.privacy.ledger import Budget, Ledger, describe, show, verify
from fedspd.privacy.ledger.chain import Head, Row, append
from fedspd.privacy.ledger.file import VERSION, connect
from fedspd.privacy.ledger.text import event_text
from tests.support.ledger.fresh import new_ledger

BUDGET = Budget(1.0, 1e-4)
ROUND, SCALING = FixedSize(2.7, 325, 50), Gaussian(30.0)


def test_a_statement_recomposes_all_events_and_counts_them_per_run(tmp_path: Path) -> None:
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET, "bob": BUDGET}, {"ann": {SCALING: 1, ROUND: 18}})
        ledger.charge("first", 0, "moments", {"ann": SCALING})
        for number in range(4):
            ledger.charge("first" if number < 3 else "second", number, "uploads", {"ann": ROUND})
        ann, bob = show(ledger)
        assert [(c.run, c.mechanism, c.event, c.times) for c in ann.charged] == [
            ("first", "moments", SCALING, 1),
            ("first", "uploads", ROUND, 3),
            ("second", "uploads", ROUND, 1),
        ]
        assert ann.epsilon == spent({SCALING: 1, ROUND: 4}, 1e-4).epsilon
        assert (ann.rule, ann.room[ROUND]) == ("plan", 14)
        assert ann.room == {event: ledger.room("ann", event) for event in (SCALING, ROUND)}
        assert (bob.epsilon, bob.charged, bob.room) == (0.0, (), {})
        assert from_dict(ann.as_dict()["charged"][1]["event"]) == ROUND


def test_as_many_rounds_of_a_given_kind_are_granted_as_the_statement_says(tmp_path: Path) -> None:
    other = FixedSize(4.0, 325, 50)
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET, "bob": BUDGET}, {"ann": {ROUND: 20}})
        ledger.charge("first", 0, "uploads", {"ann": ROUND, "bob": ROUND})
        said = {statement.client: statement.room[other] for statement in show(ledger, other)}
        for client, fits in said.items():
            grants = [len(ledger.charge(client, n, "uploads", {client: other}).granted) for n in range(fits + 3)]
            assert grants == [1] * fits + [0] * 3
        assert 0 < said["ann"] < said["bob"]
        assert {statement.rule for statement in show(ledger)} == {"filter"}


def test_a_statement_says_which_part_of_delta_the_plan_has_reserved(tmp_path: Path) -> None:
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET, "bob": BUDGET}, {"ann": {ROUND: 20}})
        ann, bob = show(ledger)
        assert ann.reserved_delta == ledger.accounts["ann"].terms.planned_delta == ann.as_dict()["reserved_delta"]
        assert 0 < ann.reserved_delta <= delta_at({ROUND: 20}, 1.0) < 1e-4
        assert bob.reserved_delta == 0


def test_a_file_in_which_a_client_is_charged_more_than_its_budget_allows_is_refused(tmp_path: Path) -> None:
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET})
        head, big = ledger.head, Gaussian(1.0)
    connection = connect(tmp_path / "ledger", 1.0)
    append(connection, Head(*head), [Row(2, "ann", "forged", 1, "uploads", event_text(big), "now")])
    connection.close()
    with pytest.raises(InputError, match="charges beyond the budget of 'ann'"):
        verify(tmp_path / "ledger")


def test_an_event_is_described_in_a_few_words() -> None:
    assert describe(Gaussian(3.0)) == "gaussian (noise multiplier 3.0, relation replace-one)"
    assert describe(Laplace(3.0, 0.1)) == "laplace (noise multiplier 3.0, jacobian 0.1, relation replace-one)"


def test_pure_releases_are_granted_up_to_the_budget_and_recomposed_from_the_file(tmp_path: Path) -> None:
    quarter = Laplace(5.0, 0.05)
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET})
        ledger.charge("first", 0, "moments", {"ann": Laplace(2.0)})
        grants = [len(ledger.charge("first", number, "uploads", {"ann": quarter}).granted) for number in range(1, 4)]
        assert grants == [1, 1, 0]
    verify(tmp_path / "ledger")
    with Ledger(tmp_path / "ledger") as ledger:
        (ann,) = show(ledger)
    assert ann.epsilon == spent({Laplace(2.0): 1, quarter: 2}, 1e-4).epsilon < 1.0
    assert [charged.event for charged in ann.charged] == [Laplace(2.0), quarter]


def test_every_row_has_a_sequence_number_a_utc_time_and_the_event_as_canonical_json(tmp_path: Path) -> None:
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"ann": BUDGET})
        ledger.charge("first", 1, "uploads", {"ann": SCALING})
    connection = sqlite3.connect(tmp_path / "ledger")
    ((sequence, text, time),) = connection.execute("SELECT sequence, event, time FROM charges")
    connection.close()
    assert (sequence, text) == (2, '{"kind":"gaussian","noise_multiplier":30.0,"relation":"replace-one"}')
    assert time.endswith("+00:00")


@pytest.mark.parametrize(
    ("event", "fits"),
    [(FixedSize(100.0, 325, 50), 32003), (Gaussian(900.0), 61771)],
)
def test_the_filter_decides_as_it_did_when_this_version_of_the_format_was_written(event: Event, fits: int) -> None:
    # A filter holds if all releases passed the same one: change it, and ledgers begun before must not go on.
    # Then raise VERSION and put the new counts here.
    assert VERSION == 1
    assert participations_that_fit(event, {}, 1.0, 1e-4, adaptive=True) == pytest.approx(fits, abs=3)
