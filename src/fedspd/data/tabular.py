"""A site's own table: from a CSV file to features, under a declared schema alone.

No text of an error holds a cell of the file, not even of its header, which in a file without one is a
record: errors name rows by number and columns as the schema does.
"""

import csv
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import numpy as np

from fedspd.data import scaling
from fedspd.data.columns import Categorical, Column
from fedspd.data.dataset import Table
from fedspd.data.scaling import Matrix
from fedspd.data.schema import Schema
from fedspd.errors import InputError


def read_table(path: str | Path, schema: Schema) -> Table:
    """The records of a CSV file as features within their public ranges: numbers in [-1, 1], levels 0 or 1.

    The file is UTF-8 text separated by commas, with a header; its columns may come in any order, and those
    that the schema does not declare are ignored. Spaces around a cell do not count.

    Guarantees:
        Numbers keep to [-1, 1] and blocks of levels to at most one 1, whatever the file holds.
        A file that cannot be used is refused without quoting a cell.
    """
    header, rows, numbers = _rows(path)
    places = _places(path, header, schema)
    columns = [*zip(*rows, strict=True)]
    labels = _codes(columns[places[schema.target.column]], schema.target.classes)
    if labels.min() < 0:
        raise InputError(
            f"{path}, row {numbers[int(np.argmin(labels))]}: column {schema.target.column!r} must hold one of the "
            f"classes {', '.join(schema.target.classes)}, got something else; correct that row or leave it out."
        )
    cells = {column.name: _parsed(columns[places[column.name]], column) for column in schema.inputs}
    return Table(unit(encode(cells, schema), schema), labels, schema.columns, schema.target.classes)


def read_cells(path: str | Path, schema: Schema) -> dict[str, tuple[str, ...]]:
    """The text of every cell of the declared inputs, by column."""
    header, rows, _ = _rows(path)
    places, columns = _places(path, header, schema), [*zip(*rows, strict=True)]
    return {column.name: columns[places[column.name]] for column in schema.inputs}


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


def unit(features: Matrix, schema: Schema) -> Matrix:
    """Features on their public ranges: numbers from [lower, upper] to [-1, 1], blocks as they are."""
    scaled = scaling.min_max(features, schema.ranges[:, 0], schema.ranges[:, 1])
    return np.where(schema.numeric, 2 * scaled - 1, scaled)


def _rows(path: str | Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, records, and the number of each record's row, where the header is row 1 and blank rows count."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # spreadsheets write a mark before the header
    except OSError as error:
        raise InputError(f"expected a table in CSV, got {str(path)!r} ({error.strerror}); name another file.") from None
    except UnicodeDecodeError:
        raise InputError(f"a table must be UTF-8 text, got {str(path)!r}, which is not; save it as UTF-8.") from None
    rows: list[list[str]] = []
    try:
        # Strict, or a quote that is never closed would swallow all records after it.
        rows.extend(csv.reader(StringIO(text, newline=""), skipinitialspace=True, strict=True))
    except csv.Error:
        raise InputError(
            f"{path}, row {len(rows) + 1}: cells must be separated by commas and quotes must be closed, "
            "got something else; correct that row."
        ) from None
    numbers = [number for number, row in enumerate(rows, start=1) if len(row) > 1 or any(map(str.strip, row))]
    if len(numbers) < 2:
        raise InputError(f"{path} must hold a header and at least one record, got {len(numbers)} rows; add records.")
    header, *records = (rows[number - 1] for number in numbers)
    for number, record in zip(numbers[1:], records, strict=True):
        if len(record) != len(header):
            raise InputError(
                f"{path}, row {number}: a record must have as many cells as the header, {len(header)}, "
                f"got {len(record)}; correct that row."
            )
    return header, records, numbers[1:]


def _places(path: str | Path, header: list[str], schema: Schema) -> dict[str, int]:
    names = [cell.strip() for cell in header]
    declared = (schema.target.column, *(column.name for column in schema.inputs))
    for name in declared:
        if names.count(name) != 1:
            raise InputError(
                f"the header of {path} must name each declared column once, got {name!r} {names.count(name)} times; "
                "correct the first row, or the schema for all sites."
            )
    return {name: names.index(name) for name in declared}


def _parsed(column: tuple[str, ...], declared: Column) -> np.ndarray:
    if isinstance(declared, Categorical):
        return _codes(column, declared.levels)
    values = np.array([number_of(cell) for cell in column])
    return np.where(np.isfinite(values), values, np.nan)


def _codes(column: tuple[str, ...], levels: tuple[str, ...]) -> np.ndarray:
    codes = {level: code for code, level in enumerate(levels)}
    return np.array([codes.get(cell.strip(), -1) for cell in column])


def number_of(cell: str) -> float:
    """A cell as a number; not a number where it is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan
