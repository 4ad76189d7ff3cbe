"""Pictures of a fitted estimator, as axes of Matplotlib."""

from typing import Any

import numpy as np

from fedspd.assemble import Run
from fedspd.data import Numeric
from fedspd.errors import InputError
from fedspd.reading import nearest
from fedspd.report import Chart, Measured, Series, draw, run_charts
from fedspd.report.figures import draw_dots
from fedspd.scoring.model import Model
from fedspd.scoring.own_units import own_units, words

POINTS = 201


def history(run: Run) -> Any:
    """Epsilon spent after every round."""
    *_, spent = run_charts(run.summary, run.history)
    return draw([spent]).axes[0]


def coefficients(model: Model, most: int) -> Any:
    """The largest coefficients times the range of their feature."""
    schema = model.recipe.schema
    weighed, _ = own_units(model.recipe, model.loss.contrast(model.weights))
    lower, upper = schema.ranges.T
    weighed = weighed * (upper - lower)[:, None]
    outputs = _outputs(model, weighed.shape[1])
    named = [
        (f"{column}, {output}" if output else column, float(weight))
        for column, row in zip(words(schema), weighed, strict=True)
        for output, weight in zip(outputs, row, strict=True)
    ]
    largest = sorted(named, key=lambda entry: -abs(entry[1]))[:most]
    figure = draw_dots(
        "Largest coefficients", "change of the score over the range of the feature",
        [name for name, _ in largest], [Measured(weight, None, 4) for _, weight in largest],
    )  # fmt: skip
    return figure.axes[0]


def curve(model: Model, column: str) -> Any:
    """What a column of numbers adds to the score by itself, set to zero on average over its bounds."""
    schema = model.recipe.schema
    numeric = {each.name: each for each in schema.inputs if isinstance(each, Numeric)}
    if column not in numeric:
        raise InputError(f"a curve is of a column of numbers, got {column!r}; {nearest(column, numeric)}")
    declared = numeric[column]
    values = np.linspace(declared.lower, declared.upper, POINTS)
    features = np.zeros((POINTS, len(declared.features)))
    declared.write(values, features)
    weights, _ = own_units(model.recipe, model.loss.contrast(model.weights))
    heights = features @ weights[[schema.columns.index(name) for name in declared.features]]
    heights = heights - heights.mean(axis=0)
    series = tuple(
        Series(output or column, tuple(values), tuple(height))
        for output, height in zip(_outputs(model, heights.shape[1]), heights.T, strict=True)
    )
    return draw([Chart(f"Learned curve of {column}", column, "change of the score", series)]).axes[0]


def _outputs(model: Model, count: int) -> tuple[str, ...]:
    """Names of scores where there are several."""
    return model.target.classes if count > 1 else ("",)
