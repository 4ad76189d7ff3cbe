"""What a site's owner allows a run: its name, its method, what it may spend, and whether a person must say yes."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedspd.deploy.protocol.messages import Enter, Entered, Refused, Waiting
from fedspd.deploy.site.approval import answer_question, waiting
from fedspd.errors import InputError
from tests.support.deploy.sites import ask, federation, play, site_values


def test_a_run_that_would_spend_more_than_the_owner_gives_to_one_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"budget.epsilon": 4.0, "policy.most_epsilon": 1.0})
    refusal = made.tell(0, Enter(made.terms(privacy__epsilon=1.01).text))
    assert refusal == Refused("one run may spend epsilon 1 here, this one plans 1.01.", final=True)
    play(made, made.enter(privacy__epsilon=1.0))


def test_only_runs_whose_names_the_owner_allows_are_entered(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"policy.runs": ["wards-*", "pilot"]})
    for name in ("run-1", "ward-1", "pilot-2", "awards-1"):
        refusal = made.tell(0, Enter(made.terms(run=name).text))
        assert isinstance(refusal, Refused)
        assert "not among those allowed here" in refusal.reason
    for name in ("wards-3fa2c1.1", "pilot.2"):
        made.enter(run=name)
    assert made.charges() == 0


def test_a_person_confirms_once_and_proposals_that_differ_in_the_others_alone_are_the_same_run(tmp_path: Path) -> None:
    made = federation(tmp_path, 3, site={"policy.ask": True})
    first = made.tell(0, Enter(made.terms(run="wards-1.1").text))
    assert first == Waiting("a person at the site has yet to confirm the run 'wards-1'.")
    (asked,) = waiting(made.sites[0], None)
    assert "privacy.epsilon = 1.0" in asked.terms
    assert "run.rounds = 3" in asked.terms
    answer_question(made.sites[0], asked)
    assert isinstance(made.tell(0, Enter(made.terms(run="wards-1.1").text)), Entered)
    fewer = federation(tmp_path / "fewer", 2)
    other = fewer.terms(run="wards-1.2")
    assert isinstance(made.tell(0, Enter(other.text)), Entered), "one site has left; nothing else is new"
    with pytest.raises(InputError, match="expected a run that waits for a person, got none"):
        waiting(made.sites[0], None)


def test_a_yes_is_for_the_terms_that_were_shown_and_for_no_others(tmp_path: Path) -> None:
    """While a person reads, a server may send other terms under the same name."""
    made = federation(tmp_path, site={"policy.ask": True})
    made.tell(0, Enter(made.terms(run="wards-1.1", privacy__epsilon=0.1).text))
    (shown,) = waiting(made.sites[0], None)
    made.tell(0, Enter(made.terms(run="wards-1.2", privacy__epsilon=1.0).text))
    with pytest.raises(InputError, match="as they were shown, got others"):
        answer_question(made.sites[0], shown)
    assert isinstance(made.tell(0, Enter(made.terms(run="wards-1.2", privacy__epsilon=1.0).text)), Waiting)


def test_a_yes_is_for_one_run_and_a_second_proposal_after_the_first_charge_is_refused(tmp_path: Path) -> None:
    made = federation(tmp_path, site={"policy.ask": True, "budget.epsilon": 4.0})
    made.tell(0, Enter(made.terms(run="wards-1.1").text))
    answer_question(made.sites[0], waiting(made.sites[0], None)[0])
    play(made, made.enter(run="wards-1.1"))
    refusal = made.tell(0, Enter(made.terms(run="wards-1.2").text))
    assert isinstance(refusal, Refused)
    assert "this is another proposal of it; name the run anew" in refusal.reason


@pytest.mark.parametrize(
    "change",
    [
        {"policy.runs": ["nothing"]}, {"policy.most_rounds": 1}, {"policy.clip_norm": 0.1}, {"policy.min_batch": 10**6},
        {"policy.largest_weight": 1e-9}, {"policy.most_epsilon": 0.1},
    ],
)  # fmt: skip
def test_what_an_owner_changes_in_mid_run_holds_from_the_next_charge_on(change: dict[str, Any], tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    play(made, terms)
    values = site_values("site-0", change)
    made.sites[0].write_text(tomli_w.dumps(values))
    assert isinstance(made.tell(0, ask(terms, round=2, acknowledged=1)), Refused)
    assert made.charges() == 1
    assert play(made, terms).charges == 1, "what was paid for is sent again"


def test_a_schema_that_changes_in_mid_run_stops_the_site(tmp_path: Path) -> None:
    made = federation(tmp_path)
    terms = made.enter()
    path = made.sites[0].parent / "schema.toml"
    path.write_text(path.read_text().replace("100]", "90]"))
    assert isinstance(made.tell(0, ask(terms)), Refused)
    assert made.charges() == 0


@pytest.mark.parametrize("change", [{"privacy__epsilon": 0.9}, {"run__rounds": 2}, {"data__bias": 0.2}])
def test_other_terms_under_a_confirmed_name_are_asked_anew(change: dict[str, Any], tmp_path: Path) -> None:
    made = federation(tmp_path, site={"policy.ask": True})
    made.tell(0, Enter(made.terms(run="wards-1.1").text))
    answer_question(made.sites[0], waiting(made.sites[0], None)[0])
    refusal = made.tell(0, Enter(made.terms(run="wards-1.2", **change).text))
    assert isinstance(refusal, Waiting)
    assert made.charges() == 0


def test_the_server_asks_again_until_a_person_has_confirmed_and_then_the_run_begins(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, site={"policy.ask": True}, federation__start_seconds=20.0)
    answered = 0

    def say(line: str) -> None:
        nonlocal answered
        made.said.append(line)
        if "has yet to confirm" in line and answered < 1:
            answered += 1
            for path in made.sites:
                for asked in waiting(path, None):
                    answer_question(path, asked)

    made.said.clear()
    from fedspd.deploy.server.run import Server

    Server(made.grid, made.settings, say).run()
    assert answered == 1
    assert [made.charges(place) for place in (0, 1)] == [3, 3]


def test_a_run_that_nobody_confirms_goes_on_without_that_site(tmp_path: Path) -> None:
    made = federation(tmp_path, 2, federation__start_seconds=1.0)
    made.sites[1].write_text(made.sites[1].read_text().replace("[policy]", "[policy]\nask = true"))
    assert [member.site for member in made.serve().roster] == ["site-0"]
    assert "site-1 is left out: nobody there confirmed the run in time" in made.said


def test_a_site_that_derives_another_plan_from_the_same_terms_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedspd.deploy.site import client

    made = federation(tmp_path, 2, federation__start_seconds=0.5)
    truth, calls = client.agreement_of, []

    def another(agreed: object) -> str:
        calls.append(agreed)
        return "0" * 24 if len(calls) == 2 else truth(agreed)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(client, "agreement_of", another)
    assert [member.site for member in made.serve().roster] == ["site-0"]
    assert any("site-1 is left out: it derives another method or plan" in line for line in made.said), made.said


@pytest.mark.parametrize(
    "change",
    [{"privacy__epsilon": 0.999}, {"run__rounds": 4}, {"problem__clip_norm": 0.499}, {"algorithm__penalty": 1.0}],
)
def test_an_agreement_has_another_digest_as_soon_as_anything_in_it_differs(
    change: dict[str, Any], tmp_path: Path
) -> None:
    from fedspd.deploy.protocol.agreement import agreement_of

    made = federation(tmp_path)
    same, again = (agreement_of(made.terms().agreed(made.schema)) for _ in range(2))
    assert same == again
    assert agreement_of(made.terms(**change).agreed(made.schema)) != same


@pytest.mark.parametrize("order", [("wards-1.1", "wards-1.2"), ("wards-1.2", "wards-1.1")])
def test_of_proposals_that_were_entered_side_by_side_one_is_played(order: tuple[str, str], tmp_path: Path) -> None:
    """A person has confirmed one run: a server that has two proposals of it entered first must not play both."""
    made = federation(tmp_path, 1, site={"policy.ask": True, "budget.epsilon": 4.0})
    made.tell(0, Enter(made.terms(run="wards-1.1").text))
    answer_question(made.sites[0], waiting(made.sites[0], None)[0])
    first, second = (made.enter(run=run) for run in order)
    play(made, first)
    refused = made.tell(0, ask(second))
    assert isinstance(refused, Refused)
    assert "this is another proposal of it; name the run anew" in refused.reason
    play(made, first, round=2)
    assert made.charges() == 2
