"""Terms of masked runs name their sites, and all sites have everything but their place in common."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from fedspd.config import parse
from fedspd.deploy.protocol.terms import COMMON, Terms, read_terms
from fedspd.errors import InputError

NAMES = ("north", "south", "west")
SECURE = Terms(
    "run-1", parse({"partition": {"clients": 3}}), (120, 127, 134), 1, "0" * 16, "secure", None, members=NAMES,
    threshold=3, colluders=1,
)  # fmt: skip


def test_the_names_of_the_sites_are_read_back_in_their_order() -> None:
    assert read_terms(SECURE.text) == SECURE
    assert read_terms(SECURE.text).members == NAMES
    plain = replace(SECURE, aggregation="plain", members=(), threshold=0, colluders=0)
    assert read_terms(plain.text) == plain


def test_what_sites_have_in_common_is_everything_but_their_place() -> None:
    assert {"config", "place", *COMMON} == {each.name for each in fields(Terms)}
    assert replace(SECURE, place=2).common == SECURE.common
    others = [
        replace(SECURE, run="run-2"), replace(SECURE, members=("south", "north", "west")),
        replace(SECURE, sizes=(120, 127, 135)), replace(SECURE, config=parse({"partition": {"clients": 4}})),
        replace(SECURE, threshold=2), replace(SECURE, colluders=0),
    ]  # fmt: skip
    assert len({terms.common for terms in [SECURE, *others]}) == 7


WRONG: dict[str, dict[str, Any]] = {
    "no names": {"members": []},
    "too few names": {"members": ["north", "south"]},
    "a name that stands twice": {"members": ["north", "south", "north"]},
    "a name of two lines": {"members": ["north", "south\n", "west"]},
    "a name that is too long": {"members": ["north", "s" * 61, "west"]},
    "a name that is a number": {"members": ["north", 7, "west"]},
    "a name that is a list": {"members": ["north", [], "west"]},
    "one text": {"members": "nsw"},
    "nothing at all": {"members": None},
    "names in a plain run": {"aggregation": "plain", "threshold": 0, "colluders": 0},
    "a threshold in a plain run": {"aggregation": "plain", "members": []},
    "a threshold that is no number": {"threshold": "3"},
    "a threshold that is true": {"threshold": True},
    "fewer colluders than none": {"colluders": -1},
}


@pytest.mark.parametrize("what", WRONG)
def test_masked_terms_without_a_name_for_each_site_are_refused_and_plain_ones_with_names(what: str) -> None:
    with pytest.raises(InputError, match=r"^expected (the )?terms"):
        read_terms(json.dumps(json.loads(SECURE.text) | WRONG[what]))
