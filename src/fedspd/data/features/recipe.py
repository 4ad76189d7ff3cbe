"""From encoded records to the rows that a model was trained on: all that is needed to score new ones.

Under a proved guarantee features are first brought to their public ranges, and a bias is set apart from the bound on a
row. As published, they are scaled as the paper's experiments do it, and the bound comes last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from fedspd.data.dataset import Table
from fedspd.data.features import scaling
from fedspd.data.features.scaling import Matrix, Vector
from fedspd.data.schema import Schema, schema_text, text_schema
from fedspd.data.tabular import on_ranges
from fedspd.errors import InputError

Base = Literal["unit", "min-max", "raw"]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a record becomes a row of numbers."""

    schema: Schema
    base: Base  # the public ranges to [-1, 1] and [0, 1], to [0, 1], or as encoded
    mean: Vector | None  # None: not scaled
    deviation: Vector | None
    bias: float
    row_norm: float | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a row."""
        return (*self.schema.columns, *(("bias",) if self.bias else ()))

    def rows(self, encoded: Matrix) -> Matrix:
        """Rows of records that were encoded under the schema."""
        if self.base == "unit":
            assert self.mean is not None, "a proved method has one"
            assert self.deviation is not None
            assert self.row_norm is not None
            return finish(on_ranges(encoded, self.schema), self.mean, self.deviation, self.bias, self.row_norm)
        features = scaling.min_max(encoded, *self.schema.ranges.T) if self.base == "min-max" else encoded
        if self.mean is not None and self.deviation is not None:
            features = scaling.z_score(features, self.mean, self.deviation)
        rows = _with_bias(features, self.bias)
        return rows if self.row_norm is None else scaling.clip_rows(rows, self.row_norm)

    @property
    def affine(self) -> tuple[Vector, Vector]:
        """A factor and a shift for each feature: what a row is made of before it gets its bias and is shortened."""
        lower, upper = self.schema.ranges.T
        width, numeric = upper - lower, self.schema.numeric
        by_base = {
            "unit": (np.where(numeric, 2.0, 1.0) / width, np.where(numeric, -(upper + lower), -lower) / width),
            "min-max": (1.0 / width, -lower / width),
            "raw": (np.ones_like(width), np.zeros_like(width)),
        }
        factor, shift = by_base[self.base]
        if self.mean is None or self.deviation is None:
            return factor, shift
        inverse = np.divide(1.0, self.deviation, out=np.zeros_like(self.deviation), where=self.deviation > 0)
        return factor * inverse, (shift - self.mean) * inverse

    def prepared(self, table: Table) -> Table:
        """A table of encoded records, ready to train on or to be measured on."""
        return table.with_features(self.rows(table.features), self.columns)

    def arrays(self) -> dict[str, np.ndarray]:
        """As a model's file keeps it."""
        known = {"mean": self.mean, "deviation": self.deviation, "row_norm": self.row_norm}
        stored: dict[str, Any] = {"schema": schema_text(self.schema), "base": self.base, "bias": self.bias}
        return {name: np.asarray(value) for name, value in (stored | known).items() if value is not None}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """What `arrays` gave."""
        row_norm = arrays.get("row_norm")
        return cls(
            text_schema(str(arrays["schema"])),
            str(arrays["base"]),  # pyright: ignore[reportArgumentType]
            arrays.get("mean"),
            arrays.get("deviation"),
            float(arrays["bias"]),
            None if row_norm is None else float(row_norm),
        )


def finish(features: Matrix, mean: Vector, deviation: Vector, bias: float, row_norm: float) -> Matrix:
    """Scale features on their public ranges by released moments and bound every row's norm, a bias included.

    The bias is the same in every record, so it is set apart from the bound first: otherwise long rows
    would shrink it.
    """
    check_bias(bias, row_norm)
    longest = float(np.sqrt(row_norm**2 - bias**2))

    def finished(rows: Matrix) -> Matrix:
        return _with_bias(scaling.clip_rows(scaling.z_score(rows, mean, deviation), longest), bias)

    return scaling.in_blocks(finished, features, features.shape[1] + (bias != 0))


def _with_bias(rows: Matrix, bias: float) -> Matrix:
    return np.hstack([rows, np.full((len(rows), 1), float(bias))]) if bias else rows


def check_bias(bias: float, row_norm: float) -> None:
    """Refuse a bias that leaves a row no length, by declared numbers."""
    if not 0 <= bias < row_norm:
        raise InputError(f"bias must be at least 0 and below row_norm = {row_norm:g}, got {bias:g}; lower it.")
