"""An exported graph says what the model says, in a runtime that knows nothing of fedspd."""

from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from fedspd import InputError
from fedspd.data import encode
from fedspd.export.onnx_model import to_onnx
from fedspd.scoring.model import Model
from tests.support.models import AGE, BASES, KINDS, made_cells, made_columns, made_model

CELLS = made_cells(3000)
COLUMNS = made_columns(CELLS)


def told_by_a_runtime(model: Model, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(None, {name: column[:, None] for name, column in columns.items()})
    return dict(zip((output.name for output in session.get_outputs()), found, strict=True))


def require_same_predictions(model: Model) -> None:
    told = told_by_a_runtime(model, COLUMNS)
    scores = model.scores(encode(CELLS, model.recipe.schema))
    expected = model.predictions(scores)
    if model.target.classes:
        assert told["prediction"].tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(told["prediction"], expected, rtol=1e-9, atol=1e-9)
    expected = model.probabilities(scores)
    assert ("probabilities" in told) == (expected is not None)
    if expected is not None:
        np.testing.assert_allclose(told["probabilities"], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_predicts_what_a_model_of_every_kind_predicts(kind: str) -> None:
    require_same_predictions(made_model(kind))


@pytest.mark.parametrize("base", BASES)
def test_a_graph_predicts_what_a_model_of_every_scaling_predicts(base: str) -> None:
    require_same_predictions(made_model("three classes", base))


def test_a_graph_takes_one_record_and_a_number_without_end_as_missing() -> None:
    model = made_model("a number")
    one = {name: column[:1] for name, column in COLUMNS.items()}
    endless, missing = ({**one, "age": np.array([age])} for age in (np.inf, np.nan))
    found, expected = (told_by_a_runtime(model, columns)["prediction"] for columns in (endless, missing))
    assert found.shape == (1,)
    assert found == expected


def test_a_column_that_is_called_like_an_output_is_refused() -> None:
    model = made_model()
    schema = replace(model.recipe.schema, inputs=(replace(AGE, name="prediction"),), products=())
    recipe = replace(model.recipe, schema=schema, mean=np.zeros(1), deviation=np.ones(1))
    with pytest.raises(InputError, match="must not be called like its outputs, got a column 'prediction'"):
        to_onnx(replace(model, recipe=recipe, weights=np.zeros((2, 2))))
