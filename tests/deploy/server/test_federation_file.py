"""The federation's file: strict."""

from pathlib import Path
from typing import Any

import pytest

from fedspd.errors import InputError
from tests.support.deploy.sites import federation

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown section": ({"server.rounds": 3}, "unknown section [server]"),
    "an unknown key": ({"federation.qorum": 2}, "did you mean 'quorum'"),
    "more answers than sites": ({"federation.quorum": 4}, "federation.quorum must be at most"),
    "more answers than are asked for": (
        {"federation.quorum": 3, "run.participants": 2},
        "federation.quorum must be at most",
    ),
    "another aggregation": ({"federation.aggregation": "sum"}, "must be one of plain, secure"),
    "a threshold for two stories": (
        {"federation.threshold": 3, "federation.colluders": 3},
        "twice the threshold must be more than the 3 sites plus the colluders",
    ),
    "a threshold above the sites": (
        {"federation.threshold": 4},
        "federation.threshold must be at most the sites there are, 3, or nothing would ever be summed, got 4; lower it",
    ),
    "a threshold of the shared noise above the sites": (
        {
            "federation.aggregation": "secure",
            "federation.quorum": 3,
            "privacy.trust": "secure-sums",
            "privacy.threshold": 4,
        },
        "privacy.threshold must be at most the sites there are, 3, or nothing would ever be summed, got 4; lower it",
    ),
    "a threshold above a cohort": (
        {
            "federation.aggregation": "secure",
            "federation.quorum": 3,
            "privacy.trust": "secure-sums",
            "privacy.cohorts": 2,
            "federation.threshold": 3,
        },
        "federation.threshold must be at most the sites of the smallest of 2 cohorts, 1, or nothing",
    ),
    "a quorum below the threshold": (
        {"federation.aggregation": "secure", "federation.quorum": 2},
        "federation.quorum must be at least 3 for secure aggregation",
    ),
    "no time at all": ({"federation.round_seconds": 0.0}, "federation.round_seconds must be above 0"),
    "how records are dealt": ({"partition.kind": "dirichlet"}, "partition.kind has no effect between real sites"),
    "an engine": ({"run.engine": "jax"}, "run.engine has no effect between real sites"),
    "which columns of Adult": ({"data.columns": "all"}, "data.columns has no effect between real sites: the schema"),
    "a diagnostic": ({"metrics.criterion": False}, "metrics.criterion has no effect between real sites"),
    "a number in words": ({"run.rounds": "3"}, "run.rounds must be a whole number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_slip_in_a_runs_settings_is_refused(what: str, tmp_path: Path) -> None:
    changes, reason = WRONG[what]
    made = federation(tmp_path, 3)
    with pytest.raises(InputError) as caught:
        made.settings_with(changes)
    assert reason in str(caught.value)


def test_settings_are_for_the_sites_that_agree(tmp_path: Path) -> None:
    settings = federation(tmp_path, 3).settings
    assert settings.for_sites(2).partition.clients == settings.for_sites(2).run.participants == 2
    some = federation(tmp_path / "some", 3, run__participants=2).settings.for_sites(3)
    assert (some.partition.clients, some.run.participants) == (3, 2)
