"""A site at work: charged before, remembered after, the same answer to the same question, differences sent."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd import __version__
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.messages import VERSION, Close, Closed, Enter, Hello, Present, Refused, signed_presence
from fedspd.deploy.protocol.terms import Terms
from fedspd.deploy.site.client import Client
from fedspd.deploy.site.store import Store
from tests.support.deploy.sites import Federation, ask, federation, measure, play
from tests.support.ledger.crashes import fork

UNPROTECTED: dict[str, Any] = {"protected": False, "federation__fixed_draws": True}


def in_a_process_that_is_killed(task: Callable[[], None]) -> None:
    """Run in a child process, which must end by its own SIGKILL."""
    _, status = os.waitpid(fork(task), 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def total_of(made: Federation, number: int, place: int = 0) -> np.ndarray:
    """What the server holds of a site once it has merged its reply of that number."""
    with made.store(place) as store:
        (run,) = store.runs()
        stored = store.reply(run.run, number)
    assert stored is not None
    return np.frombuffer(stored.total, "<f8").reshape(6, 2)


def test_a_site_says_who_it_is_how_many_records_it_holds_and_under_which_schema(tmp_path: Path) -> None:
    made = federation(tmp_path, 2)
    present = made.tell(1, Hello(VERSION, "nonce"))
    assert present._replace(signature=b"") == Present("site-1", 127, made.schema.digest, __version__, b"")
    key = read_identity(made.sites[1].parent / "site.key").public
    assert key.verify(present.signature, "present", *signed_presence(present, "nonce"))
    assert not key.verify(present.signature, "present", *signed_presence(present, "another"))
    assert not key.verify(present.signature, "present", *signed_presence(present._replace(records=128), "nonce"))


def test_the_very_same_request_gets_the_very_same_reply_and_costs_nothing_more(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    first = play(made, terms, weights=0.5)
    for _ in range(3):
        again = play(made, terms, weights=0.5)
        assert again.upload.tobytes() == first.upload.tobytes()
        assert again._replace(upload=first.upload) == first
    assert made.charges() == 1
    assert made.log().count("asked again, same reply") == 3


def test_a_stored_reply_is_given_again_when_the_budget_is_spent_and_later_rounds_were_played(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    first = play(made, terms)
    for round in (2, 3):
        play(made, terms, round=round)
    np.testing.assert_array_equal(play(made, terms).upload, first.upload)
    assert made.charges() == 3


def test_moments_are_released_and_charged_once(tmp_path: Path) -> None:
    made = federation(tmp_path, data__scaling="noisy-moments")
    terms = made.enter()
    first, again = measure(made, terms), measure(made, terms)
    assert first.moments.tobytes() == again.moments.tobytes()
    assert (first.charges, again.charges, made.charges()) == (1, 1, 1)
    assert isinstance(made.tell(0, ask(terms, acknowledged=1)), Refused), "moments are no part of the server's sum"
    assert play(made, terms).charges == 2


@pytest.mark.parametrize("change", ["weights", "mean", "deviation", "round", "acknowledged"])
def test_a_request_that_differs_in_anything_is_a_new_charge_with_other_noise(change: str, tmp_path: Path) -> None:
    near: dict[str, Any] = {
        "weights": 1e-12, "mean": np.full(5, 1e-12), "deviation": np.full(5, 1 + 1e-12), "round": 2, "acknowledged": 1,
    }  # fmt: skip
    made = federation(tmp_path, site={"policy.methods": ["dp-sgd"]}, algorithm__name="dp-sgd")
    terms = made.enter()
    first, second = play(made, terms), play(made, terms, **{change: near[change]})
    assert (first.charges, second.charges, made.charges()) == (1, 2, 2)
    assert np.abs(first.upload - second.upload).min() > 1e-8, "equal noise would leave what nearly equal queries differ"


def test_two_runs_with_equal_settings_on_equal_records_draw_different_noise(tmp_path: Path) -> None:
    replies = []
    for name in ("one", "two"):
        made = federation(tmp_path / name)
        replies.append(play(made, made.enter()).upload)
    assert (replies[0] != replies[1]).all()
    made = federation(tmp_path / "three", site={"budget.epsilon": 2.0})
    replies = [play(made, made.enter(run=name)).upload for name in ("run-1", "run-2")]
    assert (replies[0] != replies[1]).all()


def test_a_charge_whose_reply_never_left_is_used_by_the_next_request(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()

    def crash() -> None:
        Store.keep = die  # in the child alone
        with made.client() as client:
            client.answer(ask(terms))

    in_a_process_that_is_killed(crash)
    assert made.charges() == 1
    with made.store() as store:
        assert store.last("run-1") == (0, 0)
    reply = play(made, terms)
    assert (reply.charges, made.charges()) == (1, 1)
    assert "charge 1 is used again, its reply never left" in made.log()
    assert play(made, terms, round=2, acknowledged=1).charges == 2
    assert made.charges() == 2


def test_a_crash_before_the_charge_costs_nothing(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()

    def crash() -> None:
        Client._charge = die  # in the child alone
        with made.client() as client:
            client.answer(ask(terms))

    in_a_process_that_is_killed(crash)
    assert made.charges() == 0
    assert play(made, terms).charges == 1


def test_a_crash_while_the_site_enters_leaves_a_run_that_can_be_entered(tmp_path: Path) -> None:
    made = federation(tmp_path)

    def crash() -> None:
        Store.enter = die  # in the child alone
        with made.client() as client:
            client.answer(Enter(made.terms().text))

    in_a_process_that_is_killed(crash)
    play(made, made.enter())


def uploads(made: Federation, terms: Terms, answer: Callable[[Any], Any]) -> list[np.ndarray]:
    """Three rounds whose weights follow from the replies, as a server's would."""
    found = [np.zeros((6, 2))]
    for round in (1, 2, 3):
        reply = answer(ask(terms, round=round, acknowledged=round - 1, weights=np.tanh(sum(found))))
        found.append(reply.upload)
    return found[1:]


