"""When a run is over, the head of the ledger goes where the owner wants a copy; a failure is told and ends nothing."""

import json
from pathlib import Path

import pytest

from fedspd.deploy.site.serve import copy_head
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Budget, Ledger, create_ledger

SITE = """
[site]
name = "north"
data = "records.csv"
schema = "schema.toml"
{place}
[budget]
epsilon = 1.0
delta = 1e-5
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    create_ledger(tmp_path / "ledger.db")
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.enter({"north": Budget(1.0, 1e-5)})
        ledger.charge("spring", 1, "fedspd", {"north": Gaussian(20.0)})
    return tmp_path


def told(home: Path, place: str) -> list[str]:
    said: list[str] = []
    (home / "site.toml").write_text(SITE.format(place=place))
    copy_head(home / "site.toml", said.append)
    return said


def test_the_head_is_added_to_the_owners_file(home: Path) -> None:
    assert told(home, 'head_file = "heads"\n') == ["the ledger's head was copied to its second place"]
    line = json.loads((home / "heads").read_text())
    with Ledger(home / "ledger.db") as ledger:
        assert (line["run"], line["head"]) == ("spring", ledger.head.hash)


def test_without_a_second_place_nothing_is_said(home: Path) -> None:
    assert told(home, "") == []


def test_a_program_that_fails_is_told_with_the_line_to_keep(home: Path) -> None:
    (said,) = told(home, 'head_command = ["/no/such/program"]\n')
    assert "keep this line yourself" in said
    assert "spring" in said
