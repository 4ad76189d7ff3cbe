"""Tables that a rule may stumble over, generated from a seed: bounds far too wide, columns that all say the same."""

from collections.abc import Callable

import numpy as np
import pyarrow

from fedspd.data import Cells, Schema, frame_cells
from fedspd.data.features.columns import Numeric
from fedspd.target import Classes, Number

RECORDS, TESTED, COLUMNS = 10_000, 4_000, 12
TOO_WIDE = 10.0


def generated(name: str) -> Cells:
    """One of the tables by its name: always the same records."""
    shape, predicted = name.split("-")
    rng = np.random.default_rng(17)
    features, bounds = _SHAPES[shape](rng)
    slopes = np.random.default_rng(18).normal(size=COLUMNS)
    centered = features - features.mean(axis=0)
    score = centered @ slopes
    score = score / score.std()
    if predicted == "classes":
        target, values = (
            Classes("y", ("no", "yes")),
            np.where(rng.random(len(score)) < 1 / (1 + np.exp(-3 * score)), "yes", "no"),
        )
    else:
        target, values = Number("y", -5.0, 5.0), np.clip(score + 0.5 * rng.normal(size=len(score)), -5, 5)
    names = [f"x{place}" for place in range(COLUMNS)]
    schema = Schema(tuple(Numeric(each, *bounds, missing=bounds[0]) for each in names), target)
    columns = dict(zip(names, features.T, strict=True)) | {"y": values}
    train, test = (
        frame_cells(pyarrow.table({key: column[part] for key, column in columns.items()}), schema)
        for part in (slice(RECORDS), slice(RECORDS, None))
    )
    return Cells(train.train, test.train, train.schema)


def _wide(rng: np.random.Generator) -> tuple[np.ndarray, tuple[float, float]]:
    """Values within [-1, 1] under bounds ten times as wide."""
    return rng.uniform(-1, 1, size=(RECORDS + TESTED, COLUMNS)), (-TOO_WIDE, TOO_WIDE)


def _tilted(rng: np.random.Generator) -> tuple[np.ndarray, tuple[float, float]]:
    """Columns far from the middle of their bounds, with pairwise correlations of 0.9."""
    common = rng.normal(size=(RECORDS + TESTED, 1))
    own = rng.normal(size=(RECORDS + TESTED, COLUMNS))
    return np.clip(0.8 + 0.06 * (np.sqrt(0.9) * common + np.sqrt(0.1) * own), 0, 1), (0.0, 1.0)


_SHAPES: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, tuple[float, float]]]] = {
    "wide": _wide,
    "tilted": _tilted,
}
GENERATED = tuple(f"{shape}-{predicted}" for shape in _SHAPES for predicted in ("classes", "number"))