def test_a_site_that_is_restarted_before_every_round_goes_on_as_if_it_never_stopped(tmp_path: Path) -> None:
    settings: dict[str, Any] = UNPROTECTED | {"algorithm__start": "own"}
    made = federation(tmp_path / "always on", **settings)
    terms = made.enter()
    with made.client() as client:
        always_on = uploads(made, terms, client.answer)
    made = federation(tmp_path / "restarted", **settings)
    made.enter()

    def restarted(request: Any) -> Any:
        with made.client() as client:
            return client.answer(request)

    for on, again in zip(always_on, uploads(made, terms, restarted), strict=True):
        assert on.tobytes() == again.tobytes()


def test_what_a_site_sends_is_the_difference_to_the_reply_that_the_server_names(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    first = play(made, terms)
    second = play(made, terms, round=2, acknowledged=1)  # the third names the first: the second was lost
    third = play(made, terms, round=3, acknowledged=1)
    np.testing.assert_array_equal(total_of(made, 1), first.upload)
    np.testing.assert_array_equal(total_of(made, 2), first.upload + second.upload)
    np.testing.assert_array_equal(total_of(made, 3), first.upload + third.upload)


def test_a_method_whose_server_keeps_no_replies_sends_them_whole(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithm__name": "dp-sgd", **UNPROTECTED}
    made = federation(tmp_path, **settings)
    terms = made.enter()
    play(made, terms)
    second = play(made, terms, round=2, acknowledged=1)
    np.testing.assert_array_equal(total_of(made, 2), second.upload)


def test_at_the_end_a_site_says_what_the_run_was_charged_and_what_that_costs(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"budget.epsilon": 2.0})
    play(made, made.enter(run="another-run"))
    terms = made.enter()
    assert made.tell(0, Close(terms.digest)) == Closed(terms.digest, 0, 0.0)
    play(made, terms)
    play(made, terms, round=2)
    closed = made.tell(0, Close(terms.digest))
    plan = terms.agreed(made.schema).plan
    assert closed == Closed(terms.digest, 2, plan.spent(np.array([0]), np.array([2]))[0])


def test_a_site_whose_file_is_gone_says_only_that_its_log_says_why(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    (made.sites[0].parent / "records.csv").unlink()
    for request in (Hello(VERSION, "nonce"), ask(terms)):
        assert made.tell(0, request) == Refused("the site could not answer; its log says why.", final=False)
    assert made.charges() == 0
    assert "ERROR could not answer train.play: expected a table, got" in made.log()
