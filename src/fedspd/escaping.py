"""Names and texts from data, harmless wherever they are shown: on a terminal, in a spreadsheet."""

import csv
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TextIO

FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are the wide ones of Asian keyboards
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def escaped(text: str) -> str:
    """Text that a terminal shows and does not obey: control characters and line ends as they are written in code."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def escaped_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(escaped, text.split("\n")))


def cell_of(text: str) -> str:
    """A text as a cell of a spreadsheet: with a single quote in front where it would be taken for a formula.

    Numbers stay as they are. Quotes that such a text begins with get one more, so that it can be had back: where a
    cell begins with quotes and then a sign of a formula, the first quote is not part of the text.
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Rows as CSV, every text of them as `cell_of` has it; numbers at full precision, nothing for None."""
    writer = csv.writer(_Lines(file), lineterminator="\r\n")
    writer.writerows([cell_of(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


class _Lines(NamedTuple):
    """A file whose rows end as on this system: a writer quotes of line ends only the signs that end its own rows."""

    file: TextIO

    def write(self, row: str) -> None:
        self.file.write(row.removesuffix("\r\n") + "\n")
