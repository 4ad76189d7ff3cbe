"""A user's own table, whatever files it is in: the wanted columns of all of them, at the speed of pyarrow.

No sentence quotes a cell, not even of a header, which in a file without one is a record: rows are named by number,
columns as the user declared them.
"""

import os
import stat
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from fedspd.data.files.cells import MISSING, NumberCollector, Numbers, TextCollector, Texts, what_is
from fedspd.data.files.delimited import Delimited
from fedspd.data.files.parquet import ENDS, Parquet
from fedspd.errors import InputError

OTHERS = {  # how files begin that are often taken for tables
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a spreadsheet or another ZIP archive",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet",
    b"ARROW1": "an Arrow file",
    b"SQLite": "a database",
    b"BZh": "a file compressed with bzip2",
    b"\xfd7zXZ": "a file compressed with xz",
    b"\x28\xb5\x2f\xfd": "a file compressed with zstd",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}
Paths = str | Path | Sequence[str | Path]
Source = Delimited | Parquet


class Located(Protocol):
    """Where records stand, so that a person finds them again."""

    @property
    def path(self) -> Path:
        """What sentences call the table."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        ...

    def find(self, records: Collection[int]) -> dict[int, tuple[int, list[str]]]:
        """For each of these records, counted from 0, the number of its row, and its cells."""
        ...


class Place(NamedTuple):
    """A cell that cannot be read, as a person finds it: the header is row 1, and blank rows count."""

    file: str
    row: int
    column: str
    what: str  # what the cell holds, in words that do not quote it
    remedy: str


@dataclass(frozen=True)
class Columns:
    """The wanted columns of a table, a record after another, a file after another."""

    rows: int
    numbers: dict[str, Numbers]
    texts: dict[str, Texts]
    sources: tuple[Located, ...]
    ends: tuple[int, ...]  # how many records there are up to the end of each file

    @property
    def files(self) -> Texts:
        """For each record the name of its file, without folder and suffix: where every client has its own file."""
        names = [source.path.name.removesuffix(".gz").rpartition(".")[0] or source.path.name for source in self.sources]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise InputError(
                f"files of clients must have names of their own, got {times} files with the name of "
                f"{self.sources[names.index(name)].path}; rename them."
            )
        return Texts(np.repeat(np.arange(len(names), dtype=np.int32), np.diff(self.ends, prepend=0)), names, 0)

    def named(self, column: str, whom: str) -> Texts:
        """The client or the person of each record, by the name in a column; refused where one is not named."""
        named = self.texts[column]
        if named.missing:
            raise InputError(
                f"{self.where(int(np.argmin(named.codes)))}: column {column!r} must name the {whom} of every record, "
                f"got nothing in {named.missing} of {self.rows}; fill it in, or leave those records out."
            )
        return named

    def where(self, record: int) -> str:
        """The place of a record, counted from 0, as sentences begin with it."""
        (path, row, _), *_ = self._find([record])
        return f"{path}, row {row}"

    def places(self, column: str) -> list[Place]:
        """The first unreadable cells of a numeric column."""
        found = self._find(self.numbers[column].where)
        return [Place(str(path), row, column, *what_is(cells[column])) for path, row, cells in found]

    def refuse_unreadable(self, most: float = 0.0) -> None:
        """Refuse the table if more than this share of a numeric column's cells hold something else."""
        for name, column in self.numbers.items():
            if column.unreadable > most * self.rows:
                first, more = self.places(name)[0], column.unreadable - 1
                raise InputError(
                    f"{first.file}, row {first.row}: column {name!r} must hold a number, got {first.what}"
                    f"{f' (and {more} more such cells)' if more else ''}; {first.remedy}."
                )

    def _find(self, records: Sequence[int]) -> list[tuple[Path, int, dict[str, str]]]:
        found = []
        for source, start, end in zip(self.sources, (0, *self.ends), self.ends, strict=False):
            wanted = [record - start for record in records if start <= record < end]
            rows = source.find(wanted) if wanted else {}
            found += [(source.path, row, dict(zip(source.names, cells, strict=False))) for row, cells in rows.values()]
        return found


