"""Cache folders of one's own, so that nothing leaks into or from the user's."""

from pathlib import Path

import pytest

from fedspd.studies.reproduce import reproduce
from fedspd.studies.tuning import tune
from tests.studies.made import SMALL, SMALL_SEEDS, STEEP, UNSTABLE, once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fedspd" / "runs"


@pytest.fixture
def small_runs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that holds all runs of the small study and all trials of both configurations that are tuned."""

    def make(folder: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        tune([STEEP, UNSTABLE])
        reproduce([SMALL], SMALL_SEEDS)

    folder = once(tmp_path_factory, "small-runs", make)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder / "fedspd" / "runs"
