"""After a run the ledger's head is in a second place, by a file or by the operator's own program."""

import json
import sys
from pathlib import Path

import pytest

from fedspd.errors import InputError
from fedspd.privacy.accounting import Gaussian
from fedspd.privacy.ledger import Budget, Ledger, SecondPlace, create_ledger

COPY = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    create_ledger(path := tmp_path / "ledger.db")
    with Ledger(path) as opened:
        opened.enter({"north": Budget(1.0, 1e-5)})
        opened.charge("spring", 1, "fedspd", {"north": Gaussian(20.0)})
    return path


def test_a_file_gets_a_line_for_every_run(ledger: Path, tmp_path: Path) -> None:
    place = SecondPlace(tmp_path / "heads")
    for run in ("summer", "autumn"):
        with Ledger(ledger) as opened:
            opened.charge(run, 1, "fedspd", {"north": Gaussian(20.0)})
            place.send(opened)
            head = opened.head
    lines = [json.loads(line) for line in (tmp_path / "heads").read_text().splitlines()]
    assert [(line["run"], line["rows"]) for line in lines] == [("summer", 3), ("autumn", 4)]
    assert lines[-1]["head"] == head.hash
    assert (tmp_path / "heads").stat().st_mode & 0o077 == 0


def test_a_program_gets_the_line_on_its_standard_input_and_no_shell_sees_it(ledger: Path, tmp_path: Path) -> None:
    target = tmp_path / "$(touch odd); 'x'"
    with Ledger(ledger) as opened:
        SecondPlace(program=(sys.executable, "-c", COPY, str(target))).send(opened)
        assert json.loads(target.read_text())["head"] == opened.head.hash
    assert not (tmp_path / "odd").exists()


@pytest.mark.parametrize(
    "program", [("/no/such/program",), (sys.executable, "-c", "raise SystemExit('no room')"), ("a\0b",)]
)
def test_a_copy_that_fails_says_so_and_names_the_line(program: tuple[str, ...], ledger: Path) -> None:
    with Ledger(ledger) as opened, pytest.raises(InputError, match="keep this line yourself") as refused:
        SecondPlace(program=program).send(opened)
    assert '"run":"spring"' in str(refused.value)


def test_a_place_that_is_none_is_none() -> None:
    assert not SecondPlace()
    assert SecondPlace(Path("x"))
