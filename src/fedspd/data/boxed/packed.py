"""Tables as files: a line of JSON that names the columns, then whole numbers column by column, all compressed by xz.

`scripts/embed_tables.py` writes them. A number is stored without its decimal point, so that it is read back exactly.
"""

import json
import lzma
from importlib import resources
from typing import Any

import numpy as np

MISSING = "?"  # what a column of text holds where the source has no entry

Columns = dict[str, np.ndarray]


def read_packed(name: str) -> Columns:
    """The columns of an embedded table: numbers as float64, not-a-number where one is missing; all others as text."""
    content = lzma.decompress((resources.files("fedspd.data.boxed") / f"{name}.xz").read_bytes())
    head, _, body = content.partition(b"\n")
    header = json.loads(head)
    columns: Columns = {}
    position = 0
    for entry in header["columns"]:
        codes = np.frombuffer(body, entry["type"], count=header["rows"], offset=position)
        columns[entry["name"]] = _values(codes, entry)
        position += codes.nbytes
    return columns


def _values(codes: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    """Levels by their place, decimals without their point, or names that are whole numbers; the largest is missing."""
    if "levels" in entry:
        return np.array([*entry["levels"], MISSING])[np.minimum(codes, len(entry["levels"]))]
    if "decimals" not in entry:
        return codes.astype(str)
    values = codes / 10.0 ** entry["decimals"]
    values[codes == np.iinfo(codes.dtype).max] = np.nan
    return values
