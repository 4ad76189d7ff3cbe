"""Two hundred kills at random moments: whatever was cut off ends as if nobody had, and nobody pays twice."""

import json
import random
from pathlib import Path

import pytest

from fedspd.privacy.ledger import create_ledger, verify
from tests.support.cut_off import Killer, charges, run_files, table_rows, timed

pytestmark = pytest.mark.slow

CLIENTS = 8
TINY = (
    "--set=data.name=breast-cancer", f"--set=partition.clients={CLIENTS}", "--set=run.rounds=12",
    "--set=run.participants=5",
)  # fmt: skip
RUN = ("run", *TINY, "--quiet", "--checkpoint-every=0")
PUBLISHED = ("run", "published", *TINY, "--set=algorithm.batch_size=5", "--quiet", "--checkpoint-every=0")
SWEEP = ("sweep", *TINY, "--grid=privacy.epsilon=1,2", "--seeds=2", "--engine=numpy", "--json")
COMPARE = (
    "compare", "--data=breast-cancer", "--method=fedspd", "--epsilon=1", "--deal=iid", "--participation=full",
    "--seeds=1", "--uploads=2", "--json",
)  # fmt: skip
REPRODUCE = ("reproduce", "fig6", "--seeds=1", "--json")
AUDIT = ("audit", *TINY, "--runs=60000", "--quiet")
CHAIN = 12  # kills of one piece of work, at most


def killed(folder: Path, command: tuple[str, ...], kills: int, seed: int, ledger: bool = False) -> list[Path]:
    """Folders of work that was done in spite of so many kills; the first was left alone."""
    (folder / "whole").mkdir()
    if ledger:
        create_ledger(folder / "whole" / "shared.sqlite")
    killer = Killer(random.Random(seed), timed(folder / "whole", (*command, "--out", "out")))
    done = [folder / "whole"]
    while killer.kills < kills:
        done.append(folder / f"cut-{len(done)}")
        done[-1].mkdir()
        if ledger:
            create_ledger(done[-1] / "shared.sqlite")
        killer.finish(done[-1], command, "out", min(CHAIN, kills - killer.kills))
    return done


@pytest.mark.parametrize(
    "seed", [pytest.param(1, marks=pytest.mark.lengthy), 2, pytest.param(3, marks=pytest.mark.lengthy)]
)
def test_runs_on_ledgers_of_their_own(tmp_path: Path, seed: int) -> None:
    whole, *cut = killed(tmp_path, RUN, 26, seed)
    for folder in cut:
        assert run_files(folder / "out") == run_files(whole / "out")
        assert charges(folder / "out" / "ledger.sqlite") == charges(whole / "out" / "ledger.sqlite")


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_runs_on_a_shared_ledger(tmp_path: Path, seed: int) -> None:
    whole, *cut = killed(tmp_path, (*RUN, "--ledger=shared.sqlite"), 20, seed, ledger=True)
    for folder in cut:
        assert run_files(folder / "out") == run_files(whole / "out")
        assert charges(folder / "shared.sqlite") == charges(whole / "shared.sqlite")


def test_runs_that_hold_records_out_by_a_key(tmp_path: Path) -> None:
    _, *cut = killed(tmp_path, (*RUN, "--set=evaluation.held_out=0.2"), 12, 7)
    for folder in cut:
        rows = charges(folder / "out" / "ledger.sqlite")
        assert len({row[1] for row in rows}) == 1, "one run, however often it was cut off"
        assert verify(folder / "out" / "ledger.sqlite").charges == len(rows)


def test_runs_without_a_ledger(tmp_path: Path) -> None:
    whole, *cut = killed(tmp_path, PUBLISHED, 24, 8)
    for folder in cut:
        assert run_files(folder / "out") == run_files(whole / "out")


def test_runs_whose_seed_was_drawn_and_is_kept_until_they_are_done(tmp_path: Path) -> None:
    _, *cut = killed(tmp_path, (*RUN, "--set=run.seed="), 20, 9)
    for folder in cut:
        rows = charges(folder / "out" / "ledger.sqlite")
        uploads = json.loads((folder / "out" / "summary.json").read_text())["uploads"]
        assert len(rows) == uploads + CLIENTS, "each upload once, and the moments of all"
        assert len({row[1] for row in rows}) == 1, "one draw"


def test_sweeps(tmp_path: Path) -> None:
    whole, *cut = killed(tmp_path, SWEEP, 6, 10)
    for folder in cut:
        assert table_rows(folder / "out" / "table.csv") == table_rows(whole / "out" / "table.csv")
        assert {path.name for path in (folder / "out").iterdir()} == {path.name for path in (whole / "out").iterdir()}


@pytest.mark.lengthy
def test_comparisons(tmp_path: Path) -> None:
    whole, *cut = killed(tmp_path, COMPARE, 2, 11)
    for folder in cut:
        assert table_rows(folder / "out" / "leaderboard.csv") == table_rows(whole / "out" / "leaderboard.csv")


@pytest.mark.lengthy
def test_reproductions(tmp_path: Path) -> None:
    whole, *cut = killed(tmp_path, REPRODUCE, 4, 13)
    for folder in cut:
        assert {path.name for path in (folder / "out").iterdir()} == {path.name for path in (whole / "out").iterdir()}
        assert table_rows(folder / "out" / "curves.csv") == table_rows(whole / "out" / "curves.csv")


def test_audits(tmp_path: Path) -> None:
    whole, *cut = killed(tmp_path, AUDIT, 12, 12)
    for folder in cut:
        found = [{path.name: path.read_bytes() for path in (each / "out").iterdir()} for each in (folder, whole)]
        assert found[0] == found[1]
