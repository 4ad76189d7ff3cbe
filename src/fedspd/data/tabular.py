"""A site's own table: from a file to features, under a declared schema alone."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedspd.data.dataset import CLIENT, Category, Table
from fedspd.data.features import scaling
from fedspd.data.features.columns import Categorical, Numeric
from fedspd.data.features.scaling import Matrix
from fedspd.data.files.cells import Texts
from fedspd.data.files.reading import Columns, Paths, read_columns
from fedspd.data.holding.units import MOST_ROWS, MOST_ROWS_OF_CLIENT
from fedspd.data.schema import Schema
from fedspd.errors import InputError
from fedspd.target import Classes, Target
from fedspd.typing import Unit


class Cells(NamedTuple):
    """Records encoded under their schema, not scaled yet; nothing was read from them to do so."""

    train: Table
    test: Table | None  # None: models are not measured
    schema: Schema

    def under(self, schema: Schema) -> "Cells":
        """The same records under another schema of the same columns."""
        if schema == self.schema:
            return self
        return Cells(_under(self.train, schema), None if self.test is None else _under(self.test, schema), schema)


def _under(table: Table, schema: Schema) -> Table:
    return replace(table, features=encode(table.cells, schema), columns=schema.columns)


def read_table(path: str | Path, schema: Schema, unit: Unit = "record") -> Table:
    """The records of a CSV or Parquet file as features within their public ranges: numbers in [-1, 1], levels 0 or 1.

    Its columns may come in any order, and those that the schema does not declare are ignored (see `read_columns`).
    Where a person is the unit, rows stand by person, the first `MOST_ROWS` of each; of a whole client's rows the first
    `MOST_ROWS_OF_CLIENT` are kept. Cells stay beside the features.

    Guarantees:
        Numbers keep to [-1, 1] and blocks of levels to at most one 1, whatever the file holds.
        A file that cannot be used is refused without quoting a cell.
    """
    if unit != "person":
        table = table_of(read_declared(path, schema), schema)
        if unit == "client" and len(table) > MOST_ROWS_OF_CLIENT:
            table = table.rows(np.arange(MOST_ROWS_OF_CLIENT))
        return replace(table, features=on_ranges(table.features, schema))
    if schema.person is None:
        raise InputError(
            "to protect persons, the schema must name the column that says whom a record is about, got none; add "
            "person = ..., or protect records (unit = record)."
        )
    found = read_declared(path, schema, schema.person)
    table = by_person(table_of(found, schema, persons=found.named(schema.person, "person")))
    return replace(table, features=on_ranges(table.features, schema))


def by_person(table: Table) -> Table:
    """Rows in the order of their persons, of each the first `MOST_ROWS`: rounding counts on no more."""
    assert table.persons is not None
    order = np.argsort(table.persons.codes, kind="stable")
    sizes = np.bincount(table.persons.codes)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return table.rows(order[place < MOST_ROWS])


def table_of(found: Columns, schema: Schema, clients: Texts | None = None, persons: Texts | None = None) -> Table:
    """Records as encoded features, not scaled yet, refused where too many of their cells cannot be read.

    Args:
        found: the declared columns.
        schema: how they are encoded.
        clients: whose record each is, where the table says so.
        persons: whom each record is about, where the table says so.
    """
    found.refuse_unreadable(schema.most_unreadable)
    labels, cells = _labels(found, schema.target), cells_of(found, schema)
    attributes = {
        column.name: _category(cells[column.name], column.levels)
        for column in schema.inputs
        if isinstance(column, Categorical)
    }
    if clients is not None:
        attributes[CLIENT] = by_name(clients)
    target = None if isinstance(schema.target, Classes) else schema.target
    about = None if persons is None else by_name(persons)
    return Table(encode(cells, schema), labels, schema.columns, schema.target.classes, attributes, target, cells, about)


def by_name(texts: Texts) -> Category:
    """Names of clients or persons, in alphabetical order."""
    names = tuple(sorted(texts.levels))
    return Category(codes_of(texts, names), names)


def cells_of(found: Columns, schema: Schema) -> dict[str, np.ndarray]:
    """Numbers, not a number where one is missing, or indices into levels, negative where a cell is none of them."""
    return {
        column.name: codes_of(found.texts[column.name], column.levels)
        if isinstance(column, Categorical)
        else found.numbers[column.name].values
        for column in schema.inputs
    }


def _category(codes: np.ndarray, levels: tuple[str, ...]) -> Category:
    """A column to deal records by; what is none of its levels is a level of its own."""
    if (codes >= 0).all():
        return Category(codes, levels)
    return Category(np.where(codes < 0, len(levels), codes), (*levels, "no level"))


def encode(cells: Mapping[str, np.ndarray], schema: Schema) -> Matrix:
    """Features before they are scaled: numbers within their bounds, or their logarithms, and blocks from 0 to 1.

    Args:
        cells: for each declared column its numbers, NaN where one is missing, or indices into its levels,
            negative where an entry is none of them.
        schema: decides the order of the features.
    """
    # Most entries are the zeros of levels: only the others are written.
    features = np.zeros((len(cells[schema.inputs[0].name]), len(schema.columns)))
    places: dict[str, slice] = {}
    place = 0
    for column in schema.inputs:
        places[column.name] = slice(place, place + len(column.features))
        column.write(cells[column.name], features[:, places[column.name]])
        place += len(column.features)
    for product in schema.products:
        width = len(product.features)
        one, other = (features[:, places[column.name]] for column in (product.first, product.second))
        product.write(one, other, features[:, place : place + width])
        place += width
    return features


def on_ranges(features: Matrix, schema: Schema) -> Matrix:
    """Features on their public ranges: numbers from [lower, upper] to [-1, 1], blocks as they are."""

    def moved(rows: Matrix) -> Matrix:
        scaled = scaling.min_max(rows, schema.ranges[:, 0], schema.ranges[:, 1])
        return np.where(schema.numeric, 2 * scaled - 1, scaled)

    return scaling.in_blocks(moved, features, features.shape[1])


def codes_of(texts: Texts, levels: tuple[str, ...]) -> np.ndarray:
    """For each record the index of its text among some levels, -1 where it is none of them."""
    places = {level: place for place, level in enumerate(levels)}
    return np.array([*(places.get(level, -1) for level in texts.levels), -1])[texts.codes]


def read_declared(paths: Paths, schema: Schema, *others: str) -> Columns:
    """The declared columns of a table, the target's included, and others as texts, as they are in its files."""
    numeric = [column.name for column in schema.inputs if isinstance(column, Numeric)]
    text = [*others, *(column.name for column in schema.inputs if isinstance(column, Categorical))]
    (text if isinstance(schema.target, Classes) else numeric).append(schema.target.column)
    return read_columns(paths, numeric, text, schema.missing_markers)


def _labels(found: Columns, target: Target) -> np.ndarray:
    """The target of each record, the way losses see it; one that has none is refused by its row."""
    if isinstance(target, Classes):
        labels = codes_of(found.texts[target.column], target.classes)
        absent, wanted = labels < 0, f"one of the classes {', '.join(target.classes)}"
    else:
        values = found.numbers[target.column].values
        labels, absent, wanted = target.labels(values), np.isnan(values), "a number"
    if absent.any():
        raise InputError(
            f"{found.where(int(np.argmax(absent)))}: column {target.column!r} must hold {wanted}, got something else; "
            "correct that row or leave it out."
        )
    return labels
