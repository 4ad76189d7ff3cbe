"""Models that nobody trained, on columns of every kind, and records that hold everything a file may hold."""

from typing import Any

import numpy as np

from fedspd.data import Recipe
from fedspd.data.features.columns import Categorical, Numeric, Product
from fedspd.data.schema import Schema
from fedspd.problem import make_loss
from fedspd.scoring.model import Model
from fedspd.target import Classes, Count, Number, Target

AGE = Numeric("age", 18.0, 110.0, 60.0)
LACTATE = Numeric("lactate", 0.0, 30.0, 0.0, log=True)
WARD = Categorical("ward", ("surgery", "medicine", "intensive care"), "medicine", drop_first=True)
SEX = Categorical("sex", ("F", "M"))
PAIN = Categorical("pain", ("none", "some", "much", "worst"), ordinal=True)
ORIGIN = Categorical(
    "origin", ("A&E", "GP", "ward 1", "ward 2", "other"), None, groups=(("inside", ("ward 1", "ward 2")),)
)
INPUTS = (
    AGE,
    LACTATE,
    Numeric("weight", 30.0, 200.0, None, bins=5),
    Numeric("visits", 0.0, 99.0, None, log_bins=4, zero=True),
    Numeric("dose", 0.0, 8.0, 2.0, bins=4, zero=True),
    Numeric("height", 120.0, 220.0, 170.0, spline=7),
    WARD,
    SEX,
    PAIN,
    ORIGIN,
)
PRODUCTS = (Product(AGE, LACTATE), Product(AGE, WARD), Product(SEX, ORIGIN), Product(PAIN, SEX))
TWO, THREE = Classes("outcome", ("home", "died")), Classes("outcome", ("home", "moved", "died"))
STAY, FALLS = Number("stay", 0.0, 90.0), Count("falls", 12.0, 2.0)
KINDS: dict[str, tuple[Target, str]] = {
    "two classes": (TWO, "softmax"),
    "three classes": (THREE, "softmax"),
    "squared hinge": (TWO, "squared-hinge"),
    "least squares of classes": (TWO, "least-squares"),
    "a number": (STAY, "least-squares"),
    "a number by huber": (STAY, "huber"),
    "a count": (FALLS, "poisson"),
}
BASES: dict[str, dict[str, Any]] = {
    "proved": {"base": "unit", "bias": 0.5, "row_norm": 2.0},
    "proved without a bias": {"base": "unit", "bias": 0.0, "row_norm": 1.5},
    "z-score": {"base": "raw", "bias": 1.0, "row_norm": 4.0},
    "min-max": {"base": "min-max", "bias": 1.0, "row_norm": None, "moments": False},
    "as encoded": {"base": "raw", "bias": 0.0, "row_norm": None, "moments": False},
}


def made_recipe(target: Target, base: str, bias: float, row_norm: float | None, moments: bool = True) -> Recipe:
    schema = Schema(INPUTS, target, PRODUCTS, missing_markers=("n/a",))
    rng, width = np.random.default_rng(0), len(schema.columns)
    deviation = rng.uniform(0.3, 2.0, width)
    deviation[3] = 0.0  # a column that was found constant
    mean = rng.normal(0, 0.3, width)
    return Recipe(schema, base, mean if moments else None, deviation if moments else None, bias, row_norm)  # pyright: ignore[reportArgumentType]


def made_model(kind: str = "two classes", base: str = "proved") -> Model:
    target, name = KINDS[kind]
    recipe, loss = made_recipe(target, **BASES[base]), make_loss(name, target, 0.3)
    weights = np.random.default_rng(1).normal(0, 1.0, (len(recipe.columns), loss.outputs))
    return Model(weights, recipe, loss)


def made_cells(records: int, seed: int = 2) -> dict[str, np.ndarray]:
    """Numbers in bounds, on edges, beyond and missing; levels known and unknown."""
    rng, cells = np.random.default_rng(seed), {}
    for column in INPUTS:
        if isinstance(column, Categorical):
            cells[column.name] = rng.integers(-1, len(column.levels), records)
            continue
        width = column.upper - column.lower
        values = rng.uniform(column.lower - 0.2 * width, column.upper + 0.2 * width, records)
        edges = np.array([column.lower, column.upper, 0.0, *column.edges])
        at_edge = rng.random(records) < 0.2
        values[at_edge] = rng.choice(edges, at_edge.sum())
        values[rng.random(records) < 0.1] = np.nan
        cells[column.name] = values
    return cells


def made_columns(cells: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same as a frame holds them: an unknown level is a text of its own, a missing one is empty."""
    columns: dict[str, np.ndarray] = {}
    for column in INPUTS:
        found = cells[column.name]
        if isinstance(column, Categorical):
            names = np.array([*column.levels, "?", "elsewhere", "n/a"], object)
            unknown = len(column.levels) + np.arange(len(found)) % 3
            found = names[np.where(found < 0, unknown, found)]
        columns[column.name] = found
    return columns
