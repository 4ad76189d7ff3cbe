"""One tidy table, a row per run: as CSV and as Parquet, with the same values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedspd import escaping

CSV_FILE, PARQUET_FILE = "table.csv", "table.parquet"


def write_csv(kinds: Mapping[str, type], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Numbers at full precision; what is missing is empty."""
    with (folder / CSV_FILE).open("w", newline="", encoding="utf-8") as file:
        escaping.write_csv(file, [kinds, *([_cell(row[name]) for name in kinds] for row in rows)])


def write_parquet(kinds: Mapping[str, type], rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Every column with its type; what is missing is null."""
    import pyarrow
    import pyarrow.parquet

    stored = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64(), str: pyarrow.string()}
    schema = pyarrow.schema([(name, stored[kind]) for name, kind in kinds.items()])
    columns = {name: [row[name] for row in rows] for name in kinds}
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), folder / PARQUET_FILE)


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
