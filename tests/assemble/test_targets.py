"""Runs on numbers and counts: from a table to a summary, with the measures of their kind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, d2_tweedie_score, mean_absolute_error, r2_score

import fedspd
from fedspd import InputError
from fedspd.algorithms import METHODS
from fedspd.assemble.build import prepare_experiment
from fedspd.assemble.run import execute
from fedspd.config import Config, load
from fedspd.data import SOURCES, Cells, Numeric, Schema, Source, Table
from fedspd.data import source as sources
from fedspd.engine.jax_engine.session import installed
from fedspd.problem import Huber, LeastSquares, Poisson
from fedspd.report.figures import run_charts
from fedspd.report.terminal import summary_table
from fedspd.results import from_dict
from fedspd.target import Count, Number, Target
from tests.support.small_runs import asked_for

AGE, VISITS = Number("age", 20.0, 100.0), Count("visits", 30.0, 3.0)
SCHEMA = Schema((Numeric("a", -1.0, 1.0), Numeric("b", -1.0, 1.0), Numeric("c", -1.0, 1.0)), "y", ("no", "yes"))
SMALL: dict[str, Any] = {
    "data.columns": None, "data.log_capital": None, "data.scaling": "min-max", "partition.clients": 8,
    "run.participants": 8, "run.rounds": 5, "privacy.epsilon": 8.0, "run.engine": "numpy",
}  # fmt: skip


@dataclass(frozen=True)
class NoSettings:
    """None."""


def made(target: Target, records: int, seed: int) -> Table:
    """Labels that follow from the features but for some noise."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (records, 3))
    score = features @ np.array([1.0, -0.7, 0.3])
    values = (
        rng.poisson(3 * np.exp(score)) if isinstance(target, Count) else 60 + 20 * score + rng.normal(0, 5, records)
    )
    return Table(features, target.labels(values), SCHEMA.columns, (), target=target)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Data sets of a number and of a count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read = {
        name: Source(NoSettings, lambda _, cells=Cells(made(target, 4000, 0), made(target, 900, 1), SCHEMA): cells)
        for name, target in (("ages", AGE), ("visits", VISITS))
    }
    assert isinstance(SOURCES, dict) and SOURCES is sources.SOURCES
    for name, source in read.items():
        monkeypatch.setitem(SOURCES, name, source)
    yield


def settings(data: str, name: str = "fedspd", **changes: Any) -> Config:
    preset = "proved" if METHODS[name].guarantee == "proved" else "published"
    own = {key: value for key, value in asked_for(METHODS[name]).items() if not key.startswith("run.")}
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return load(preset, {**SMALL, **own, "data.name": data, "algorithm.name": name, **dotted})
