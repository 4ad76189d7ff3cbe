"""Records and weights as a regression has them: a constant, numbers on public ranges, blocks without their first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from fedspd.data import Categorical, Schema, Table
from fedspd.data.features.columns import Column
from fedspd.data.tabular import encode, on_ranges
from fedspd.errors import InputError
from fedspd.evaluate.newton import Array
from fedspd.problem import LeastSquares, Softmax
from fedspd.reading import nearest
from fedspd.scoring.model import INTERCEPT, Model
from fedspd.scoring.own_units import own_units, words
from fedspd.target import Classes, Number, Target


class Coordinates(NamedTuple):
    """Which features are kept, and how coefficients of theirs are told in original units."""

    kind: str  # "classes" or "number"
    schema: Schema  # that features are encoded under
    kept: np.ndarray  # features that have a coefficient
    widths: tuple[int, ...]  # of each column: 0 of a number, else how many features of its block are kept
    start: Array  # weights
    transform: Array  # from coefficients to original units
    shift: Array  # that is added

    @property
    def names(self) -> tuple[str, ...]:
        """Of the coefficients, the constant's first."""
        named = words(self.schema)
        return (INTERCEPT, *(named[place] for place in self.kept.tolist()))

    @property
    def bound(self) -> float:
        """Of a record's length: a constant, numbers, and blocks that add up to at most one."""
        return sqrt(1 + len(self.widths))

    def rows(self, table: Table) -> Array:
        """Records, from their cells."""
        features = on_ranges(encode(table.cells, self.schema), self.schema)
        return np.column_stack([np.ones(len(table)), features[:, self.kept]])


def coordinates_of(model: Model) -> Coordinates:
    """Of all columns of a model, from its weights on.

    Raises:
        InputError: it is not for two classes by softmax, or for a number by least squares; or it has products.
    """
    schema = model.recipe.schema
    wanted = LeastSquares if _kind(model.target) == "number" else Softmax
    if not isinstance(model.loss, wanted):
        raise InputError(
            "intervals of coefficients are known for two classes (softmax) and for a number (least-squares), got "
            f"{type(model.loss).__name__}; train such a model, or name --columns for a regression of its own."
        )
    if schema.products:
        raise InputError(
            "intervals of coefficients need a schema without products of columns, got some; leave them out, or name "
            "--columns for a regression of its own."
        )
    where, (slopes, intercepts) = _of(schema), own_units(model.recipe, model.loss.contrast(model.weights))
    weights, constant, place = slopes[:, 0].copy(), float(intercepts[0]), 0
    for column in schema.inputs:
        features = slice(place, place + len(column.features))
        place = features.stop
        if column.is_number:
            lower, upper = column.range
            constant += float(weights[features][0]) * (upper + lower) / 2
            weights[features] *= (upper - lower) / 2
        elif not _has_baseline(column):  # the first of a block is what the others are held against
            constant += float(weights[features][0])
            weights[features] -= weights[features][0]
    return where._replace(start=np.array([constant, *weights[where.kept]]))


def coordinates_on(schema: Schema, columns: Sequence[str]) -> Coordinates:
    """Of a regression on some columns alone, from zero on: numbers as one number each, and levels.

    Args:
        schema: of the run.
        columns: names of declared ones.
    """
    named = {column.name: column for column in schema.inputs}
    for name, times in Counter(columns).items():
        if name not in named or times > 1:
            raise InputError(
                "the columns of a regression must be declared inputs of the schema, each named once, got "
                f"{name!r}{' twice' * (times > 1)}; {nearest(name, named)}"
            )
    return _of(Schema(tuple(_plain(named[name]) for name in columns), schema.target))


def _kind(target: Target) -> str:
    if isinstance(target, Classes) and len(target.classes) == 2:
        return "classes"
    if isinstance(target, Number):
        return "number"
    got = f"{len(target.classes)} classes" if isinstance(target, Classes) else "a count"
    raise InputError(
        f"intervals of coefficients are known for two classes (softmax) and for a number (least-squares), got {got}; "
        "choose such a target."
    )


def _plain(column: Column) -> Column:
    """A number as one, whatever the model cuts it into; one whose missing cells are a bin keeps its bins."""
    if isinstance(column, Categorical) or column.missing is None:
        return column
    logged = column.log or column.log_bins is not None
    return replace(column, log=logged, bins=None, log_bins=None, spline=None, zero=False)


def _has_baseline(column: Column) -> bool:
    """Whether a block has no feature of its first level to begin with."""
    return isinstance(column, Categorical) and column.drop_first


def _of(schema: Schema) -> Coordinates:
    kept, widths, place = [], [], 0
    for column in schema.inputs:
        features = range(place, place + len(column.features))
        place += len(features)
        own = features if column.is_number or _has_baseline(column) else features[1:]
        if not own:
            raise InputError(
                f"a column of levels needs at least two for a coefficient, got one in {column.name!r}; leave it out."
            )
        kept += own
        widths.append(0 if column.is_number else len(own))
    kind, places = _kind(schema.target), np.array(kept)
    lower, upper = schema.ranges[places].T
    half, middle, numeric = (upper - lower) / 2, (upper + lower) / 2, schema.numeric[places]
    transform = np.diag([1.0, *np.where(numeric, 1.0 / half, 1.0)])
    transform[0, 1:] = np.where(numeric, -middle / half, 0.0)
    shift = np.zeros(len(transform))
    if isinstance(schema.target, Number):
        scale = (schema.target.upper - schema.target.lower) / 2
        transform, shift[0] = transform * scale, schema.target.lower + scale
    return Coordinates(kind, schema, places, tuple(widths), np.zeros(len(transform)), transform, shift)
