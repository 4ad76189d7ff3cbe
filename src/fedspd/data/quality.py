"""What is odd about a table, column by column, in counts: for its owner's eyes, never to be sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspd.data.columns import Categorical
from fedspd.data.schema import Schema
from fedspd.data.tabular import number_of, read_cells


class Oddities(NamedTuple):
    """Cells of a column that are not what its schema expects; each counts as its column's missing value."""

    empty: int
    unreadable: int  # text where a number is declared
    outside: int  # numbers beyond their bounds, which are moved onto them
    unknown: int  # levels that are not declared


def oddities(path: Path, schema: Schema) -> Mapping[str, Oddities]:
    """Counts for every column of the schema's inputs."""
    cells = read_cells(path, schema)
    return {column.name: _odd(cells[column.name], column) for column in schema.inputs}


def _odd(cells: tuple[str, ...], column: object) -> Oddities:
    stripped = [cell.strip() for cell in cells]
    empty = sum(not cell for cell in stripped)
    if isinstance(column, Categorical):
        return Oddities(empty, 0, 0, sum(bool(cell) and cell not in column.levels for cell in stripped))
    numbers = np.array([number_of(cell) for cell in stripped if cell])
    readable = numbers[np.isfinite(numbers)]
    outside = int(((readable < column.lower) | (readable > column.upper)).sum())  # pyright: ignore[reportAttributeAccessIssue]
    return Oddities(empty, len(numbers) - len(readable), outside, 0)
