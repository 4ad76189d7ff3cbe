"""The server against sites that are silent, late, wrong or hostile: what it holds stays right."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.messages import Closed, Present, Refused, signed_presence
from fedspd.deploy.server import enroll
from fedspd.deploy.server.results import sites_of, table
from fedspd.deploy.server.run import Server
from fedspd.deploy.site import entering
from fedspd.errors import InputError
from fedspd.report import folders_page, save_run
from fedspd.results import read_run
from fedspd.scoring.model import load_model
from tests.support.deploy.loopback import honest
from tests.support.deploy.sites import Federation, federation, measure, play
from tests.support.deploy.twists import Change, in_round, lost, mean_of_totals, replies_made, standing, with_reply

FIXED: dict[str, Any] = {"protected": False, "federation__fixed_draws": True}


def from_another_node(message: Message, answer: Message) -> Message:
    answer.metadata.__dict__["_src_node_id"] = 999
    return answer


def of_float32(message: Message, answer: Message) -> Message:
    reply = wire.read_answer(answer, "train.play")
    values: Any = {
        "terms": reply.terms, "round": reply.round, "charges": reply.charges, "upload.shape": [6, 2],
        "upload": reply.upload.astype(np.float32).tobytes(), "upload.kind": "<f4",
    }  # fmt: skip
    return Message(RecordDict({"fedspd": ConfigRecord(values)}), reply_to=message)


HOSTILE: dict[str, tuple[Change, str]] = {
    "no number": (with_reply(lambda r: r._replace(upload=r.upload * np.nan)), "rejected: it is not finite"),
    "infinite": (with_reply(lambda r: r._replace(upload=r.upload + np.inf)), "rejected: it is not finite"),
    "of another shape": (
        with_reply(lambda r: r._replace(upload=r.upload.T)),
        "rejected: it is float64 of shape (2, 6)",
    ),
    "of another type": (with_reply(lambda r: r._replace(upload=np.zeros((6, 2), np.uint64))), "it is uint64 of shape"),
    "of float32": (of_float32, "expected a field upload"),
    "huge": (with_reply(lambda r: r._replace(upload=r.upload * 1e6)), "rejected: its norm is"),
    "of the round before": (with_reply(lambda r: r._replace(round=1)), "rejected: it is of round 1"),
    "sent before": (with_reply(lambda r: r._replace(charges=1)), "rejected: it is numbered 1, and 2 to 3 can come"),
    "of a number beyond the plan": (
        with_reply(lambda r: r._replace(charges=4)),
        "rejected: it is numbered 4, and 2 to 3 can come",
    ),
    "of no number": (with_reply(lambda r: r._replace(charges=0)), "rejected: it is numbered 0"),
    "under other terms": (with_reply(lambda r: r._replace(terms="0" * 24)), "rejected: it is under other terms"),
    "of another kind": (with_reply(lambda r: Present("site-0", 120, "digest", "0.1.0", b"")), "expected a field terms"),
    "from another node": (from_another_node, "it came from another node"),
    "Flower's error": (lambda message, answer: Message(Error(5, "crashed"), reply_to=message), "no answer: crashed"),
    "empty": (lambda message, answer: Message(RecordDict(), reply_to=message), "expected one record of fedspd"),
    "lost": (lost, "no answer in time"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_reply_that_cannot_be_believed_changes_nothing_and_is_reported(what: str, tmp_path: Path) -> None:
    """Alone it stops the run for want of a quorum; the honest site then goes on as if nothing had been."""
    change, reason = HOSTILE[what]
    made = federation(tmp_path / "hostile", **FIXED)
    made.grid.handlers[made.node(0)] = in_round(2, change)
    with pytest.raises(InputError, match=r"got 0 that answered round 2; .* goes on after round 1\.$"):
        made.serve()
    assert any("site-0" in line and reason in line for line in made.said), made.said
    (member,) = made.saved.roster
    assert (made.saved.round, member.answered, member.acknowledged) == (1, 1, 1)
    np.testing.assert_array_equal(standing(made.saved), mean_of_totals(made))
    alike = federation(tmp_path / "honest", **FIXED)
    made.grid.handlers[made.node(0)] = honest
    np.testing.assert_array_equal(made.serve().server, alike.serve().server)
    assert replies_made(made, 0) == replies_made(alike, 0) == 3


@pytest.mark.parametrize("what", HOSTILE)
def test_beside_honest_sites_it_is_left_out_and_the_next_difference_contains_it(what: str, tmp_path: Path) -> None:
    change, _ = HOSTILE[what]
    made = federation(tmp_path, 3, federation__quorum=2, **FIXED)
    made.grid.handlers[made.node(0)] = in_round(2, change)
    finished = made.serve()
    np.testing.assert_allclose(standing(finished), mean_of_totals(made), rtol=0, atol=1e-14)
    assert [member.answered for member in finished.roster] == [2, 3, 3]
    assert [member.acknowledged for member in finished.roster] == [3, 3, 3]
    assert [row["answered"] for row in finished.history] == [3, 2, 3]


def test_the_servers_sum_is_the_mean_of_all_sites_totals_whoever_is_missing(tmp_path: Path) -> None:
    made = federation(tmp_path, 4, run__rounds=6, federation__quorum=2, **FIXED)
    made.grid.handlers[made.node(0)] = in_round(6, lost)  # the last one: nothing comes after it
    made.grid.handlers[made.node(1)] = in_round(3, with_reply(lambda reply: reply._replace(upload=reply.upload * 1e6)))
    server = made.server()
    made.grid.silent = {made.node(2)}  # from the first round on
    server.run()
    finished = made.saved
    np.testing.assert_allclose(standing(finished), mean_of_totals(made), rtol=0, atol=1e-14)
    assert [member.acknowledged for member in finished.roster] == [5, 6, 0, 6]
    assert [member.asked for member in finished.roster] == [6, 6, 6, 6]
    assert sum("site-2 keeps its last reply: no answer in time" in line for line in made.said) == 6
    assert "site-2 sent no statement" in made.said


def test_a_late_answer_is_dropped_by_name_and_the_next_difference_contains_it(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, federation__quorum=2, **FIXED)
    server = made.server()
    made.grid.late = {made.node(0)}
    server._round()
    made.grid.late = set()
    server.run()
    assert f"round 2: a late answer is dropped: round 1 of node {made.node(0)}" in made.said
    np.testing.assert_allclose(standing(made.saved), mean_of_totals(made), rtol=0, atol=1e-14)
    assert [row["late"] for row in made.saved.history] == [0, 1, 0]
    assert [member.answered for member in made.saved.roster] == [2, 3, 3]


def test_a_site_that_is_offline_at_the_start_is_not_waited_for_beyond_the_time(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, federation__quorum=2, federation__start_seconds=0.2, **FIXED)
    made.grid.offline = {made.node(1)}
    assert [member.site for member in made.serve().roster] == ["site-0", "site-2"]


def test_too_few_sites_at_the_start_stop_the_run_before_anything_is_spent(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, federation__quorum=2, federation__start_seconds=0.2)
    made.grid.offline = {made.node(1), made.node(2)}
    with pytest.raises(InputError, match=r"expected at least federation\.quorum = 2 sites that agree, got 1"):
        made.serve()
    assert made.charges() == 0
    assert not made.settings.folder.exists()


def claiming(**changes: Any) -> Any:
    """A site that says something else of itself than it should, signed or not."""

    def handler(message: Message, path: Path) -> Message:
        answer = honest(message, path)
        present = wire.read_answer(answer, message.metadata.message_type)
        if not isinstance(present, Present):
            return answer
        present = present._replace(**changes)
        if "signature" not in changes:
            parts = signed_presence(present, wire.read_request(message).nonce)
            present = present._replace(signature=read_identity(path.parent / "site.key").sign("present", *parts))
        return wire.answer(message, present)

    return handler


CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "another site's name": ({"site": "site-0"}, "it calls itself 'site-0', its key is that of 'site-1'"),
    "no records": ({"records": 0}, "it claims 0 records, and federation.toml believes 1 to 1000000000 of it"),
    "2^31 records": ({"records": 2**31}, "it claims 2147483648 records"),
    "2^63-1 records": ({"records": 2**63 - 1}, "it claims 9223372036854775807 records"),
    "far more than the others": ({"records": 20 * 120 + 1}, "it claims 2401 records, 20 times more than the others do"),
    "a negative number of records": ({"records": -1}, "it claims -1 records"),
    "without its signature": ({"signature": b"0" * 64}, "what it says is not signed by its key"),
    "another version": ({"program": "9.9"}, "it runs fedspd 9.9, the server"),
    "another schema": ({"schema": "0" * 16}, "its schema is 0000000000000000, the run's is"),
}


@pytest.mark.parametrize("what", CLAIMS)
def test_a_claim_that_would_steer_the_run_leaves_its_site_out(what: str, tmp_path: Path) -> None:
    changes, why = CLAIMS[what]
    made = federation(tmp_path, 2, federation__start_seconds=0.2)
    made.grid.handlers[made.node(1)] = claiming(**changes)
    finished = made.serve()
    assert [member.site for member in finished.roster] == ["site-0"]
    assert any(line.startswith(f"site-1 is left out: {why}") for line in made.said), made.said
    assert [made.charges(0), made.charges(1)] == [3, 0]


def test_a_site_with_too_few_records_for_the_settings_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, federation__start_seconds=0.2, algorithm__local_steps=5)
    made.grid.handlers[made.node(1)] = claiming(records=4)
    assert [member.site for member in made.serve().roster] == ["site-0", "site-2"]
    assert any(line.startswith("site-1 is left out, with 4 records:") for line in made.said), made.said


def test_a_text_of_a_site_is_one_short_printable_line_wherever_it_stands(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, federation__start_seconds=0.2)

    def shout(message: Message, path: Path) -> Message:
        if message.metadata.message_type != "query.enter":
            return honest(message, path)
        forged = "no\nround 1 of 2: 3 of 3 answered, test accuracy 0.9999\x1b[31m" + "x" * 10_000_000
        return wire.answer(message, Refused(forged, final=True))

    made.grid.handlers[made.node(1)] = shout
    made.serve()
    assert all(len(line) < 800 for line in made.said)
    assert not any(set("\n\x1b") & set(line) for line in made.said)


@pytest.mark.parametrize("epsilon", [1e308, float("inf"), -1.0])
def test_a_statement_with_an_absurd_epsilon_is_not_believed(epsilon: float, tmp_path: Path) -> None:
    made = federation(tmp_path, 2)

    def liar(message: Message, path: Path) -> Message:
        answer = honest(message, path)
        if message.metadata.message_type != "query.close":
            return answer
        return wire.answer(message, Closed(wire.read_request(message).terms, 3, epsilon))

    made.grid.handlers[made.node(0)] = liar
    assert "site-0" in table(sites_of(made.serve()))


def test_a_claim_within_the_operators_bound_is_believed(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, federation__start_seconds=0.2)
    made.seat = {"most_records": 127}  # site-1 has 127, site-0 has 120
    assert [member.records for member in made.serve().roster] == [120, 127]
    made = federation(tmp_path / "below", 2, federation__start_seconds=0.2)
    made.seat = {"most_records": 126}
    assert [member.site for member in made.serve().roster] == ["site-0"]


def test_a_site_that_is_mended_while_the_server_waits_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enroll, "ASK_AGAIN_SECONDS", 0.2)
    made = federation(tmp_path, 2, federation__start_seconds=20.0)
    path = made.sites[1].parent / "records.csv"
    whole = path.read_bytes()
    path.unlink()

    def say(line: str) -> None:
        made.said.append(line)
        if "site-1 is left out: the site could not answer" in line:
            path.write_bytes(whole)

    finished = Server(made.grid, made.settings, say)
    assert [member.site for member in finished.checkpoint.roster] == ["site-0", "site-1"]


def test_a_site_that_cannot_answer_to_terms_does_not_hold_the_others_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise MemoryError

    made = federation(tmp_path, 2, federation__start_seconds=60.0)
    begin, calls, truth = time.monotonic(), [], entering.rehearse

    def second_fails(*arguments: Any) -> None:
        calls.append(1)
        (broken if len(calls) == 2 else truth)(*arguments)

    monkeypatch.setattr(entering, "rehearse", second_fails)
    assert [member.site for member in made.serve().roster] == ["site-0"]
    assert time.monotonic() - begin < 20
    assert "site-1 refuses: the site could not answer; its log says why." in made.said


def test_a_site_that_refuses_the_terms_is_left_out_and_the_others_share_new_ones(tmp_path: Path) -> None:
    """With batches a ledger holds to the plan it was told first, so the terms that were given up must not be it."""
    made = federation(tmp_path, 3, 240, run__rounds=6, run__participants=2, algorithm__batch_size=30)
    made.sites[2].write_text(made.sites[2].read_text().replace("min_batch = 20", "min_batch = 31"))
    finished = made.serve()
    assert [member.site for member in finished.roster] == ["site-0", "site-1"]
    assert "site-2 refuses: a gradient is averaged over at least 31 records here, not over 30." in made.said
    assert [made.charges(place) for place in range(3)] == [6, 6, 0]


def test_a_site_with_another_schema_is_left_out(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, federation__start_seconds=0.2)
    schema = made.sites[0].parent / "schema.toml"
    schema.write_text(schema.read_text().replace("100]", "99]"))
    assert [member.site for member in made.serve().roster] == ["site-1"]
    assert any(line.startswith("site-0 is left out: its schema is") for line in made.said)


def spend(made: Federation, place: int, rounds: int) -> None:
    """Another run of the site alone, which uses up part of its budget."""
    terms = made.enter(place, "another-run")
    for round in range(1, rounds + 1):
        play(made, terms, place, round=round, weights=float(round))


def test_a_site_whose_budget_is_spent_is_retired_and_the_others_go_on(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, site={"budget.epsilon": 1.3})
    spend(made, 1, rounds=3)
    finished = made.serve()
    assert [member.retired for member in finished.roster] == ["", "the site's budget is spent.", ""]
    assert [member.answered for member in finished.roster] == [3, 1, 3]
    assert [member.asked for member in finished.roster] == [3, 2, 3]
    assert [row["asked"] for row in finished.history] == [3, 3, 2]
    np.testing.assert_allclose(standing(finished), mean_of_totals(made), rtol=0, atol=1e-14)


def test_when_all_sites_are_retired_the_run_ends_and_says_so(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, site={"budget.epsilon": 1.3})
    for place in (0, 1):
        spend(made, place, rounds=3)
    finished = made.serve()
    assert "the run ends after round 1: 0 sites may still take part" in made.said
    assert (finished.round, finished.finished) == (1, True)
    assert made.run is not None
    assert (made.run.summary["rounds"], made.run.summary["rounds_planned"]) == (1, 3)
    assert {site["retired"] for site in sites_of(finished)} == {"the site's budget is spent."}


def test_too_few_answers_stop_the_run_and_nothing_of_the_round_is_merged(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, federation__quorum=2)
    server = made.server()
    server._round()
    before = made.saved
    made.grid.silent = {made.node(0), made.node(2)}
    with pytest.raises(InputError, match="got 1 that answered round 2"):
        server.run()
    np.testing.assert_array_equal(made.saved.server, before.server)
    assert made.saved.roster == before.roster
    assert [made.charges(place) for place in range(3)] == [1, 2, 1]


def test_moments_come_first_and_who_does_not_release_them_may_still_play(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, data__scaling="noisy-moments", federation__quorum=2)
    server = made.server()
    made.grid.silent = {made.node(0)}
    server._measure()
    assert server.checkpoint.measured
    made.grid.silent = set()
    server.run()
    assert [made.charges(place) for place in range(3)] == [3, 4, 4]
    assert [member.charges for member in made.saved.roster] == [3, 4, 4]
    assert (made.saved.deviation >= 0.3).all()
    assert not np.array_equal(made.saved.mean, np.zeros(5))


@pytest.mark.parametrize("sums", [np.nan, 1e300])
def test_moments_that_cannot_be_believed_are_left_out(sums: float, tmp_path: Path) -> None:
    made = federation(tmp_path, 2, data__scaling="noisy-moments", federation__quorum=1)

    def wild(message: Message, path: Path) -> Message:
        answer = honest(message, path)
        if message.metadata.message_type != "train.measure":
            return answer
        moments = wire.read_answer(answer, "train.measure")
        return wire.answer(message, moments._replace(moments=np.full_like(moments.moments, sums)))

    made.grid.handlers[made.node(0)] = wild
    finished = made.serve()
    assert np.abs(finished.mean).max() < 10
    assert finished.round == 3


def test_a_run_ends_when_fewer_sites_may_take_part_than_it_wants(tmp_path: Path) -> None:
    made = federation(tmp_path / "enough", 3, run__participants=2, run__min_participants=3, run__rounds=1)
    assert made.serve().round == 1
    made = federation(tmp_path / "too few", 3, run__min_participants=3, site={"budget.epsilon": 1.3})
    spend(made, 0, rounds=3)
    assert made.serve().round == 2
    assert "the run ends after round 2: 2 sites may still take part" in made.said


def test_a_statement_of_fewer_charges_than_were_seen_is_not_believed(tmp_path: Path) -> None:
    made = federation(tmp_path, 2)

    def liar(message: Message, path: Path) -> Message:
        answer = honest(message, path)
        if message.metadata.message_type != "query.close":
            return answer
        return wire.answer(message, Closed(wire.read_request(message).terms, -5, float("inf")))

    made.grid.handlers[made.node(0)] = liar
    assert [site["charges"] for site in sites_of(made.serve())] == [3, 3]


def test_a_run_leaves_the_folder_of_a_simulation_and_a_page_can_be_made_of_it(tmp_path: Path) -> None:
    made = federation(tmp_path, 2)
    made.serve()
    assert made.run is not None
    (tmp_path / "left").mkdir()
    save_run(tmp_path / "left", made.run.record(), made.run.model())
    found = read_run(tmp_path / "left")
    assert (found.summary.engine, found.summary.rounds, found.summary.clients) == ("sites", 3, 2)
    assert found.summary.run is not None, "unlike a simulation, it has a name"
    np.testing.assert_array_equal(found.history["epsilon_max"], made.run.history["epsilon_max"])
    model = load_model(tmp_path / "left")
    encoded = model.recipe.schema.ranges.T  # two records, of lowest and of highest values
    expected = made.run.recipe.rows(encoded) @ made.run.weights
    np.testing.assert_array_equal(model.scores(encoded), expected)
    page = folders_page([tmp_path / "left"])
    assert page.title == "Run left"
    assert page.privacy[0].endswith("nothing else left a site.")
    shown = {row[0]: row[1] for section in page.sections for grid in section.grids for row in grid.rows}
    assert (shown["run"], shown["objective"], shown["clipped share, %"]) == (found.summary.run, None, None)


def test_a_statement_of_more_charges_than_were_planned_is_not_believed(tmp_path: Path) -> None:
    made = federation(tmp_path, 2)

    def liar(message: Message, path: Path) -> Message:
        answer = honest(message, path)
        if message.metadata.message_type != "query.close":
            return answer
        return wire.answer(message, Closed(wire.read_request(message).terms, 2**60, 0.5))

    made.grid.handlers[made.node(0)] = liar
    assert [site["charges"] for site in sites_of(made.serve())] == [3, 3]


def test_the_statement_says_what_every_site_was_charged_and_the_ledgers_agree(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, data__scaling="noisy-moments")
    finished = made.serve()
    assert made.run is not None
    stated = made.run.summary
    assert (stated["guarantee"], stated["epsilon"], stated["relation"]) == ("proved", 1.0, "replace-one")
    for place, site in enumerate(sites_of(finished)):
        assert site["charges"] == made.charges(place) == 4
        assert 0.99 < site["epsilon"] <= 1.0
        assert site["epsilon_alone"] is None
    assert "alone" not in table(sites_of(finished)), "nobody shares noise"
    assert finished.history[-1]["epsilon_max"] == pytest.approx(sites_of(finished)[0]["epsilon"], rel=1e-9)
    assert measure(made, made.terms(0)).reason == "the site has not entered a run under these terms."