def read_columns(
    paths: Paths,
    numeric: Collection[str],
    text: Collection[str],
    missing: Collection[str] = (),
    most_levels: int | None = None,
) -> Columns:
    """The numbers and texts of some columns of a table, and how many of them are missing or unreadable.

    The files are CSV in UTF-8 (separated by commas, semicolons, tabs, bars or spaces; as it is or in gzip) or Parquet.
    Their columns may come in any order, and other columns are not read. Spaces around a cell do not count.

    Args:
        paths: a file, a pattern such as `records/*.csv`, or several of them.
        numeric: columns of numbers; true and false are 1 and 0.
        text: columns of texts.
        missing: cells that mean that nothing is known, beside those that always do.
        most_levels: a column of texts with more different ones is given up.
    """
    markers = frozenset((*MISSING, *missing))
    sources = open_files(paths, (*numeric, *text), markers)
    most = sum(source.most for source in sources)
    numbers = {name: NumberCollector(most, markers) for name in numeric}
    texts = {name: TextCollector(most, markers, most_levels) for name in text}
    ends = tuple(accumulate(_collect(source, numbers, texts) for source in sources))
    return Columns(
        ends[-1],
        {name: collector.finished() for name, collector in numbers.items()},
        {name: collector.finished() for name, collector in texts.items()},
        tuple(sources),
        ends,
    )


def _collect(source: Source, numbers: Mapping[str, NumberCollector], texts: Mapping[str, TextCollector]) -> int:
    """Read one file; how many records it has."""
    places, rows = _places(source, (*numbers, *texts)), 0
    for count, cells in source.batches([places[name] for name in numbers], [places[name] for name in texts]):
        for name, collector in numbers.items():
            collector.add(cells[places[name]], source.decimal)
        for name, collector in texts.items():
            collector.add(cells[places[name]])
        rows += count
    if not rows:
        raise InputError(f"{source.path} must hold at least one record, got a header alone; add records.")
    return rows


def open_files(paths: Paths, wanted: Collection[str], missing: Collection[str]) -> list[Source]:
    """The files of a table, which all have the same columns."""
    sources = [_open(path, wanted, missing) for path in files_of(paths)]
    first, *others = sources
    for other in others:
        more, less = ({*one.names} - {*two.names} for one, two in ((other, first), (first, other)))
        if more or less:
            raise InputError(
                f"{other.path} must have the same columns as {first.path}, got {len(more)} others and {len(less)} "
                "missing; name files of one table."
            )
    return sources


def files_of(paths: Paths) -> list[Path]:
    """Every file once, in the order in which they are named."""
    files: list[Path] = []
    for one in [paths] if isinstance(paths, str | Path) else paths:
        is_pattern = not os.path.exists(one) and any(sign in str(one) for sign in "*?[")
        found = [Path(path) for path in sorted(glob(str(one), recursive=True))] if is_pattern else [Path(one)]
        if not found:
            raise InputError(f"expected files of a table, got {str(one)!r}, which matches none; correct the pattern.")
        files += found
    if not files:
        raise InputError("expected files of a table, got none; name at least one.")
    return list(dict.fromkeys(files))


def first_bytes(path: Path) -> bytes:
    """How a table's file begins.

    Raises:
        InputError: it is no file, or cannot be read.
    """
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(f"expected a table, got the folder {str(path)!r}; name its files, as in {path / '*.csv'}.")
        if not stat.S_ISREG(kind):
            raise InputError(f"expected a table, got {str(path)!r}, which is no file; save the table as one.")
        with path.open("rb") as file:
            return file.read(8)
    except InputError:
        raise
    except (OSError, ValueError) as error:  # a value that is wrong: a zero in the name
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise InputError(f"expected a table, got {str(path)!r} ({reason}); name another file.") from None


def _open(path: Path, wanted: Collection[str], missing: Collection[str]) -> Source:
    start = first_bytes(path)
    for mark, what in OTHERS.items():
        if start.startswith(mark):
            raise InputError(f"{path} must be a table in CSV or Parquet, got {what}; save it as CSV in UTF-8.")
    if start.startswith(ENDS) or path.suffix.lower() in (".parquet", ".pq"):
        return Parquet(path)
    source = Delimited(path, wanted, missing)
    if not source.names:
        raise InputError(f"{path} must hold a header and at least one record, got nothing; name another file.")
    return source


def _places(source: Source, wanted: Collection[str]) -> dict[str, int]:
    for name in wanted:
        if (times := source.names.count(name)) != 1:
            raise InputError(
                f"{source.path} must have each declared column once, got {name!r} {times} times; correct its header, "
                "or what is declared."
            )
    return {name: source.names.index(name) for name in wanted}
