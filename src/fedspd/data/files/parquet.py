"""A table in Apache Parquet."""

from collections.abc import Collection, Generator, Mapping
from pathlib import Path
from typing import Any

from fedspd.errors import InputError

ENDS = b"PAR1"  # the first and the last four bytes
BATCH = 1 << 14  # records
BUFFER = 1 << 16  # bytes of each column at a time; without it, whole files are read ahead


class Parquet:
    """A file of columns with types; text that stands for numbers is read as such."""

    decimal = "."

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        self.path = path
        try:
            with pyarrow.parquet.ParquetFile(path) as file:
                self._schema, self.most = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError):
            raise _broken(path) from None
        self.names = tuple(name.strip() for name in self._schema.names)

    def batches(
        self, numeric: Collection[int], text: Collection[int]
    ) -> Generator[tuple[int, Mapping[int, Any]], None, None]:
        """How many records come next, and their cells in the wanted columns, by the column's place."""
        import pyarrow as pa
        import pyarrow.parquet

        types = {place: self._type(place, place in text) for place in sorted({*numeric, *text})}
        names = [self._schema.names[place] for place in types]
        try:
            with pyarrow.parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
                for batch in file.iter_batches(BATCH, columns=names):
                    cells = {place: batch.column(self._schema.names[place]) for place in types}
                    yield batch.num_rows, {place: self._cast(place, cells[place], types[place]) for place in types}
        except (pa.ArrowException, OSError):
            raise _broken(self.path) from None

    def find(self, records: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """For each of these records, counted from 0, its row counted from 1, and its cells."""
        import pyarrow.parquet

        found, start = {}, 0
        with pyarrow.parquet.ParquetFile(self.path, buffer_size=BUFFER, pre_buffer=False) as file:
            for batch in file.iter_batches(BATCH):
                for record in (one for one in records if start <= one < start + batch.num_rows):
                    cells = [str(column[record - start].as_py()) for column in batch.columns]
                    found[record] = record + 1, cells
                start += batch.num_rows
                if len(found) == len(records):
                    break
        return found

    def _type(self, place: int, as_text: bool) -> Any:
        """What the cells of a column are turned into."""
        import pyarrow as pa
        import pyarrow.types as kinds

        kind = self._schema.types[place]
        kind = kind.value_type if kinds.is_dictionary(kind) else kind
        is_number = (
            kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_boolean(kind)
        )
        is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
        is_bytes = kinds.is_binary(kind) or kinds.is_large_binary(kind)
        where = f"{self.path}: column {self.names[place]!r}"
        if is_text or is_bytes or kinds.is_null(kind) or (as_text and (is_number or kinds.is_temporal(kind))):
            return pa.string()
        if kinds.is_temporal(kind):
            raise InputError(
                f"{where} must hold numbers, got dates or times; turn them into numbers, such as a year or days since "
                "an event."
            )
        if not is_number:
            raise InputError(f"{where} must hold one value in each cell, got lists or the like; split it.")
        return pa.float64()

    def _cast(self, place: int, cells: Any, kind: Any) -> Any:
        import pyarrow as pa
        import pyarrow.types as kinds

        try:
            plain = cells.dictionary_decode() if kinds.is_dictionary(cells.type) else cells
            return plain.cast(kind, safe=kinds.is_string(kind))  # whole numbers beyond 2^53 are rounded
        except pa.ArrowInvalid:
            raise InputError(
                f"{self.path}: column {self.names[place]!r} must hold UTF-8 text, got other bytes; write it as text."
            ) from None


def _broken(path: Path) -> InputError:
    return InputError(f"{path} must be a complete Parquet file, got one that is cut off or damaged; copy it again.")
