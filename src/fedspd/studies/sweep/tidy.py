"""One tidy table, a row per run: as CSV and as Parquet, with the same values."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CSV_FILE, PARQUET_FILE = "table.csv", "table.parquet"


def write_csv(kinds: Mapping[str, type], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Numbers at full precision; what is missing is empty."""
    with (folder / CSV_FILE).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(kinds)
        writer.writerows([_text(row[name]) for name in kinds] for row in rows)


def write_parquet(kinds: Mapping[str, type], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Every column with its type; what is missing is null."""
    import pyarrow
    import pyarrow.parquet

    stored = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, stored[kind]) for name, kind in kinds.items()])
    columns = {name: [row[name] for row in rows] for name in kinds}
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), folder / PARQUET_FILE)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return value
    return repr(value)
