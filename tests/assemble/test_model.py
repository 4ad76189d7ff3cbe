"""A model that was trained says the same about records as its run did, in the target's own terms."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_poisson_deviance

from fedspd import InputError
from fedspd.assemble import Run, execute, prepare_experiment
from fedspd.config import load
from fedspd.data import SOURCES, Cells, Numeric, Schema, Table, encode
from fedspd.results import write_run
from fedspd.results.run_folder import MODEL
from fedspd.scoring.model import INTERCEPT, Coefficient, Model, load_model
from fedspd.target import Count, Number
from tests.support.models import BASES, KINDS, made_cells, made_model
from tests.support.small_runs import SMALL, small_run

CELLS = made_cells(500)
COLUMNS = (Numeric("a", 0.0, 10.0, 0.0, linear=True), Numeric("b", -1.0, 1.0, 0.0, linear=True))
OWN: dict[str, Any] = {**SMALL, "data.scaling": "min-max", "partition.clients": 8, "run.participants": 8}


def written(run: Run, folder: Path) -> Path:
    folder.mkdir()
    write_run(folder, run.record(), run.model())
    return folder


def test_a_model_repeats_the_test_accuracy_of_its_run(tmp_path: Path) -> None:
    for name in ("fedspd", "fedspd-published", "fedavg"):
        config = small_run(name, run__rounds=5)
        run = execute(prepare_experiment(config))
        test = SOURCES["adult"].read(config.data.source).test
        assert test is not None
        folder, told = written(run, tmp_path / name), (run.summary.test_accuracy, run.summary.test_accuracy_average)
        for average, accuracy in zip((False, True), told, strict=True):
            model = load_model(folder, average)
            predicted = model.predictions(model.scores(test.features))
            assert np.mean(predicted == np.asarray(run.classes)[test.labels]) == accuracy, name


def table(target: Number | Count, records: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    features = rng.uniform((0, -1), (10, 1), (records, 2))
    score = features @ np.array([0.1, -0.5])
    values = rng.poisson(np.exp(score)) if isinstance(target, Count) else 30 + 20 * score
    return Table(features, target.labels(values), ("a", "b"), (), target=target)


@pytest.mark.parametrize(
    ("target", "loss"),
    [
        (Number("y", 0.0, 80.0), None),
        (Number("y", 0.0, 80.0), "huber"),
        (Count("y", 20.0, 2.0), None),
    ],
    ids=["a number", "a number by huber", "a count"],
)
def test_a_model_of_a_number_or_a_count_repeats_the_error_of_its_run(
    target: Number | Count, loss: str | None, tmp_path: Path
) -> None:
    cells = Cells(table(target, 4000, 0), table(target, 500, 1), Schema(COLUMNS, target))
    named = {} if loss is None else {"problem.loss": loss, "problem.threshold": 0.25}
    run = execute(prepare_experiment(load("proved", {**OWN, **named}), None, cells))
    model = load_model(written(run, tmp_path / "run"))
    assert cells.test is not None
    predicted = model.predictions(model.scores(cells.test.features))
    truth = target.values(cells.test.labels)
    measure = mean_poisson_deviance if isinstance(target, Count) else mean_absolute_error
    told = run.summary.test_deviance if isinstance(target, Count) else run.summary.test_mae
    assert measure(truth, predicted) == pytest.approx(told, rel=1e-12)
    assert getattr(model.loss, "threshold", 0.25) == 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_in_the_targets_own_terms(kind: str) -> None:
    model = made_model(kind)
    scores = model.scores(encode(CELLS, model.recipe.schema))
    predicted, probabilities = model.predictions(scores), model.probabilities(scores)
    match model.target:
        case Number(lower=lower, upper=upper):
            assert lower <= predicted.min() < predicted.max() <= upper
        case Count(most=most):
            assert 0 < predicted.min() < predicted.max() <= most
        case _:
            assert set(predicted) == set(model.target.classes)
    assert (probabilities is not None) == (KINDS[kind][1] == "softmax")
    if probabilities is not None:
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert (np.asarray(model.target.classes)[probabilities.argmax(axis=1)] == predicted).all()


def test_scores_come_in_blocks_and_in_order() -> None:
    model, cells = made_model(), made_cells(5000)
    whole = model.scores(encode(cells, model.recipe.schema))
    blocks = [*model.blocks(cells)]
    assert len(blocks) > 1
    np.testing.assert_allclose(np.concatenate([scores for _, scores in blocks]), whole, rtol=1e-12, atol=1e-12)


def grouped(coefficients: list[Coefficient]) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts, as matrices with a column for each class."""
    classes = [one.category for one in coefficients if one.feature == INTERCEPT]
    values = np.array([one.coefficient for one in coefficients]).reshape(-1, len(classes))
    return values[1:], values[0]


def not_shortened(kind: str, base: str) -> Model:
    model = made_model(kind, base)
    return replace(model, recipe=replace(model.recipe, row_norm=1e6))


