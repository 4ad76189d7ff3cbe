"""From a data set's name to features: the one place that knows the order of the steps."""

from typing import Literal, get_args

import numpy as np

from fedspd.data import adult, scaling
from fedspd.data.dataset import Table
from fedspd.errors import InputError

Scaling = Literal["z-score", "min-max", "none"]


def prepare(
    name: str = "adult",
    *,
    columns: adult.Columns = "published",
    log_capital: bool = False,
    scaling: Scaling = "z-score",
    bias: float = 0.0,
    row_norm: float | None = None,
) -> tuple[Table, Table]:
    """Training and test tables: columns, then logarithm, scaling, bias, and the bound on a row's norm.

    The bias comes after the scaling, which would turn a constant column into 0, and before the row
    norm, so that the bound covers the whole record a gradient is computed from.

    Args:
        scaling: "z-score" reads means and deviations from the training records, without noise;
            "min-max" uses declared bounds only.
        bias: value of a constant last column; 0 adds none.
        row_norm: longest L2 norm of a record; longer ones are shortened to it.
    """
    if name != "adult":
        raise InputError(f"data set must be 'adult', the embedded one, got {name!r}; use that name.")
    if not np.isfinite(bias):
        raise InputError(f"bias must be finite, got {bias}; use 1.0, or 0 for no bias column.")
    train, test = _scaled(*adult.load(columns, log_capital), scaling, log_capital)
    return _bounded(_biased(train, bias), row_norm), _bounded(_biased(test, bias), row_norm)


def _scaled(train: Table, test: Table, kind: Scaling, log_capital: bool) -> tuple[Table, Table]:
    if kind == "none":
        return train, test
    if kind == "z-score":
        mean, deviation = scaling.moments(train.features)
        features = [scaling.z_score(table.features, mean, deviation) for table in (train, test)]
    elif kind == "min-max":
        lower, upper = adult.bounds(train.columns, log_capital)
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
