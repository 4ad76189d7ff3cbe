r"""Encoding by budget: how finely columns are cut, from public numbers alone.

A column that is cut into b pieces loses about $k\nu^2b^2/h$ to noise of size $\nu$ per coordinate, where k columns
share a row's length and h is a usual record's curvature, and about $h/(kb^2)$ to being cut. The two are even where b
grows like $\sqrt{h/(k\nu)}$. Adult set the factor, a half; ADR 29 derives it and says what it does to other data.
"""

from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt

from fedspd.data.features.columns import Categorical, Column, Numeric
from fedspd.data.schema import Schema
from fedspd.target import Count

FEWEST = 4
"""Fewer pieces bend less than they cost."""
RECORDS_A_PIECE = 50
"""What a weight takes to be learned at all."""
MOST_FUNCTIONS, MOST_BINS = 8, 16
"""Smooth functions need fewer pieces than steps do; more of either never paid."""


def encoding_for(schema: Schema, noise: float, records: int) -> Schema:
    """The schema with nothing left open: columns whose encoding nobody declared are cut as finely as noise allows.

    Args:
        schema: as it was declared. Columns that it multiplies are left as they are.
        noise: per coordinate of the mean gradient, of all rounds together.
        records: on all clients.
    """
    fixed = {column.name for product in schema.products for column in (product.first, product.second)}
    pieces = fineness(schema, noise, records)
    inputs = tuple(
        _cut(column, pieces) if column.is_open and column.name not in fixed else column for column in schema.inputs
    )
    return replace(schema, inputs=inputs)


def fineness(schema: Schema, noise: float, records: int) -> float:
    """Into how many pieces a column may be cut before noise, or chance, costs more than they gain."""
    columns, target = len(schema.inputs), schema.target
    usual = target.center / target.most if isinstance(target, Count) else 1.0  # a count's curvature is its mean
    by_noise = sqrt(usual / (columns * noise)) / 2 if noise else inf
    return min(by_noise, records / (columns * RECORDS_A_PIECE))


def _cut(column: Column, pieces: float) -> Column:
    return _cut_levels(column, pieces) if isinstance(column, Categorical) else _cut_numbers(column, pieces)


def _cut_numbers(column: Numeric, pieces: float) -> Numeric:
    """A spline; bins where amounts spread over orders of magnitude, as a logarithm declares; or one number."""
    if pieces < FEWEST:
        return replace(column, linear=True)
    if column.log:
        return replace(column, log=False, log_bins=_doubled(pieces, MOST_BINS))
    return replace(column, spline=_doubled(pieces, MOST_FUNCTIONS))


def _doubled(pieces: float, most: int) -> int:
    """The largest of 4, 8, 16, ... that fits: a finer cut halves the pieces of a coarser one."""
    count = FEWEST
    while 2 * count <= min(pieces, most):
        count *= 2
    return count


def _cut_levels(column: Categorical, pieces: float) -> Categorical:
    """Each level by itself, or neighbors together, or one number."""
    levels = column.levels
    if len(levels) <= pieces:
        return replace(column, ordered=False)
    if pieces < FEWEST:
        return replace(column, ordered=False, ordinal=True, drop_first=False)
    return replace(column, ordered=False, groups=_neighbors(levels, _doubled(pieces, len(levels))))


def _neighbors(levels: tuple[str, ...], count: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """So many groups of levels that follow each other, as even as can be, those of one level left out."""
    ends = [len(levels) * place // count for place in range(count + 1)]
    groups = (levels[begin:end] for begin, end in pairwise(ends))
    return tuple((f"{group[0]} to {group[-1]}", group) for group in groups if len(group) > 1)
