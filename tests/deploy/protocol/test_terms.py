"""Terms: the same text for the same run, another name for any other, and the same method on both sides."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fedspd.algorithms import METHODS
from fedspd.config import changed
from fedspd.deploy.protocol.messages import Enter, Entered, Refused
from fedspd.deploy.protocol.terms import Terms, digest_of, read_terms
from fedspd.errors import InputError
from fedspd.reading import setting
from fedspd.target import Count
from tests.support.deploy.shared import sharing
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


SHARED: dict[str, tuple[dict[str, Any], str]] = {
    # what a server changes in terms under which sites share noise: what a site says
    "no masks": ({"aggregation": "plain", "members": (), "threshold": 0, "colluders": 0}, "needs masks, got"),
    "two cohorts, of which nobody is": ({"privacy.cohorts": 2}, "expected terms that fit together"),
    "another threshold": ({"privacy.threshold": 5}, "privacy.threshold must be that of the federation, 4, got 5"),
    "other colluders": ({"privacy.colluders": 0}, "privacy.colluders must be that of the federation, 1, got 0"),
    "open numbers": ({"privacy.threshold": None}, "expected terms that fit together"),
    "every client counts the same": ({"problem.counts": "clients"}, "secure sums count every record the same"),
    "some of the sites": ({"run.participants": 4}, "run.participants must be whole cohorts"),
    "several local steps": ({"algorithm.local_steps": 2}, "secure sums need one local step from the server's weights"),
    "small batches": ({"algorithm.batch_size": 20}, "averaged over at least 20 records here, not over 18"),
    "large batches": ({"algorithm.batch_size": 500}, "at most the records of a client on average, 134"),
    "another method": (
        {"algorithm.name": "dp-fedavg"}, "needs a method whose round is one Gaussian release of a gradient",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SHARED)
def test_a_site_says_which_shared_noise_it_takes_no_part_in(what: str, tmp_path: Path) -> None:
    changes, why = SHARED[what]
    made = sharing(tmp_path)
    config = changed(made.terms().config, {name: value for name, value in changes.items() if "." in name})
    others = {name: value for name, value in changes.items() if "." not in name}
    refused = made.tell(0, Enter(replace(made.terms(), config=config, **others).text))
    assert isinstance(refused, Refused)
    assert why in refused.reason
    assert isinstance(made.tell(0, Enter(made.terms().text)), Entered)


def test_a_federations_file_that_shares_noise_without_masks_or_against_its_own_numbers_is_refused(
    tmp_path: Path,
) -> None:
    made = sharing(tmp_path)
    for change, why in (
        ({"federation.aggregation": "plain"}, "needs masks"),
        ({"privacy.threshold": 5}, "must be that of the federation, 4"),
    ):
        with pytest.raises(InputError, match=why):
            made.settings_with(change)
    config = made.settings_with({"privacy.threshold": 4}).for_sites(5)
    assert (config.privacy.cohorts, config.privacy.threshold, config.privacy.colluders) == (1, 4, 1)


def test_a_target_without_classes_is_not_deployed(tmp_path: Path) -> None:
    made = federation(tmp_path)
    counted = replace(made.schema, target=Count("visits", 20.0))
    with pytest.raises(InputError, match=r"^a deployed run predicts classes, got 'visits', which is a count; declare"):
        made.terms().agreed(counted)
