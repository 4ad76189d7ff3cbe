"""Charging: written before the release, never beyond a budget, never twice."""

import math
import os
import sqlite3
import time
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Event, FixedSize, Gaussian, Poisson, participations_that_fit, spent
from fedspd.privacy.ledger import Budget, Ledger, verify
from tests.support.ledger.crashes import fork
from tests.support.ledger.fresh import new_ledger

BUDGET = Budget(1.0, 1e-4)
ROUND = FixedSize(2.607, 325, 50)


def opened(folder: Path, plan: dict[Event, int] | None = None, clients: tuple[str, ...] = ("a", "b")) -> Ledger:
    ledger = new_ledger(folder / "ledger")
    ledger.enter(dict.fromkeys(clients, BUDGET), dict.fromkeys(clients, plan) if plan else None)
    return ledger


def stored(path: Path) -> list[tuple[str, str, int, str]]:
    """What another process sees."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT client, run, round, mechanism FROM charges ORDER BY sequence").fetchall()
    connection.close()
    return found


def test_the_rows_of_granted_clients_are_on_disk_on_return_and_nothing_is_written_for_the_others(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as ledger:
        big: Event = Gaussian(1.0)
        decision = ledger.charge("first", 1, "uploads", {"a": ROUND, "b": big})
        assert decision.granted == ("a",)
        assert decision.refused == {"b": "budget spent"}
        assert stored(ledger.path) == [("a", "first", 1, "uploads")]


def test_no_client_is_granted_more_than_its_budget_allows(tmp_path: Path) -> None:
    with opened(tmp_path, {ROUND: 20}) as ledger:
        grants = [ledger.charge("first", number, "uploads", {"a": ROUND}).granted for number in range(25)]
        assert grants == [("a",)] * 20 + [()] * 5
        assert ledger.affordable({"a": ROUND, "b": ROUND}) == ("b",)


def test_a_budget_holds_across_runs_and_reopening(tmp_path: Path) -> None:
    with opened(tmp_path, {ROUND: 20}) as ledger:
        for number in range(15):
            ledger.charge("first", number, "uploads", {"a": ROUND})
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"a": BUDGET})
        grants = [len(ledger.charge("second", number, "uploads", {"a": ROUND}).granted) for number in range(10)]
    assert sum(grants) == 5


def test_budgets_are_recomposed_and_epsilons_never_added(tmp_path: Path) -> None:
    half = Gaussian(3.1857 * math.sqrt(2) * 1.001)  # epsilon 0.676 each, 1.0 together (an independent prototype)
    assert spent({half: 1}, 1e-4).epsilon == pytest.approx(0.676, abs=1e-3)
    with opened(tmp_path, {half: 1}) as ledger:
        assert ledger.charge("first", 1, "uploads", {"a": half}).granted
        assert ledger.charge("second", 1, "uploads", {"a": half}).granted
        assert not ledger.charge("third", 1, "uploads", {"a": Gaussian(100.0)}).granted


def test_a_client_is_granted_the_same_run_round_and_mechanism_once(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        events: dict[str, Event] = {"a": ROUND}
        assert ledger.charge("first", 1, "uploads", events).granted
        assert ledger.charge("first", 1, "uploads", events).refused == {"a": "already charged"}
        assert ledger.charge("first", 1, "uploads", {"a": Gaussian(900.0)}).refused == {"a": "already charged"}
        for key in [("first", 2, "uploads"), ("second", 1, "uploads"), ("first", 1, "moments")]:
            assert ledger.charge(*key, events).granted


def test_two_open_ledgers_see_each_others_charges(tmp_path: Path) -> None:
    with opened(tmp_path, {ROUND: 20}) as one, Ledger(one.path) as two:
        grants = sum(
            len(each.charge(str(id(each)), n, "m", {"a": ROUND}).granted) for n in range(15) for each in (one, two)
        )
        assert grants == 20
        assert one.charge(str(id(two)), 0, "m", {"b": ROUND, "a": ROUND}).refused == {"a": "already charged"}
        two.catch_up()
        assert one.head == two.head


def test_a_budget_never_changes_the_same_one_again_is_fine_another_one_is_refused_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as ledger:
        before = ledger.head
        ledger.enter({"a": BUDGET})
        for other in (Budget(2.0, 1e-4), Budget(1.0, 1e-5), Budget(1.0, 1e-4, "zero-out")):
            with pytest.raises(InputError, match="as first declared"):
                ledger.enter({"new": BUDGET, "a": other})
        assert ledger.head == before
        assert "new" not in ledger.accounts


def test_the_first_plan_stays_and_what_departs_from_it_goes_through_the_privacy_filter(tmp_path: Path) -> None:
    later = FixedSize(2.7, 325, 50)
    with opened(tmp_path, {ROUND: 20}) as ledger:
        ledger.charge("first", 1, "uploads", {"a": ROUND})
        ledger.enter({"a": BUDGET}, {"a": {later: 20}})
        left = ledger.accounts["a"].terms.filter_delta
        fitting = participations_that_fit(later, {ROUND: 1}, 1.0, left, adaptive=True)
        assert ledger.room("a", later) == fitting < 19
        grants = [len(ledger.charge("second", number, "uploads", {"a": later}).granted) for number in range(20)]
        assert sum(grants) == fitting


def test_what_the_plan_has_reserved_of_delta_is_not_called_spent_and_is_not_granted_either(tmp_path: Path) -> None:
    budget = Budget(1.0, 1e-4, "zero-out")
    planned, later, big = Poisson(2.54, 50 / 325), Poisson(3.0, 50 / 325), Gaussian(1.0, "zero-out")
    with new_ledger(tmp_path / "ledger") as ledger:
        ledger.enter({"a": budget, "b": budget}, {"a": {planned: 20}})
        for number in range(12):
            assert ledger.charge("first", number, "uploads", {"a": planned}).granted
        assert spent({planned: 12, later: 1}, 1e-4).epsilon < 0.8, "far from spent, were all of delta there"
        before = ledger.head
        assert ledger.charge("second", 1, "uploads", {"a": later}).refused == {"a": "delta reserved"}
        both = ledger.charge("second", 1, "uploads", {"a": big, "b": big})
        assert both.refused == {"a": "budget spent", "b": "budget spent"}
        assert (ledger.head, ledger.room("a", later)) == (before, 0)
        for number in range(12, 20):
            assert ledger.charge("first", number, "uploads", {"a": planned}).granted, "what was reserved is there"
        assert ledger.charge("first", 20, "uploads", {"a": planned}).refused == {"a": "budget spent"}


def test_where_no_plan_was_declared_nothing_is_reserved(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        while (decision := ledger.charge("first", ledger.head.rows, "uploads", {"a": ROUND})).granted:
            pass
        history = ledger.accounts["a"].history
        assert spent({ROUND: history[ROUND] + 1}, BUDGET.delta).epsilon < BUDGET.epsilon, "a filter stops earlier"
        assert decision.refused == {"a": "budget spent"}


def test_the_charges_after_a_row_are_listed_one_by_one(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.charge("first", 1, "uploads", {"a": ROUND, "b": ROUND})
        noted = ledger.head.rows
        assert ledger.charges_after(noted) == []
        with Ledger(ledger.path) as other:
            other.charge("second", 7, "moments", {"b": Gaussian(30.0)})
        assert ledger.charges_after(noted) == [("b", "second", 7, "moments", Gaussian(30.0))]
        assert [(charge.client, charge.run) for charge in ledger.charges_after(0)] == [
            ("a", "first"),
            ("b", "first"),
            ("b", "second"),
        ]


def test_what_fails_midway_leaves_nothing_and_the_ledger_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        before = ledger.head
        for events in ({"a": ROUND, "stranger": ROUND}, {"a": ROUND, "b": Poisson(2.0, 0.1)}, {"a": ROUND, "b": 3}):
            with pytest.raises(InputError, match="expected"):
                ledger.charge("first", 1, "uploads", events)  # pyright: ignore[reportArgumentType]
        assert ledger.head == before
        assert ledger.charge("first", 1, "uploads", {"a": ROUND}).granted
        assert ledger.charge("first", 2, "uploads", {}).granted == ()


def test_names_and_rounds_are_checked_at_the_door(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        for run, number, mechanism in [
            ("", 1, "m"),
            ("r", 1, "line\nbreak"),
            ("r", 1.5, "m"),
            ("r", True, "m"),
            (3, 1, "m"),
        ]:
            with pytest.raises(InputError, match="must be a"):
                ledger.charge(run, number, mechanism, {})  # pyright: ignore[reportArgumentType]
        with pytest.raises(InputError, match="client must be a name"):
            ledger.enter({"": BUDGET})
        with pytest.raises(InputError, match="declare its budget"):
            ledger.enter({"c": BUDGET}, {"d": {ROUND: 1}})


def test_every_commit_is_synced_to_a_write_ahead_log(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        pragma = [
            ledger._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
        assert pragma == ["wal", 2]  # 2 is FULL


def test_a_fork_must_open_the_ledger_again(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:

        def charge() -> None:
            with pytest.raises(InputError, match="open it again"):
                ledger.charge("first", 1, "uploads", {"a": ROUND})

        assert os.waitpid(fork(charge), 0)[1] == 0


def test_a_ledger_that_another_process_holds_too_long_is_an_error_and_not_a_release(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with Ledger(tmp_path / "ledger", wait=0.05) as ledger:
        holder = sqlite3.connect(ledger.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InputError, match="end the process that holds it"):
            ledger.charge("first", 1, "uploads", {"a": ROUND})
        holder.close()
        assert ledger.charge("first", 1, "uploads", {"a": ROUND}).granted


def test_what_cannot_be_written_is_an_error_and_not_a_release(tmp_path: Path) -> None:
    clients = tuple(f"client-{i}" for i in range(200))
    with opened(tmp_path, {ROUND: 20}, clients) as ledger:
        before = ledger.head
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(InputError, match="check the disk"):
            ledger.charge("first", 1, "uploads", dict.fromkeys(clients, ROUND))
        assert (ledger.head, stored(ledger.path)) == (before, [])
        ledger._connection.execute(f"PRAGMA max_page_count = {100 * pages}")
        assert len(ledger.charge("first", 1, "uploads", dict.fromkeys(clients, ROUND)).granted) == 200


def test_a_round_of_a_thousand_clients_takes_less_than_50_milliseconds_of_computing(tmp_path: Path) -> None:
    clients = tuple(f"client-{i}" for i in range(1000))
    times = []
    with opened(tmp_path, {ROUND: 20}, clients) as ledger:
        for number in range(8):
            start = time.process_time()
            assert len(ledger.charge("first", number, "uploads", dict.fromkeys(clients, ROUND)).granted) == 1000
            times.append(time.process_time() - start)
    assert min(times) < 0.05
    assert verify(tmp_path / "ledger").charges == 8000
