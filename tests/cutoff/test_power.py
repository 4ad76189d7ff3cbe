"""Power cuts at any moment: from whatever the disk still holds, the work ends as if nothing had happened."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedspd.privacy.ledger import create_ledger
from fedspd.results import read_work
from fedspd.results.work import write_work
from tests.support.cut_off import call, charges, run_files, table_rows
from tests.support.power import Disk, recorded, same_tree

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")]

TINY = (
    "--set=data.name=breast-cancer", "--set=partition.clients=8", "--set=run.rounds=4", "--set=run.participants=5",
)  # fmt: skip
RUN = ("run", *TINY, "--quiet", "--checkpoint-every=0", "--out=new/folder/out")
SWEEP = ("sweep", *TINY, "--grid=privacy.epsilon=1,2", "--seeds=1", "--engine=numpy", "--json", "--out=new/folder/out")
OUT = Path("new/folder/out")
MOMENTS = 14


def cuts(folder: Path, notes: list[list[str]], early_names: bool, moments: int, seed: int) -> list[Path]:
    """What the disk holds after some of the moments, each state once."""
    chosen = sorted(
        np.random.default_rng(seed).choice(len(notes), size=min(moments, len(notes)), replace=False).tolist()
    )
    disk, found = Disk(str(folder / "root")), []
    for number, note in enumerate(notes):
        disk.play(*note)
        if number in chosen:
            disk.write(to := folder / f"cut-{int(early_names)}-{number}", early_names)
            if found and same_tree(found[-1], to):
                shutil.rmtree(to)
            else:
                found.append(to)
    return found


def goes_on(folder: Path, command: tuple[str, ...]) -> None:
    """Whoever comes back after the cut takes up what was begun, or begins it."""
    if "--ledger=shared.sqlite" in command and not (folder / "shared.sqlite").exists():
        create_ledger(folder / "shared.sqlite")
    resumes = (folder / OUT / "unfinished.json").exists()
    if not resumes and (folder / OUT / "summary.json").exists():
        return
    if resumes:  # the disk is another one here
        write_work(folder / OUT, replace(read_work(folder / OUT), started_in=str(folder)))
    process = call(folder, ["resume", str(OUT)] if resumes else command)
    process.join()
    assert process.exitcode == 0, (folder.name, sorted((folder / OUT).glob("*")), (folder / "said").read_text()[-1500:])


@pytest.mark.parametrize("early_names", [False, True])
@pytest.mark.parametrize("shared", [pytest.param(False, marks=pytest.mark.lengthy), True])
def test_a_run_goes_on_after_a_power_cut_and_is_charged_once(tmp_path: Path, shared: bool, early_names: bool) -> None:
    command, ledger = RUN, OUT / "ledger.sqlite"
    if shared:
        command, ledger = (*RUN, "--ledger=shared.sqlite"), Path("shared.sqlite")
    notes = recorded(tmp_path, [] if not shared else ["ledger", "create", "shared.sqlite"], command)
    whole = tmp_path / "root"
    for folder in cuts(tmp_path, notes, early_names, MOMENTS, 1):
        goes_on(folder, command)
        assert run_files(folder / OUT) == run_files(whole / OUT), folder.name
        assert charges(folder / ledger) == charges(whole / ledger), folder.name


@pytest.mark.parametrize("early_names", [False, pytest.param(True, marks=pytest.mark.lengthy)])
def test_a_sweep_goes_on_after_a_power_cut(tmp_path: Path, early_names: bool) -> None:
    notes = recorded(tmp_path, [], SWEEP)
    for folder in cuts(tmp_path, notes, early_names, MOMENTS // 3, 2):
        goes_on(folder, SWEEP)
        assert table_rows(folder / OUT / "table.csv") == table_rows(tmp_path / "root" / OUT / "table.csv"), folder.name
