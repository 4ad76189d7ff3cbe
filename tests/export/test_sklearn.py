"""An exported pipeline says what the model says, and is one of scikit-learn's own."""

import io

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from fedspd import InputError
from fedspd.data import Categorical, Recipe, Schema, encode
from fedspd.export.encoder import RecordEncoder
from fedspd.export.pipeline import sklearn_bytes, to_sklearn
from fedspd.scoring.model import Model
from fedspd.target import Classes
from tests.support.models import BASES, KINDS, made_cells, made_columns, made_model

CELLS = made_cells(3000)
COLUMNS = made_columns(CELLS)


def require_same_predictions(model: Model) -> None:
    pipeline = joblib.load(io.BytesIO(sklearn_bytes(model)))
    check_is_fitted(pipeline)
    scores = model.scores(encode(CELLS, model.recipe.schema))
    found, expected = pipeline.predict(COLUMNS), model.predictions(scores)
    if model.target.classes:
        assert found.tolist() == expected.tolist()
        assert pipeline.classes_.tolist() == list(model.target.classes)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    expected = model.probabilities(scores)
    if expected is not None:
        np.testing.assert_allclose(pipeline.predict_proba(COLUMNS), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_predicts_what_a_model_of_every_kind_predicts(kind: str) -> None:
    require_same_predictions(made_model(kind))


@pytest.mark.parametrize("base", BASES)
def test_a_pipeline_predicts_what_a_model_of_every_scaling_predicts(base: str) -> None:
    require_same_predictions(made_model("three classes", base))


def test_frames_of_pandas_and_polars_give_the_same_rows_as_a_dict_of_columns() -> None:
    encoder = to_sklearn(made_model()).named_steps["encoder"]
    expected = encoder.transform(COLUMNS)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame(COLUMNS)), expected)
    lists = {name: column.tolist() for name, column in COLUMNS.items()}
    np.testing.assert_array_equal(encoder.transform(pl.DataFrame(lists)), expected)
    twin = clone(encoder)
    assert isinstance(twin, RecordEncoder)
    np.testing.assert_array_equal(twin.fit_transform(COLUMNS), expected)
    assert len(encoder.get_feature_names_out()) == expected.shape[1]


def test_texts_that_stand_for_numbers_and_missing_values_of_pandas_are_read_as_in_a_file() -> None:
    encoder = to_sklearn(made_model()).named_steps["encoder"]
    one = {name: column[:3] for name, column in COLUMNS.items()}
    expected = encoder.transform({**one, "age": np.array([40.0, np.nan, np.nan]), "sex": ["F", None, "M"]})
    texts = {**one, "age": [" 40 ", "n/a", None], "sex": ["F ", None, " M"]}
    np.testing.assert_array_equal(encoder.transform(texts), expected)
    for sex in (["F", None, "M"], pd.array(["F", None, "M"], "string"), pd.Categorical(["F", None, "M"])):
        frame = pd.DataFrame(one).assign(age=pd.array([40, None, None], "Int64"), sex=sex)
        np.testing.assert_array_equal(encoder.transform(frame), expected)


def test_levels_may_be_numbers_in_a_frame() -> None:
    schema = Schema((Categorical("grade", ("1", "2", "true")),), Classes("y", ("a", "b")))
    encoder = RecordEncoder(Recipe(schema, "raw", None, None, 0.0, None).arrays())
    numbers = encoder.transform({"grade": np.array([2.0, 1.0, np.nan])})
    assert numbers.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert encoder.transform({"grade": np.array([2, None, pd.NA], object)}).tolist() == [
        [0, 1, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert encoder.transform({"grade": np.array([True, False])}).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_a_frame_without_a_declared_column_is_refused_by_the_columns_name(frame: type) -> None:
    encoder = to_sklearn(made_model()).named_steps["encoder"]
    with pytest.raises(InputError, match="must have the column 'age'"):
        encoder.transform(frame({"sex": ["F"]}))


@pytest.mark.parametrize("bad", [["old", "40"], [np.inf, 40.0], np.array(["2020-01-01", "2020-01-02"], "M8[D]")])
def test_a_column_that_holds_no_numbers_is_refused(bad: object) -> None:
    encoder = to_sklearn(made_model()).named_steps["encoder"]
    columns = {name: column[:2] for name, column in COLUMNS.items()}
    with pytest.raises(InputError, match="column 'age' must hold"):
        encoder.transform({**columns, "age": bad})
