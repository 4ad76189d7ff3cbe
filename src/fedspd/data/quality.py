"""What is odd about a table, column by column, in counts: for its owner's eyes, never to be sent."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedspd.data.columns import Categorical, Column
from fedspd.data.files import Columns, Paths
from fedspd.data.schema import Schema
from fedspd.data.tabular import codes_of, read_declared


class Oddities(NamedTuple):
    """Cells of a column that are not what its schema expects; each counts as its column's missing value."""

    missing: int
    unreadable: int  # text where a number is declared
    outside: int  # numbers beyond their bounds, which are moved onto them
    unknown: int  # levels that are not declared


def oddities(paths: Paths, schema: Schema) -> Mapping[str, Oddities]:
    """Counts for every column of the schema's inputs."""
    found = read_declared(paths, schema)
    return {column.name: _odd(found, column) for column in schema.inputs}


def _odd(found: Columns, column: Column) -> Oddities:
    if isinstance(column, Categorical):
        texts = found.texts[column.name]
        none = int(np.sum(codes_of(texts, column.levels) < 0))
        return Oddities(texts.missing, 0, 0, none - texts.missing)
    values, missing, unreadable, _ = found.numbers[column.name]
    return Oddities(missing, unreadable, int(np.sum((values < column.lower) | (values > column.upper))), 0)
