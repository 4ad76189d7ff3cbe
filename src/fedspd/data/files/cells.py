"""What the cells of a table say: a number, a text, or nothing; the same for every kind of file."""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = ("", "?", "NA", "NaN", "null")  # what a file holds where a value is missing
PLACES = 5  # so many unreadable cells of a column are remembered

DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|inf(inity)?)", re.IGNORECASE)
COMMA = re.compile(r"[-+]?[\d.]*\d,\d+")


class Numbers(NamedTuple):
    """A column of numbers, not a number (NaN) where one is missing or unreadable."""

    values: NDArray[np.float64]
    missing: int
    unreadable: int  # cells that hold something, but no finite number
    where: tuple[int, ...]  # the first records, counted from 0, whose cell is unreadable


class Texts(NamedTuple):
    """A column of texts: for each record the index of its level, -1 where it is missing."""

    codes: NDArray[np.int32]
    levels: list[str]  # in the order of their first record
    missing: int
    too_many: bool = False  # more levels than were asked for: there are neither codes nor levels


def stripped(cell: str) -> str:
    """A cell without the spaces around it, and without the quotes that they kept from being seen as such."""
    cell = cell.strip()
    return cell[1:-1].replace('""', '"').strip() if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def number_of(cell: str, missing: Collection[str], decimal: str = ".") -> float:
    """A cell as a number; not a number where it is missing, infinite where it is unreadable."""
    text = stripped(cell)
    if text in missing:
        return np.nan
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    if "_" in text or (decimal == "," and "." in text):
        return np.inf
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return np.inf


def what_is(cell: str) -> tuple[str, str]:
    """What an unreadable cell holds, in words that do not quote it, and the remedy."""
    text = stripped(cell)
    if DATE.fullmatch(text):
        return "a date", "turn dates into numbers, such as a year or days since an event"
    if COMMA.fullmatch(text):
        return "a number with a comma", "write a point before decimals, and nothing between thousands"
    if not NUMBER.fullmatch(text):
        return "a text", "correct the cell, leave it empty, or declare levels for this column"
    return "a number without end or beyond 1e308", "correct the cell or leave it empty"


class NumberCollector:
    """Fills one array with the numbers of a column, batch by batch."""

    def __init__(self, most: int, missing: Collection[str]) -> None:
        self.values, self.rows, self.markers = np.empty(most), 0, missing
        self.missing, self.unreadable, self.where = 0, 0, []

    def add(self, array: Any, decimal: str) -> None:
        """Append an array of pyarrow: of numbers, or of texts that are read as such."""
        import pyarrow.types as kinds

        is_read = kinds.is_float64(array.type)
        found = array.to_numpy(zero_copy_only=False) if is_read else _numbers(array, self.markers, decimal)
        place = self.values[self.rows : self.rows + len(found)]
        place[:] = found
        (odd,) = np.nonzero(np.isinf(found))
        place[odd] = np.nan
        self.missing += int(np.isnan(found).sum())
        self.unreadable += len(odd)
        self.where += (self.rows + odd[: PLACES - len(self.where)]).tolist()
        self.rows += len(found)

    def finished(self) -> Numbers:
        """All that was added."""
        return Numbers(self.values[: self.rows], self.missing, self.unreadable, tuple(self.where))


class TextCollector:
    """Fills one array with the codes of a column's texts, batch by batch."""

    def __init__(self, most: int, missing: Collection[str], most_levels: int | None) -> None:
        self.codes, self.rows, self.markers = np.empty(most, np.int32), 0, missing
        self.levels: dict[str, int] = {}
        self.missing, self.most_levels, self.too_many = 0, most_levels, False

    def add(self, array: Any) -> None:
        """Append an array of pyarrow, of texts."""
        indices, words = _encoded(array)
        codes = np.array([*(self._code(stripped(word)) for word in words), -1], np.int32)[indices]
        self.codes[self.rows : self.rows + len(codes)] = codes
        self.missing += int((codes == -1).sum())
        self.rows += len(codes)
        if self.most_levels is not None and len(self.levels) > self.most_levels:
            self.too_many = True
            self.levels.clear()

    def _code(self, word: str) -> int:
        if word in self.markers:
            return -1
        return 0 if self.too_many else self.levels.setdefault(word, len(self.levels))

    def finished(self) -> Texts:
        """All that was added."""
        codes = np.empty(0, np.int32) if self.too_many else self.codes[: self.rows]
        return Texts(codes, [*self.levels], self.missing, self.too_many)


def _encoded(array: Any) -> tuple[NDArray[np.int32], list[str]]:
    """For each entry the index of its word, -1 where it has none, and the words."""
    import pyarrow.types as kinds

    encoded = array if kinds.is_dictionary(array.type) else array.dictionary_encode()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def _numbers(array: Any, missing: Collection[str], decimal: str) -> NDArray[np.float64]:
    import pyarrow as pa
    from pyarrow.compute import SetLookupOptions, call_function

    if decimal == "." and pa.types.is_string(array.type):
        trimmed = call_function("utf8_trim_whitespace", [array])
        is_missing = call_function("is_in", [trimmed], SetLookupOptions(pa.array([*missing], pa.string())))
        try:
            known = call_function("if_else", [is_missing, pa.scalar(None, pa.string()), trimmed])
            return known.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass  # some cell in these holds something else: they are read one by one
    indices, words = _encoded(array)
    return np.array([*(number_of(word, missing, decimal) for word in words), np.nan])[indices]