@pytest.mark.parametrize("base", BASES)
def test_coefficients_in_own_units_give_the_same_scores_where_no_row_is_shortened(base: str) -> None:
    model = not_shortened("three classes", base)
    encoded = encode(CELLS, model.recipe.schema)
    slopes, intercepts = grouped(model.coefficients())
    inputs = sum(len(column.features) for column in model.recipe.schema.inputs)
    own = np.hstack([encoded[:, :inputs], products_in_own_units(model, encoded)])
    np.testing.assert_allclose(own @ slopes + intercepts, model.scores(encoded), rtol=1e-9, atol=1e-9)


def products_in_own_units(model: Model, encoded: np.ndarray) -> np.ndarray:
    """Plain products of features, where the schema has products of features on their public ranges."""
    schema, start, places = model.recipe.schema, 0, {}
    for column in schema.inputs:
        places[column] = encoded[:, start : start + len(column.features)]
        start += len(column.features)
    pairs = [(places[product.first], places[product.second]) for product in schema.products]
    return np.hstack([(one[:, :, None] * other[:, None, :]).reshape(len(one), -1) for one, other in pairs])


def test_coefficients_of_a_number_are_in_its_units_and_those_of_a_count_are_of_its_logarithm() -> None:
    for kind in ("a number", "a count"):
        model = not_shortened(kind, "as encoded")
        model = replace(model, weights=0.01 * model.weights)
        encoded = encode(made_cells(50), model.recipe.schema)
        slopes, intercepts = grouped(model.coefficients())
        inputs = sum(len(column.features) for column in model.recipe.schema.inputs)
        own = np.hstack([encoded[:, :inputs], products_in_own_units(model, encoded)])
        told = (own @ slopes + intercepts)[:, 0]
        told = np.exp(told) if kind == "a count" else told
        expected = model.predictions(model.scores(encoded))
        inside = (expected > expected.min()) & (expected < expected.max())
        assert inside.sum() > 5
        np.testing.assert_allclose(told[inside], expected[inside], rtol=1e-9)


def test_coefficients_are_named_by_feature_and_class() -> None:
    found = made_model("three classes").coefficients()
    assert [one.category for one in found[:3]] == ["home", "moved", "died"]
    assert found[0].feature == INTERCEPT
    names = [one.feature for one in found]
    assert {"age", "log(1 + lactate)", "ward=medicine", "age × log(1 + lactate)", "height spline 7"} <= set(names)
    assert {one.category for one in made_model("squared hinge").coefficients()} == {"died"}
    assert {one.category for one in made_model("a count").coefficients()} == {""}


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    return execute(prepare_experiment(small_run("fedspd"))).model()


def stored(folder: Path, arrays: dict[str, Any]) -> Path:
    np.savez(folder / MODEL, allow_pickle=False, **arrays)
    return folder


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(InputError, match=r"expected the folder of a finished run, got .* no model\.npz"):
            load_model(folder)


def test_a_model_of_an_older_version_is_refused_by_what_it_lacks(arrays: dict[str, Any], tmp_path: Path) -> None:
    old = {name: array for name, array in arrays.items() if name not in ("loss", "threshold")}
    with pytest.raises(InputError, match="of this version of fedspd, got one without loss, threshold; make the run"):
        load_model(stored(tmp_path, old))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.zeros((2, 2))},
        {"schema": np.asarray("no = [toml")},
        {"schema": np.asarray("[target]\ncolumn = 'y'")},
        {"base": np.asarray("else")},
        {"mean": np.zeros(3)},
        {"bias": np.zeros(3)},
        {"schema": np.array([0x110000], np.uint32).view("U1")[:1].reshape(())},
        {"loss": np.array([0xD800], np.uint32).view("U1").reshape(())},
    ],
    ids=["weights", "text", "schema", "base", "mean", "bias", "characters", "surrogates"],
)
def test_a_damaged_model_is_refused(arrays: dict[str, Any], change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be as fedspd writes it, got a damaged file"):
        load_model(stored(tmp_path, arrays | change))


def test_a_file_that_is_cut_off_is_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    whole = (stored(tmp_path, arrays) / MODEL).read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / MODEL).write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged"):
            load_model(tmp_path)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1e13, 1e300])
def test_weights_of_a_run_that_diverged_are_refused(arrays: dict[str, Any], tmp_path: Path, weight: float) -> None:
    astray = arrays | {"weights": np.full_like(arrays["weights"], weight)}
    with pytest.raises(InputError, match=r"must be finite, and at most 1e\+12 long .* its run diverged"):
        load_model(stored(tmp_path, astray))


def test_a_loss_that_nobody_has_registered_is_refused(arrays: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must be known, got 'mine'.*register_loss"):
        load_model(stored(tmp_path, arrays | {"loss": np.asarray("mine")}))
