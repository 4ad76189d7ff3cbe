"""What a table holds, column by column, in counts: for its owner's eyes, never to be sent."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedspd.data.features.columns import Categorical
from fedspd.data.files.cells import Numbers, Texts
from fedspd.data.files.reading import Paths
from fedspd.data.schema import Schema
from fedspd.data.tabular import codes_of, read_declared
from fedspd.target import Classes, Count


class Quality(NamedTuple):
    """How many cells of a column are not what its schema expects, and what else is worth knowing."""

    kind: str  # numbers or levels, as they are declared; or left out
    rows: int
    missing: int
    unreadable: int  # text where a number is declared; it counts as missing
    distinct: int | None  # None: too many, or not counted
    outside: int = 0  # numbers beyond their bounds, which are moved onto them
    unknown: int = 0  # levels that are not declared; each counts as missing
    note: str = ""

    @property
    def odd(self) -> dict[str, int]:
        """The counts of what is not as declared."""
        counts = {name: getattr(self, name) for name in ("missing", "unreadable", "outside", "unknown")}
        return {name: count for name, count in counts.items() if count}


def quality(paths: Paths, schema: Schema) -> Mapping[str, Quality]:
    """Counts for every declared column, the target's included."""
    found = read_declared(paths, schema)
    wanted: dict[str, tuple[str, ...] | tuple[float, float]] = {
        column.name: column.levels if isinstance(column, Categorical) else (column.lower, column.upper)
        for column in schema.inputs
    }
    target = schema.target
    if isinstance(target, Classes):
        wanted[target.column] = target.classes
    else:
        wanted[target.column] = (0.0, target.most) if isinstance(target, Count) else (target.lower, target.upper)
    texts = {name: quality_of_texts(column, wanted[name]) for name, column in found.texts.items()}
    numbers = {name: quality_of_numbers(column, wanted[name]) for name, column in found.numbers.items()}
    return {name: (texts | numbers)[name] for name in wanted}


def quality_of_texts(column: Texts, levels: tuple | None = None) -> Quality:
    """Counts for a column of texts, against its declared levels if there are any."""
    unknown = 0 if levels is None else int(np.sum(codes_of(column, levels) < 0)) - column.missing
    return Quality("levels", len(column.codes), column.missing, 0, len(column.levels), unknown=unknown)


def quality_of_numbers(column: Numbers, bounds: tuple | None = None) -> Quality:
    """Counts for a column of numbers, against its declared bounds if there are any."""
    values = column.values
    lower, upper = bounds or (-np.inf, np.inf)
    outside = int(np.sum((values < lower) | (values > upper)))
    distinct = len(np.unique(values[~np.isnan(values)]))
    return Quality("numbers", len(values), column.missing, column.unreadable, distinct, outside=outside)
