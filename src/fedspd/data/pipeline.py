"""From cells to features: the one place that knows the order of the steps, whatever the source."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedspd.data import scaling
from fedspd.data.dataset import Table
from fedspd.data.scaling import Matrix, Vector
from fedspd.data.source import Cells
from fedspd.data.tabular import unit
from fedspd.errors import InputError

Scaling = Literal["z-score", "min-max", "none"]
HELD_OUT = 0.2


@lru_cache(maxsize=4)
def prepare(
    cells: Cells, scaling: Scaling = "z-score", bias: float = 0.0, row_norm: float | None = None
) -> tuple[Table, Table]:
    """Training and test tables: scaling, bias, and the bound on a row's norm.

    The bias comes after the scaling, which would turn a constant column into 0, and before the row
    norm, so that the bound covers the whole record a gradient is computed from.

    Args:
        cells: of a source.
        scaling: "z-score" reads means and deviations from the training records, without noise;
            "min-max" uses declared bounds only.
        bias: value of a constant last column; 0 adds none.
        row_norm: longest L2 norm of a record; longer ones are shortened to it.
    """
    if not np.isfinite(bias):
        raise InputError(f"bias must be finite, got {bias}; use 1.0, or 0 for no bias column.")
    train, test = _scaled(cells, scaling)
    return _bounded(_biased(train, bias), row_norm), _bounded(_biased(test, bias), row_norm)


@lru_cache(maxsize=4)
def hold_out(table: Table) -> tuple[Table, Table]:
    """The table without a fifth of its records, and that fifth: always the same one."""
    order = np.random.default_rng(0).permutation(len(table))
    rest, held = np.split(order, [round(len(table) * (1 - HELD_OUT))])
    return table.rows(np.sort(rest)), table.rows(np.sort(held))


@dataclass(frozen=True, eq=False)
class Declared:
    """Features within declared bounds: numeric columns in [-1, 1], levels 0 or 1. Nothing is read from records."""

    train: Table
    test: Table
    numeric: NDArray[np.bool_]  # which columns are numeric
    categorical: int  # number of one-hot blocks among the others


@lru_cache(maxsize=4)
def declare(cells: Cells) -> Declared:
    """Records under their public schema alone."""
    schema = cells.schema
    train, test = (table.with_features(unit(table.features, schema)) for table in (cells.train, cells.test))
    return Declared(train, test, schema.numeric, schema.categorical)


def finish(features: Matrix, mean: Vector, deviation: Vector, bias: float, row_norm: float) -> Matrix:
    """Scale by released moments and bound every row's norm, a bias column included.

    The bias is the same in every record, so it is set apart from the bound first: otherwise long rows
    would shrink it.
    """
    check_bias(bias, row_norm)
    rows = scaling.clip_rows(scaling.z_score(features, mean, deviation), float(np.sqrt(row_norm**2 - bias**2)))
    return np.hstack([rows, np.full((len(rows), 1), float(bias))]) if bias else rows


def check_bias(bias: float, row_norm: float) -> None:
    """Refuse a bias that leaves a row no length, by declared numbers."""
    if not 0 <= bias < row_norm:
        raise InputError(f"bias must be at least 0 and below row_norm = {row_norm:g}, got {bias:g}; lower it.")


def _scaled(cells: Cells, kind: Scaling) -> tuple[Table, Table]:
    train, test, schema = cells
    if kind == "none":
        return train, test
    if kind == "z-score":
        mean, deviation = scaling.moments(train.features)
        features = [scaling.z_score(table.features, mean, deviation) for table in (train, test)]
    elif kind == "min-max":
        lower, upper = schema.ranges.T
        features = [scaling.min_max(table.features, lower, upper) for table in (train, test)]
    else:
        raise InputError(f"scaling must be one of {', '.join(get_args(Scaling))}, got {kind!r}; pick one.")
    return train.with_features(features[0]), test.with_features(features[1])


def _biased(table: Table, bias: float) -> Table:
    if bias == 0:
        return table
    constant = np.full((len(table), 1), float(bias))
    return table.with_features(np.hstack([table.features, constant]), (*table.columns, "bias"))


def _bounded(table: Table, row_norm: float | None) -> Table:
    if row_norm is None:
        return table
    return table.with_features(scaling.clip_rows(table.features, row_norm))
