"""Terms: the same text for the same run, another name for any other, and the same method on both sides."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedspd.algorithms import METHODS
from fedspd.config import changed
from fedspd.deploy.protocol.messages import Enter, Refused
from fedspd.deploy.protocol.terms import Terms, digest_of, read_terms
from fedspd.errors import InputError
from fedspd.reading import setting
from fedspd.target import Count
from tests.support.deploy.sites import federation


@pytest.fixture
def terms(tmp_path: Path) -> Terms:
    return federation(tmp_path, 3).terms(1)


def test_terms_are_read_back_as_they_were(terms: Terms) -> None:
    back = read_terms(terms.text)
    assert (back, back.text, back.digest) == (terms, terms.text, terms.digest)
    fixed = replace(terms, draws=7)
    assert read_terms(fixed.text) == fixed


def test_terms_that_differ_in_anything_have_another_digest(terms: Terms) -> None:
    others = [
        replace(terms, run="run-2"), replace(terms, place=2), replace(terms, sizes=(120, 127, 135)),
        replace(terms, schema="0" * 16), replace(terms, draws=0), replace(terms, aggregation="secure"),
        replace(terms, config=changed(terms.config, {"run.rounds": 4})),
        replace(terms, config=changed(terms.config, {"problem.clip_norm": 0.5000000000000001})),
    ]  # fmt: skip
    digests = {digest_of(other.text) for other in [terms, *others]}
    assert len(digests) == 1 + len(others)


def test_server_and_site_derive_the_same_plan(terms: Terms, tmp_path: Path) -> None:
    schema = federation(tmp_path / "other").schema
    mine, theirs = terms.agreed(schema), read_terms(terms.text).agreed(schema)
    assert (mine.algorithm, mine.rounds) == (theirs.algorithm, theirs.rounds)
    assert mine.plan.groups == theirs.plan.groups


WRONG: dict[str, dict[str, Any]] = {
    "no name": {"run": ""},
    "a name that is a number": {"run": 1},
    "a place before the first": {"place": -1},
    "a place beyond the last": {"place": 3},
    "a place in words": {"place": "first"},
    "sizes of fewer sites": {"sizes": [1, 2]},
    "sizes in words": {"sizes": ["many", "few", "none"]},
    "no sizes": {"sizes": None},
    "unknown aggregation": {"aggregation": "sum"},
    "draws in words": {"draws": "0"},
    "draws by a fraction": {"draws": 0.5},
    "an unknown field": {"more": 1},
    "no configuration": {"config": None},
    "a name of two lines": {"run": "run\n1"},
    "a name that is too long": {"run": "r" * 81},
}


@pytest.mark.parametrize("what", WRONG)
def test_terms_that_do_not_fit_together_are_refused(what: str, terms: Terms) -> None:
    with pytest.raises(InputError, match=r"^expected (the )?terms"):
        read_terms(json.dumps(json.loads(terms.text) | WRONG[what]))


def test_a_setting_that_is_wrong_is_named(terms: Terms) -> None:
    for section, key, value in (("algorithm", "name", "fedmagic"), ("run", "rounds", "3"), ("run", "attack", 1)):
        with pytest.raises(InputError, match=rf"{section}\.{key}"):
            read_terms(with_setting(terms, section, key, value))


def with_setting(terms: Terms, section: str, key: str, value: Any) -> str:
    """The terms as a server sends them that sets this, too."""
    values = json.loads(terms.text)
    values["config"][section][key] = value
    return json.dumps(values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("privacy.noise_multiplier", 0.1),
        ("problem.ratio", 0.5),
        ("data.moments_share", 0.5),
        ("data.deviation_floor", 1e-9),
    ],
)
def test_a_setting_that_nobody_would_read_is_refused(name: str, value: float, terms: Terms) -> None:
    section, _, key = name.partition(".")
    with pytest.raises(InputError, match=r"would have no effect, got .*; it needs ") as refusal:
        read_terms(with_setting(terms, section, key, value))
    assert name in str(refusal.value)


def test_a_refusal_does_not_tell_which_methods_somebody_brought(terms: Terms, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that is near the name of a guess, nor one that has the setting of a guess, nor the one guessed."""

    @dataclass(frozen=True)
    class Secret:
        antidote: float = setting(1.0, "what only the brought method has")

    brought = replace(METHODS["fedspd"], name="fedsecret", settings=Secret)
    monkeypatch.setattr(METHODS, "_brought", {})
    METHODS.register(brought)
    said = []
    for key, value in (("name", "fedsecre"), ("name", "fedsecret"), ("name", "fedmagic"), ("antidote", 2.0)):
        with pytest.raises(InputError, match=rf"^algorithm\.{key} must be ") as refusal:
            read_terms(with_setting(terms, "algorithm", key, value))
        said.append(str(refusal.value).replace(f"got {value!r}", ""))
    assert said[0] == said[1] == said[2]
    assert "fedsecret" not in "".join(said)


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "1", '"terms"', "{" * 9])
def test_texts_that_are_no_terms_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected the terms of a run"):
        read_terms(text)


@pytest.mark.parametrize("changes", [{"data__scaling": "z-score"}, {"data__scaling": "none"}])
def test_what_cannot_be_deployed_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    made = federation(tmp_path)
    with pytest.raises(InputError, match=r"needs data\.row_norm and data\.scaling = noisy-moments or min-max"):
        made.terms(**changes).agreed(made.schema)
    del made.values["data.row_norm"]
    with pytest.raises(InputError, match=r"needs data\.row_norm"):
        made.terms().agreed(made.schema)


@pytest.mark.parametrize("aggregation", ["plain", "secure"])
def test_noise_that_members_share_is_not_deployed_and_a_site_says_so(aggregation: str, tmp_path: Path) -> None:
    made = federation(
        tmp_path, 5, federation__aggregation=aggregation, federation__quorum=4, privacy__trust="secure-sums",
        problem__counts="records",
    )  # fmt: skip
    refused = made.tell(0, Enter(made.terms().text))
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("a deployed run needs privacy.trust = each-upload, got secure-sums")


def test_a_target_without_classes_is_not_deployed(tmp_path: Path) -> None:
    made = federation(tmp_path)
    counted = replace(made.schema, target=Count("visits", 20.0))
    with pytest.raises(InputError, match=r"^a deployed run predicts classes, got 'visits', which is a count; declare"):
        made.terms().agreed(counted)
