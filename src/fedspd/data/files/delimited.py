"""A table as text: cells separated by commas, semicolons, tabs, bars or spaces, compressed or not.

A first look goes over all bytes, as fast as they come: is it text, how many rows are there, do quotes come in pairs?
pyarrow then reads the cells, and takes what it cannot tell as it comes: without that look, a quote that is never closed
would swallow all records after it. Rows are looked at one by one only to say where something is wrong.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO, TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from fedspd.data.files.glance import glance
from fedspd.errors import InputError

DELIMITERS = ",;\t| "
HEAD = 1 << 20  # bytes in which the header ends
SAMPLE = 50  # rows that tell the delimiter
BLOCK = 2 << 20  # bytes that pyarrow reads at a time
GZIP = b"\x1f\x8b"
DECIMAL_COMMA = re.compile(r"[-+]?(0,\d+|\d+,(\d\d?|\d{4,}))")  # three decimals might be thousands
DECIMAL_POINT = re.compile(r"[-+]?\d*\.\d+")


class Layout(NamedTuple):
    """How rows are written, as far as the first ones tell."""

    delimiter: str
    decimal: str
    names: tuple[str, ...]
    skip: int  # lines up to the end of the header


class Delimited:
    """A file of rows, the first of them its header."""

    def __init__(self, path: Path, wanted: Collection[str], missing: Collection[str]) -> None:
        self.path, self._missing = path, [*missing]
        with self._open() as file:
            head = file.read(HEAD)
            self._is_zipped = isinstance(file, gzip.GzipFile)
        lines = StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
        self.layout = _layout([*islice(lines, SAMPLE)], wanted)
        with self._open() as file:
            seen = glance(file, path, self.layout.delimiter)
        if seen.has_odd_quotes:
            self._check_rows()
        self.names, self.decimal = self.layout.names, self.layout.decimal
        self.most = max(seen.lines - self.layout.skip, 0)
        self._has_quotes = seen.has_quotes

    def batches(
        self, numeric: Collection[int], text: Collection[int]
    ) -> Generator[tuple[int, Mapping[int, Any]], None, None]:
        """How many records come next, and their cells in the wanted columns, by the column's place.

        Cells of a numeric column come as numbers, or as texts where one of them is no number.
        """
        import pyarrow as pa

        done, loose, blanks = 0, set[int](), False
        while True:
            again = done
            try:
                for batch in self._reader({*numeric} - loose - {*text}, ({*numeric} & loose) - {*text}, text, blanks):
                    fresh = batch.slice(again)
                    again = max(again - batch.num_rows, 0)
                    done += fresh.num_rows
                    yield fresh.num_rows, {int(name): fresh.column(name) for name in fresh.schema.names}
                return
            except pa.ArrowInvalid as error:
                place = re.match(r"In CSV column #(\d+): CSV conversion error to double", str(error))
            # Each time, all before is parsed again: not for every column that has such a cell.
            if place is not None:
                loose = loose | {int(place[1])} if len(loose) < 3 else {*numeric}
                continue
            self._check_rows()
            if blanks:
                raise InputError(
                    f"{self.path} must hold rows shorter than {BLOCK >> 20} MB, got a longer one; shorten it."
                )
            blanks = True

    def find(self, records: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """For each of these records, counted from 0, its row as a person counts them, and its cells."""
        found, record = {}, -1  # the header is no record
        with self._lines() as lines:
            for row, line in enumerate(lines, start=1):
                # A row is one line, unless one of its cells has quotes around a line's end.
                cells = self._cells(chain([line], lines)) if '"' in line else None
                if not line.strip() and (not line.strip("\r\n") or line.count(self.layout.delimiter) < self._gaps):
                    continue
                if record in records:
                    found[record] = row, cells or self._cells(iter([line]))
                if len(found) == len(records):
                    break
                record += 1
        return found

    @property
    def _gaps(self) -> int:
        return len(self.names) - 1

    def _cells(self, lines: Iterator[str]) -> list[str]:
        return next(csv.reader(lines, delimiter=self.layout.delimiter))

    def _reader(self, numeric: Collection[int], loose: Collection[int], text: Collection[int], blanks: bool) -> Any:
        """Its batches. Rows of nothing but spaces are left out where there are such: pyarrow's threads then ask Python.

        A thread that still wants to while the program ends would abort it, so no other file has them ask.
        """
        import pyarrow as pa
        import pyarrow.csv as arrow

        kinds = {place: pa.float64() for place in numeric} | {place: pa.string() for place in loose}
        kinds |= {place: pa.dictionary(pa.int32(), pa.string()) for place in text}
        types = {str(place): kinds[place] for place in sorted(kinds)}
        names = [str(place) for place in range(len(self.names))]
        with pa.input_stream(str(self.path), compression="gzip" if self._is_zipped else None) as file:
            batches = arrow.open_csv(
                file,
                arrow.ReadOptions(column_names=names, skip_rows=self.layout.skip, block_size=BLOCK),
                arrow.ParseOptions(
                    delimiter=self.layout.delimiter,
                    newlines_in_values=self._has_quotes,
                    invalid_row_handler=(lambda row: "error" if row.text.strip() else "skip") if blanks else None,
                ),
                arrow.ConvertOptions(
                    check_utf8=False,  # was checked
                    column_types=types,
                    include_columns=[*types],
                    null_values=self._missing,
                    decimal_point=self.decimal,
                ),
            )
            with batches:
                yield from batches

    def _check_rows(self) -> None:
        """Refuse the first row that has too few or too many cells, or a quote out of place."""
        row, delimiter = 0, self.layout.delimiter
        with self._lines() as lines:
            try:
                for row, cells in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), start=1):
                    if len(cells) != len(self.layout.names) and any(cell.strip() for cell in cells):
                        raise InputError(
                            f"{self.path}, row {row}: a record must have as many cells as the header, "
                            f"{len(self.layout.names)}, got {len(cells)}; correct that row."
                        )
            except csv.Error as error:
                wanted = "a quote that opens a cell must be closed at its end, got another"
                wanted = "cells must be shorter than 0.1 MB, got a longer one" if "limit" in str(error) else wanted
                raise InputError(f"{self.path}, row {row + 1}: {wanted}; correct that row.") from None

    @contextmanager
    def _lines(self) -> Iterator[Iterator[str]]:
        with self._open() as file, TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
            yield lines

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        with self.path.open("rb") as plain:
            if plain.read(2) != GZIP:
                plain.seek(0)
                yield plain
                return
            plain.seek(0)
            try:
                yield cast(BinaryIO, gzip.GzipFile(fileobj=plain))
            except (EOFError, zlib.error, gzip.BadGzipFile):
                raise InputError(
                    f"{self.path} must be a complete gzip file, got one that is cut off or damaged; copy it again."
                ) from None


def _layout(lines: list[str], wanted: Collection[str]) -> Layout:
    """The delimiter under which most of the wanted columns are found, and then most rows are as wide as the header."""
    best, score = Layout(",", ".", (), 0), (-1, -1.0, 0)
    for delimiter in DELIMITERS:
        skip, rows = _rows(lines, delimiter)
        if not rows:
            continue
        names, records = tuple(cell.strip() for cell in rows[0]), rows[1:]
        alike = sum(len(row) == len(names) for row in records) / max(len(records), 1)
        if (one := (len({*wanted} & {*names}), alike if len(names) > 1 else -0.5, len(names))) > score:
            best, score = Layout(delimiter, _decimal(records, delimiter), names, skip), one
    return best


def _rows(lines: list[str], delimiter: str) -> tuple[int, list[list[str]]]:
    """Lines up to the header's end, and the first rows that are not blank."""
    reader, rows, skip = csv.reader(lines, delimiter=delimiter, skipinitialspace=True), [], 0
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                skip = skip or reader.line_num
                rows.append(row)
    except csv.Error:
        pass  # the rows before it tell enough; what is wrong with this one is said later
    return skip, rows


def _decimal(records: list[list[str]], delimiter: str) -> str:
    cells = [cell.strip() for record in records for cell in record] if delimiter != "," else []
    has_comma = any(DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return "," if has_comma and not any(DECIMAL_POINT.fullmatch(cell) for cell in cells) else "."
