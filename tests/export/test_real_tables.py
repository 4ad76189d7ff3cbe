"""Models that were trained on real tables predict the same by fedspd, scikit-learn and a runtime of ONNX."""

import io
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
import pytest

from fedspd.assemble import Run, execute, prepare_experiment
from fedspd.config import load
from fedspd.data import SOURCES, Categorical
from fedspd.data.boxed import Columns, read_boxed
from fedspd.export import exported
from fedspd.results import write_run
from fedspd.scoring.model import Model, load_model
from tests.support.small_runs import SMALL


def trained(name: str, folder: Path) -> tuple[Run, Model]:
    run = execute(prepare_experiment(load("proved", {**SMALL, "data.name": name, "privacy.epsilon": 8.0})))
    write_run(folder, run.record(), run.model())
    return run, load_model(folder)


def by_runtime(model: Model, columns: Columns) -> list:
    session = onnxruntime.InferenceSession(exported(model, "onnx").content)
    kinds = {column.name: object if isinstance(column, Categorical) else float for column in model.recipe.schema.inputs}
    return [*session.run(None, {name: np.array([columns[name]], kind).T for name, kind in kinds.items()})]


@pytest.mark.parametrize("name", ["digits", "letters"])
def test_classes_are_predicted_the_same_everywhere_and_as_well_as_the_run_says(name: str, tmp_path: Path) -> None:
    run, model = trained(name, tmp_path)
    test = SOURCES[name].read(SOURCES[name].settings()).under(model.recipe.schema).test
    columns = read_boxed(name).test
    assert test is not None
    scores = model.scores(test.features)
    predicted, probabilities = model.predictions(scores), model.probabilities(scores)
    assert probabilities is not None
    assert np.mean(predicted == np.asarray(run.classes)[test.labels]) == run.summary.test_accuracy
    pipeline = joblib.load(io.BytesIO(exported(model, "sklearn").content))
    assert pipeline.predict(columns).tolist() == predicted.tolist()
    np.testing.assert_allclose(pipeline.predict_proba(columns), probabilities, rtol=0, atol=1e-12)
    named, likely = by_runtime(model, columns)
    assert named.tolist() == predicted.tolist()
    np.testing.assert_allclose(likely, probabilities, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["diamonds", "visits"])
def test_numbers_and_counts_are_predicted_the_same_everywhere(name: str, tmp_path: Path) -> None:
    _, model = trained(name, tmp_path)
    test = SOURCES[name].read(SOURCES[name].settings()).under(model.recipe.schema).test
    columns = read_boxed(name).test
    assert test is not None
    predicted = model.predictions(model.scores(test.features))
    pipeline = joblib.load(io.BytesIO(exported(model, "sklearn").content))
    most = np.abs(predicted).max()
    np.testing.assert_allclose(pipeline.predict(columns), predicted, rtol=0, atol=1e-12 * most)
    (told,) = by_runtime(model, columns)
    np.testing.assert_allclose(told, predicted, rtol=0, atol=1e-9 * most)
