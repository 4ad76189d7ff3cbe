"""A run as Flower's flat configuration has it."""

from pathlib import Path
from typing import Any

import pytest

from fedspd.deploy.server.settings import read_run_config
from fedspd.errors import InputError
from tests.deploy.sites import federation

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no section": ({"rounds": 3}, "must be named section.key, got 'rounds'"),
    "an unknown section": ({"server.rounds": 3}, "unknown section [server]"),
    "an unknown key": ({"deploy.qorum": 2}, "did you mean 'quorum'"),
    "more answers than sites": ({"deploy.quorum": 4}, "deploy.quorum must be at most"),
    "more answers than are asked for": ({"deploy.quorum": 3, "run.participants": 2}, "deploy.quorum must be at most"),
    "another aggregation": ({"deploy.aggregation": "sum"}, "must be one of plain, secure"),
    "no time at all": ({"deploy.round_seconds": 0.0}, "deploy.round_seconds must be above 0"),
    "a number in words": ({"run.rounds": "3"}, "run.rounds must be a whole number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_in_a_runs_settings_is_refused(what: str, tmp_path: Path) -> None:
    changes, reason = WRONG[what]
    made = federation(tmp_path, 3)
    with pytest.raises(InputError) as caught:
        read_run_config(made.values | changes)
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["deploy.folder", "deploy.schema"])
def test_what_has_no_default_must_be_said(name: str, tmp_path: Path) -> None:
    values = federation(tmp_path).values
    del values[name]
    with pytest.raises(InputError, match=f"{name} is needed"):
        read_run_config(values)


def test_settings_are_for_the_sites_that_agree(tmp_path: Path) -> None:
    settings = federation(tmp_path, 3).settings
    assert settings.for_sites(2).partition.clients == settings.for_sites(2).run.participants == 2
    some = read_run_config(federation(tmp_path / "some", 3, run__participants=2).values).for_sites(3)
    assert (some.partition.clients, some.run.participants) == (3, 2)
