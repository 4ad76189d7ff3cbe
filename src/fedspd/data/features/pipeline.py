"""From cells to features: the one place that knows the order of the steps, whatever the source."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedspd.data.dataset import Table
from fedspd.data.features import scaling
from fedspd.data.features.recipe import Recipe
from fedspd.data.features.scaling import LARGE
from fedspd.data.holding.persons import without
from fedspd.data.tabular import Cells, on_ranges
from fedspd.errors import InputError

Scaling = Literal["z-score", "min-max", "none"]
HELD_OUT = 0.2


@lru_cache(maxsize=4)
def recipe_as_published(cells: Cells, kind: Scaling, bias: float, row_norm: float | None) -> Recipe:
    """How records become rows where nothing is proved.

    The bias comes after the scaling, which would turn a constant column into 0, and before the row
    norm, so that the bound covers the whole record a gradient is computed from.

    Args:
        cells: of a source.
        kind: "z-score" reads means and deviations from the training records, without noise;
            "min-max" uses declared bounds only.
        bias: value of a constant last column; 0 adds none.
        row_norm: longest L2 norm of a record; longer ones are shortened to it.
    """
    if not np.isfinite(bias):
        raise InputError(f"bias must be finite, got {bias}; use 1.0, or 0 for no bias column.")
    if kind not in get_args(Scaling):
        raise InputError(f"scaling must be one of {', '.join(get_args(Scaling))}, got {kind!r}; pick one.")
    mean, deviation = scaling.moments(cells.train.features) if kind == "z-score" else (None, None)
    return Recipe(cells.schema, "min-max" if kind == "min-max" else "raw", mean, deviation, bias, row_norm)


@lru_cache(maxsize=4)
def prepare(
    cells: Cells, scaling: Scaling = "z-score", bias: float = 0.0, row_norm: float | None = None
) -> tuple[Table, Table | None]:
    """Training and test tables; arguments as of `recipe_as_published`."""
    recipe = recipe_as_published(cells, scaling, bias, row_norm)
    return recipe.prepared(cells.train), None if cells.test is None else recipe.prepared(cells.test)


@lru_cache(maxsize=4)
def hold_out(table: Table) -> tuple[Table, Table]:
    """The table without a fifth of its records, or of its persons, and that fifth: always the same one."""

    def held(firsts: Table) -> NDArray[np.integer]:
        order = np.random.default_rng(0).permutation(len(firsts))
        return order[round(len(firsts) * (1 - HELD_OUT)) :]

    return without(table, held)


@dataclass(frozen=True, eq=False)
class Declared:
    """Features within declared bounds: numbers in [-1, 1], blocks from 0 to 1. Nothing is read from records."""

    train: Table
    test: Table | None
    numeric: NDArray[np.bool_]  # which columns are numbers
    categorical: int  # number of blocks among the others


def declare(cells: Cells) -> Declared:
    """Records under their public schema alone."""
    return _declare(cells) if cells.train.features.nbytes > LARGE else _remembered(cells)


def _declare(cells: Cells) -> Declared:
    schema = cells.schema
    train, test = (
        None if table is None else table.with_features(on_ranges(table.features, schema))
        for table in (cells.train, cells.test)
    )
    assert train is not None
    return Declared(train, test, schema.numeric, schema.categorical)


_remembered = lru_cache(maxsize=4)(_declare)
