"""What a site refuses: nothing is spent, the reason is in its log, and no record was looked at."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.deploy.protocol.messages import VERSION, Enter, Hello, Measure, Refused
from fedspd.deploy.protocol.terms import Terms
from tests.support.deploy.sites import NO_PRIVACY, Federation, ask, federation, measure, play

TERMS: dict[str, tuple[dict[str, Any], str]] = {
    "a larger epsilon": ({"privacy__epsilon": 1.001}, "it needs more noise"),
    "a larger delta": ({"privacy__delta": 1.1e-5}, "it needs more noise"),
    "less noise": ({"privacy__noise_multiplier": 5.0, "privacy__epsilon": None}, "it needs more noise"),
    "a budget for each round": ({"privacy__budget": "round"}, "it needs more noise"),
    "a larger clip_norm": ({"problem__clip_norm": 0.51}, "clipped to 0.5 here, not to 0.51"),
    "a smaller clip_norm": ({"problem__clip_norm": 0.49}, "clipped to 0.5 here, not to 0.49"),
    "a larger row_norm": ({"data__row_norm": 1.5}, "shortened to 1 here, not to 1.5"),
    "a smaller row_norm": ({"data__row_norm": 0.5}, "shortened to 1 here, not to 0.5"),
    "a method that is not allowed": ({"algorithm__name": "dp-sgd"}, "'dp-sgd' is not among those allowed here: fedspd"),
    "an unproved method": (
        {"algorithm__name": "fedspd-published", "algorithm__penalty": 1.0, "algorithm__batch_size": 20},
        "'fedspd-published' is not among those allowed",
    ),
    "a method without privacy": (
        NO_PRIVACY | {"algorithm__name": "fedavg", "algorithm__inverse_step": 1.0},
        "'fedavg' is not among those allowed",
    ),
    "too many rounds": ({"run__rounds": 21}, "at most 20 rounds of a run are played here, the run plans 21"),
    "small batches": ({"algorithm__batch_size": 19}, "averaged over at least 20 records here, not over 19"),
    "small parts of a shard": (
        {"algorithm__local_steps": 8, "algorithm__inverse_step": 2.0}, "at least 20 records here, not over 15",
    ),
    "other neighbors": (
        {"algorithm__batch_size": 40, "algorithm__sampling": "poisson"},
        "for replace-one neighbors, the run's for zero-out ones",
    ),
    "draws that the server fixes": ({"federation__fixed_draws": True}, "draws that a server fixes are for tests"),
    "sampling without a proof": (
        {"algorithm__batch_size": 40, "algorithm__sampling": "with-replacement"}, "for a proved guarantee",
    ),
    "scaling by statistics that nobody paid for": ({"data__scaling": "z-score"}, "noisy-moments or min-max, got"),
    "batches beyond the shard": ({"algorithm__batch_size": 121}, "drawn must be at most records = 120, got 121"),
}  # fmt: skip


def no_such_method(terms: Terms) -> str:
    values = json.loads(terms.text)
    values["config"]["algorithm"]["name"] = "fedmagic"
    return json.dumps(values)


TEXTS: dict[str, tuple[Callable[[Terms], str], str]] = {
    "another schema": (lambda terms: replace(terms, schema="0" * 16).text, "share one schema file"),
    "more records than there are": (lambda terms: replace(terms, sizes=(121,)).text, "holds 120 records"),
    "fewer records than there are": (lambda terms: replace(terms, sizes=(119,)).text, "holds 120 records"),
    "an unknown method": (no_such_method, "algorithm.name must be one of fedspd, "),
    "a place beyond the sites": (lambda terms: replace(terms, place=1).text, "terms that fit together"),
    "no terms at all": (lambda terms: "give me the records", "expected the terms of a run"),
    "a name that forges a line of the log": (
        lambda terms: replace(terms, run="run\n2026-01-01 00:00:00 INFO all is well").text, "terms that fit together",
    ),
    "unknown fields": (lambda terms: terms.text[:-1] + ', "more": 1}', "expected the terms of a run"),
}  # fmt: skip


def refused(made: Federation, answer: Any, reason: str, charges: int = 0, final: bool = True) -> None:
    """The promise of this file."""
    assert isinstance(answer, Refused), answer
    assert reason in answer.reason
    assert answer.final == final
    assert made.charges() == charges
    last = made.log().splitlines()[-1]
    assert "WARNING refused" in last
    assert answer.reason in last


@pytest.mark.parametrize("what", TERMS)
def test_terms_beyond_what_the_owner_allows_are_refused(what: str, tmp_path: Path) -> None:
    changes, reason = TERMS[what]
    made = federation(tmp_path)
    refused(made, made.tell(0, Enter(made.terms(**changes).text)), reason)
    with made.store() as store:
        assert store.runs() == []


@pytest.mark.parametrize("what", TEXTS)
def test_terms_that_are_not_of_this_site_are_refused(what: str, tmp_path: Path) -> None:
    text, reason = TEXTS[what]
    made = federation(tmp_path)
    refused(made, made.tell(0, Enter(text(made.terms()))), reason)


def test_terms_at_the_very_limits_are_entered(tmp_path: Path) -> None:
    federation(tmp_path / "whole shards").enter(run__rounds=20)
    federation(tmp_path / "batches").enter(algorithm__batch_size=20)


def test_a_run_cannot_be_entered_twice_under_other_terms(tmp_path: Path) -> None:
    made = federation(tmp_path)
    first = made.enter()
    assert made.enter() == first
    refused(made, made.tell(0, Enter(made.terms(run__rounds=2).text)), "was entered under other terms")


def moved(shape: tuple[int, ...] = (6, 2), **changes: Any) -> np.ndarray:
    """Zeros with one entry changed."""
    values = np.zeros(shape)
    values.flat[-1] = changes.get("value", 0.0)
    return values


ASKS: dict[str, tuple[dict[str, Any], str]] = {
    "a stretch that is no number": ({"stretch": np.nan}, "stretched by 1 to"),
    "a stretch below 1": ({"stretch": 0.5}, "stretched by 1 to"),
    "a stretch beyond the rule's": ({"stretch": 1e6}, "stretched by 1 to"),
    "a weight that is no number": ({"weights": moved(value=np.nan)}, "finite and at most 1000"),
    "an infinite weight": ({"weights": moved(value=-np.inf)}, "finite and at most 1000"),
    "a weight whose rounding would show": ({"weights": moved(value=1e15)}, "finite and at most 1000"),
    "a weight a little too large": ({"weights": moved(value=-1000.001)}, "finite and at most 1000"),
    "weights of another shape": ({"weights": moved((5, 2))}, "matrix of shape (6, 2)"),
    "weights in a row": ({"weights": moved((12,))}, "matrix of shape (6, 2)"),
    "weights that are whole numbers": ({"weights": np.zeros((6, 2), np.uint64)}, "got uint64"),
    "a mean that is no number": ({"mean": moved((5,), value=np.nan)}, "means up to 1000"),
    "a mean far away": ({"mean": moved((5,), value=1000.1)}, "means up to 1000"),
    "a mean of another shape": ({"mean": moved((6,))}, "mean must be 5 float64 numbers"),
    "a deviation below the floor": ({"deviation": 1 + moved((5,), value=-0.701)}, "deviations from 0.3"),
    "no deviation": ({"deviation": np.zeros(5)}, "deviations from 0.3"),
    "a negative deviation": ({"deviation": -np.ones(5)}, "deviations from 0.3"),
    "an infinite deviation": ({"deviation": moved((5,), value=np.inf) + 1}, "deviations from 0.3"),
    "a deviation that is no number": ({"deviation": moved((5,), value=np.nan) + 1}, "deviations from 0.3"),
    "deviations of another shape": ({"deviation": np.ones((5, 1))}, "deviation must be 5 float64 numbers"),
    "round 0": ({"round": 0}, "rounds 1 to 3, got 0"),
    "a negative round": ({"round": -1}, "rounds 1 to 3, got -1"),
    "a round beyond the last": ({"round": 4}, "rounds 1 to 3, got 4"),
    "unknown terms": ({"terms": "0" * 24}, "has not entered a run under these terms"),
    "a reply that was never made": ({"acknowledged": 1}, "names reply 1, which was never made"),
    "a reply with a negative number": ({"acknowledged": -1}, "names reply -1, which was never made"),
}


@pytest.mark.parametrize("what", ASKS)
def test_numbers_out_of_range_are_refused_before_the_records_are_read(what: str, tmp_path: Path) -> None:
    changes, reason = ASKS[what]
    made = federation(tmp_path)
    terms = made.enter()
    (made.sites[0].parent / "records.csv").unlink()
    refused(made, made.tell(0, ask(terms)._replace(**changes)), reason)
    with made.store() as store:
        assert store.last("run-1") == (0, 0)


def test_numbers_at_the_very_limits_are_played(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    play(made, terms, weights=-1000.0, mean=np.full(5, 1000.0), deviation=np.full(5, 0.3))
    assert made.charges() == 1


def test_a_round_that_is_over_is_refused_but_the_run_may_go_on(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    play(made, terms, round=2)
    refused(made, made.tell(0, ask(terms, round=1)), "round 1 is over: the site has answered round 2", 1, final=False)
    play(made, terms, round=3, acknowledged=1)


def test_moments_that_the_terms_do_not_plan_are_refused(tmp_path: Path) -> None:
    made = federation(tmp_path)
    refused(made, measure(made, made.enter()), "no release of moments")
    refused(made, made.tell(0, Measure("0" * 24)), "has not entered a run under these terms")


def test_records_that_changed_since_the_run_was_entered_are_not_used(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    path = made.sites[0].parent / "records.csv"
    path.write_text(path.read_text().replace("red", "blue", 1))
    refused(made, made.tell(0, ask(terms)), "records have changed since the run was entered")


def test_more_rounds_than_were_planned_are_refused(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    for number in range(3):
        play(made, terms, round=3, weights=float(number))
    refused(made, made.tell(0, ask(terms, round=3, weights=3.0)), "has played all rounds of the run", 3)


def test_a_second_run_that_does_not_fit_any_more_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    for round in (1, 2, 3):
        play(made, terms, round=round, weights=float(round))
    refused(made, made.tell(0, Enter(made.terms(run="run-2").text)), "the site's budget is spent", 3)
    refused(made, made.tell(0, Enter(made.terms(run="3", run__rounds=1).text)), "the site's budget is spent", 3)


def test_a_second_run_that_fits_in_part_is_played_until_the_budget_is_spent(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"budget.epsilon": 1.3})
    for run, rounds in (("run-1", 3), ("run-2", 1)):
        terms = made.enter(run=run)
        for round in range(1, rounds + 1):
            play(made, terms, round=round, weights=float(round))
    refused(made, made.tell(0, ask(terms, round=2, weights=3.0)), "the site's budget is spent", 4)


def test_a_server_that_speaks_another_version_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path)
    refused(made, made.tell(0, Hello(VERSION + 1, "nonce")), f"speaks version {VERSION}, the server {VERSION + 1}")


def test_one_record_does_not_decide_whether_a_site_answers(tmp_path: Path) -> None:
    """The server picks a mean and a deviation with which the row of one record alone overflows."""
    answers = []
    for age in (40, 99):
        made = federation(tmp_path / str(age))
        path = made.sites[0].parent / "records.csv"
        path.write_text("\n".join([*path.read_text().splitlines()[:-1], f"{age},100,red,no"]))
        terms = made.terms(data__scaling="noisy-moments", data__deviation_floor=1e-308)
        entered = made.tell(0, Enter(terms.text))
        mean, deviation = moved((5,)), np.ones(5)
        mean[0], deviation[0] = -1.0, 1.04e-308
        with np.errstate(over="ignore", invalid="ignore"):
            answers.append((type(entered), type(made.tell(0, ask(terms, mean=mean, deviation=deviation)))))
    assert answers[0] == answers[1]


def test_step_sizes_for_which_no_noise_is_large_enough_are_refused_before_the_charge(tmp_path: Path) -> None:
    made = federation(tmp_path, algorithm__penalty=1e-307, algorithm__inverse_step=1e-307)
    terms = made.terms()
    if not isinstance(made.tell(0, Enter(terms.text)), Refused):
        with np.errstate(over="ignore", invalid="ignore"):
            assert isinstance(made.tell(0, ask(terms)), Refused)
    assert made.charges() == 0


def test_a_run_that_was_entered_and_given_up_takes_nothing_from_the_next(tmp_path: Path) -> None:
    made = federation(tmp_path)
    made.enter(run="given-up", algorithm__batch_size=30, run__rounds=4)
    terms = made.enter(algorithm__batch_size=30, run__rounds=6)
    for round in range(1, 7):
        play(made, terms, round=round)


def test_a_site_without_a_budget_takes_every_method_but_checks_what_it_is_asked_with(tmp_path: Path) -> None:
    made = federation(tmp_path, protected=False)
    fedavg = NO_PRIVACY | {"algorithm__name": "fedavg", "algorithm__inverse_step": 1.0}
    terms = made.enter(federation__fixed_draws=True, **fedavg)
    refused(made, made.tell(0, ask(terms, weights=1e15)), "finite and at most 1000")
    play(made, terms)
