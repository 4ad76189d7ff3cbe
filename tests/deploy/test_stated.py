"""What the statement of a run between sites says about where its noise came from."""

from pathlib import Path
from typing import Any

import pytest

from fedspd.report.of_runs.terminal import privacy_statement
from fedspd.report.statement.sections import statement_sections
from fedspd.statement import claimed
from tests.support.deploy.sites import federation

FIXED: dict[str, Any] = {"protected": False, "federation__fixed_draws": True}


@pytest.mark.parametrize(("how", "source"), [(FIXED, "seed"), ({}, "operating system")], ids=["fixed", "of its own"])
def test_noise_that_a_server_fixed_is_not_said_to_be_the_operating_systems(
    how: dict[str, Any], source: str, tmp_path: Path
) -> None:
    run = federation(tmp_path, 2, run__seed=5, **how).server().run()
    statement = claimed(run.record(), run.planned, run.model())
    assert statement["randomness"]["source"] == source
    assert statement["randomness"]["seed"] == (5 if source == "seed" else None)
    for told in (statement_sections(statement)[0].text[0], privacy_statement(run.summary)):
        assert ("whoever has it can subtract" in told) == (source == "seed")
        assert "simulation" not in told
