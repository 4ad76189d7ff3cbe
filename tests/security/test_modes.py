"""What holds secrets, records or numbers without noise is for its owner alone, under the usual umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedspd.data import write_shards
from fedspd.results import Cache, cache_folder
from tests.security.commands import BUDGET, OWN, command, write_own_table


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a table, a cache of its own, and the umask that most systems have."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    write_own_table(tmp_path)
    yield tmp_path
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_run_on_ones_own_table_is_for_its_owner_and_so_are_predictions(home: Path) -> None:
    command("run", *OWN, *BUDGET, "--out", "runs/own")
    command("predict", "runs/own", "t.csv", "--id", "person", "--out", "predictions.csv")
    assert mode(home / "runs" / "own") == 0o700
    assert mode(home / "runs" / "own" / "ledger.sqlite") == 0o600
    assert mode(home / "predictions.csv") == 0o600


def test_a_run_on_public_records_is_as_open_as_the_umask_allows(home: Path) -> None:
    command(
        "run", "--set", "run.rounds=2", "--set", "partition.clients=5", "--set", "run.participants=5", "--out", "it"
    )
    assert (mode(home / "it"), mode(home / "it" / "summary.json")) == (0o755, 0o644)
    assert mode(home / "it" / "ledger.sqlite") == 0o600


def test_a_sweep_over_ones_own_table_is_for_its_owner(home: Path) -> None:
    budget = ("--set", "privacy.epsilon=5", "--set", "privacy.delta=1e-3")
    command("sweep", *OWN, *budget, "--grid", "algorithm.inverse_step=1.0,2.0", "--seeds", "1", "--out", "own")
    assert mode(home / "own") == 0o700


def test_a_study_of_ones_own_table_is_for_its_owner_and_so_is_what_it_keeps(home: Path) -> None:
    command(
        "compare", *OWN[:-2], "--epsilon", "3", "--seeds", "1", "--method", "fedspd", "--uploads", "2", "--out", "own"
    )
    assert mode(home / "own") == 0o700
    kept = [*cache_folder("runs").iterdir()]
    assert kept
    assert {mode(path) for path in kept} == {0o600}
    assert mode(cache_folder("runs")) == 0o700


def test_a_cache_that_an_earlier_version_left_open_is_closed_when_it_is_next_written() -> None:
    cache_folder("kind").mkdir(parents=True, mode=0o755)
    Cache("kind").write("key", {"array": np.ones(2)})
    assert (mode(cache_folder("kind")), mode(cache_folder("kind") / "key.npz")) == (0o700, 0o600)


def test_folders_of_encoded_records_are_for_their_owner(home: Path) -> None:
    write_shards(home / "new" / "shards", np.array([2, 1]), [(np.ones((3, 2)), np.zeros(3, int))])
    assert mode(home / "new" / "shards") == 0o700
    write_shards(home, np.array([2, 1]), [(np.ones((3, 2)), np.zeros(3, int))])
    assert {mode(home / f"{name}.npy") for name in ("features", "labels")} == {0o600}
