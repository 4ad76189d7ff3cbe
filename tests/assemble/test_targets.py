"""Runs on numbers and counts: from a table to a summary, with the measures of their kind."""

import json
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import (
    balanced_accuracy_score,
    d2_tweedie_score,
    mean_absolute_error,
    mean_poisson_deviance,
    r2_score,
)

import fedspd
from fedspd import InputError
from fedspd.algorithms import METHODS
from fedspd.assemble import Run
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.run import execute
from fedspd.audit.replay import attack
from fedspd.config import Config, load
from fedspd.data import SOURCES, Cells, Numeric, Schema, Source, Table
from fedspd.engine.measuring.measures import explained, measures_on
from fedspd.problem import Huber, LeastSquares, Poisson
from fedspd.report.figures import run_charts
from fedspd.report.of_runs.terminal import summary_table
from fedspd.results import from_dict, to_json
from fedspd.target import Count, Number
from tests.support.small_runs import asked_for

AGE, VISITS = Number("y", 20.0, 100.0), Count("y", 30.0, 3.0)
INPUTS = tuple(Numeric(name, -1.0, 1.0, 0.0, linear=True) for name in "abc")
SMALL: dict[str, Any] = {
    "data.columns": None, "data.log_capital": None, "data.scaling": "min-max", "data.row_norm": 2.0, "data.bias": 1.0,
    "partition.clients": 8, "run.participants": 8, "run.rounds": 25,
}  # fmt: skip


@dataclass(frozen=True)
class NoSettings:
    """None."""


