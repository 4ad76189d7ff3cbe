"""Methods by name, each loaded alone or with all others."""

import pytest

from fedspd.algorithms import METHODS


@pytest.mark.parametrize("name", METHODS.built_in)
def test_a_method_asked_for_alone_is_the_one_that_is_listed(name: str) -> None:
    assert METHODS.own(name) is METHODS.built_in[name]


@pytest.mark.parametrize("name", ["", "-", "fedspd_published", "dp_admm", "..", "fedspd.algorithms", "__init__", "os"])
def test_a_name_that_no_method_bears_finds_none(name: str) -> None:
    assert METHODS.own(name) is None
    assert name not in METHODS