def made(target: Number | Count, records: int, seed: int) -> Table:
    """Labels that follow from the features but for some noise."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (records, 3))
    score = features @ np.array([1.0, -0.7, 0.3])
    values = (
        rng.poisson(3 * np.exp(score)) if isinstance(target, Count) else 60 + 20 * score + rng.normal(0, 5, records)
    )
    return Table(features, target.labels(values), ("a", "b", "c"), (), target=target)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Data sets of a number and of a count."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert isinstance(SOURCES, dict)
    for name, target in (("ages", AGE), ("visits", VISITS)):
        cells = Cells(made(target, 4000, 0), made(target, 900, 1), Schema(INPUTS, target))
        read, schema = (lambda _, cells=cells: cells), (lambda _, cells=cells: cells.schema)
        monkeypatch.setitem(SOURCES, name, Source(NoSettings, read, schema))


def settings(data: str, name: str = "fedspd", **changes: Any) -> Config:
    preset = "proved" if METHODS[name].guarantee == "proved" else "published"
    own = {key: value for key, value in asked_for(METHODS[name]).items() if not key.startswith("run.")}
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    unnamed = {"problem.loss": None, "algorithm.name": name, "run.engine": "numpy"}
    return load(preset, {**SMALL, **own, "data.name": data, **unnamed, **dotted}, {"privacy.epsilon": 8.0})


def finished(config: Config) -> tuple[Experiment, Run]:
    experiment = prepare_experiment(config)
    return experiment, execute(experiment)


def measured_on(experiment: Experiment) -> Table:
    assert experiment.simulation.test is not None
    return experiment.simulation.test


def test_a_proved_run_learns_a_number_and_is_measured_as_scikit_learn_measures() -> None:
    experiment, run = finished(settings("ages"))
    test, summary = measured_on(experiment), run.summary
    truth, told = AGE.values(test.labels), AGE.values((test.features @ run.weights)[:, 0])
    assert (summary.guarantee, experiment.simulation.algorithm.objective.loss) == ("proved", LeastSquares(False))
    assert summary.test_explained == pytest.approx(r2_score(truth, told))
    assert summary.test_mae == pytest.approx(mean_absolute_error(truth, told))
    assert summary.trivial_mae == pytest.approx(np.mean(np.abs(truth - truth.mean())))
    assert 0.4 < summary["test_explained"] <= summary["optimum_explained"] + 0.01 < 1
    assert run.history.last("test_explained") == pytest.approx(summary.test_explained)
    for name in ("test_accuracy", "majority_accuracy", "test_accuracy_average"):
        assert np.isnan(summary[name])


def test_a_proved_run_learns_a_count_and_is_measured_as_scikit_learn_measures() -> None:
    experiment, run = finished(settings("visits"))
    test, summary = measured_on(experiment), run.summary
    rates = np.clip(3 * np.exp((test.features @ run.weights)[:, 0]), 0.003, 30)
    assert experiment.simulation.algorithm.objective.loss == Poisson(30.0, 3.0)
    assert summary.test_explained == pytest.approx(d2_tweedie_score(test.labels, rates, power=1))
    assert summary.test_deviance == pytest.approx(mean_poisson_deviance(test.labels, rates))
    assert summary.trivial_deviance == pytest.approx(
        mean_poisson_deviance(test.labels, np.full(len(test), test.labels.mean()))
    )
    assert 0.2 < summary["test_explained"] <= summary["optimum_explained"] + 0.01 < 1
    assert np.isnan(run.history["test_accuracy"]).all()


def test_a_run_on_classes_says_balanced_accuracy_and_what_the_optimum_reaches_and_nothing_of_other_kinds() -> None:
    small = {"partition.clients": 8, "run.participants": 8, "run.rounds": 2, "run.engine": "numpy"}
    experiment, run = finished(load("proved", small))
    test, said = measured_on(experiment), run.summary.to_dict()
    predicted = np.argmax(test.features @ run.weights, axis=1)
    assert said["test_balanced_accuracy"] == pytest.approx(balanced_accuracy_score(test.labels, predicted))
    assert 0.8 < said["optimum_accuracy"] < 0.9
    assert said["optimum_loss"] < said["test_loss"]
    assert not said.keys() & {"test_explained", "test_mae", "trivial_mae", "test_deviance", "optimum_explained"}
    assert np.isnan(run.history["test_explained"]).all()


def test_huber_has_its_threshold_and_no_other_loss_has_one() -> None:
    config = settings("ages", problem__loss="huber", problem__threshold=0.2, problem__regularizer="elastic-net")
    experiment, run = finished(config)
    assert experiment.simulation.algorithm.objective.loss == Huber(0.2)
    assert run.summary.test_explained is not None
    assert run.summary.test_explained > 0.4
    with pytest.raises(
        InputError, match=r"^problem.threshold would have no effect, got 0.2; it needs problem.loss = h"
    ):
        settings("ages", problem__threshold=0.2)


@pytest.mark.parametrize("data", ["ages", "visits"])
def test_both_engines_measure_the_same_kind(data: str) -> None:
    pytest.importorskip("jax")
    _, run = finished(settings(data, run__engine="jax"))
    _, other = finished(settings(data))
    assert np.isfinite(run.history["test_explained"]).all()
    assert np.isnan(run.history["test_accuracy"]).all()
    assert run.history.last("test_explained") == pytest.approx(other.history.last("test_explained"), abs=0.15)


@pytest.mark.parametrize("data", ["ages", "visits"])
@pytest.mark.parametrize("name", [name for name in METHODS.built_in if name != "dp-lr-admm"])
def test_every_method_but_the_one_for_flipped_classes_takes_numbers_and_counts(name: str, data: str) -> None:
    rounds = 1 if METHODS[name].needs.one_round else 3
    cheap = {"metrics__criterion": False, "run__rounds": rounds}
    _, run = finished(settings(data, name, **cheap))
    assert np.isfinite(run.weights).all()
    assert run.summary.test_explained is not None


@pytest.mark.parametrize(("data", "loss"), [("ages", "LeastSquares"), ("visits", "Poisson")])
def test_a_method_that_flips_classes_refuses_what_has_none(data: str, loss: str) -> None:
    with pytest.raises(InputError, match=rf"flipped labels of two classes, got {loss} with 1 outputs; set .* or use"):
        prepare_experiment(settings(data, "dp-lr-admm"))


def test_a_loss_for_another_kind_is_refused_with_those_that_fit() -> None:
    with pytest.raises(InputError, match=r"softmax predicts classes, got a number; use least-squares or huber\."):
        prepare_experiment(settings("ages", problem__loss="softmax"))
    with pytest.raises(InputError, match=r"poisson predicts a count, got 2 classes; use softmax or least-squares or"):
        fedspd.run("proved", {"problem.loss": "poisson"})


@pytest.mark.parametrize(("data", "error"), [("ages", "mean absolute error"), ("visits", "mean deviance")])
def test_people_are_shown_what_is_explained_in_place_of_accuracy(data: str, error: str) -> None:
    _, run = finished(settings(data, metrics__criterion=False))
    console, read = Console(width=160, file=StringIO()), from_dict(json.loads(to_json(run.summary.to_dict())))
    console.print(summary_table(read))
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert f"{100 * run.history.last('test_explained'):.2f} %  ({error}" in text
    assert "explained of the test set" in text
    assert "test accuracy" not in text
    chart = run_charts(read, run.history)[0]
    assert (chart.title, chart.references) == ("Explained of the test set", (("mean", 0.0),))
    assert chart.series[0].y == tuple(100 * run.history["test_explained"])


def test_a_constraint_that_noise_leaves_is_no_error() -> None:
    _, run = finished(settings("ages", problem__regularizer="box", problem__strength=0.1))
    assert run.summary.optimum_explained is not None
    assert np.isfinite(run.summary.optimum_explained)


def test_where_rounds_are_left_open_there_are_enough_for_steps_that_do_not_overshoot() -> None:
    open_rounds = {"run__rounds": None, "metrics__criterion": False}
    for data in ("ages", "visits"):
        experiment = prepare_experiment(settings(data, **open_rounds))
        algorithm = experiment.simulation.algorithm
        assert 20 <= experiment.simulation.rounds <= 500
        told = algorithm.broadcast(algorithm.start(np.zeros((1, 4, 1)))[0], 1)
        assert told.inverse_step + algorithm.penalty >= 4.0  # rows are 2 long


def test_a_model_that_is_not_finite_and_labels_that_are_all_the_same_have_no_measure() -> None:
    table, loss = made(AGE, 50, 0), LeastSquares(of_classes=False)
    models = np.stack([np.zeros((3, 1)), np.full((3, 1), np.nan)])
    assert np.isfinite(explained(loss, table, models)).tolist() == [True, False]
    assert np.isnan(measures_on(table, loss, models[1], models[0])["test_mae"])
    assert np.isnan(explained(loss, replace(table, labels=np.zeros(50)), models)).all()


@pytest.mark.parametrize("data", ["ages", "visits"])
def test_the_replay_attack_uses_the_labels_that_move_numbers_and_counts_most(data: str) -> None:
    """With classes for labels it found a fifteenth of what a count up to a thousand can do."""
    algorithm = prepare_experiment(settings(data, metrics__criterion=False)).simulation.algorithm
    found = attack(algorithm, 2.0)
    assert 0.75 < found.worst_ratio <= 1 + 1e-9
    assert not found.state_differs
