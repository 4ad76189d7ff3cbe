"""A line for every finished run, in CSV files that grow: what is there is not played again."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any

from benchmarks.defaults.cells import Cell
from fedspd.results.files import append_line

RULE, TUNED = "rule", "tuned"


@dataclass(frozen=True)
class Row:
    """A run, by what was tried and what came out; score and trivial are in points."""

    kind: str  # by rule, or at the best point of a tuned grid
    data: str
    clients: int
    deal: str
    participants: int
    epsilon: float
    uploads: int  # at most; 0: open
    seed: int
    score: float  # accuracy, R² or D² on the test set; not a number where the model is none
    trivial: float  # of always predicting the largest class, or the mean
    rounds: int
    point: str  # what tuning chose
    settings: str  # beside the preset
    program: str  # digest of what played it

    @property
    def cell(self) -> Cell:
        """What was tried."""
        return Cell(self.data, self.clients, self.deal, self.participants, self.epsilon, self.uploads)

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells a run from all others."""
        return self.kind, self.cell, self.seed


NAMES = tuple(each.name for each in fields(Row))
_KINDS: dict[str, Any] = {each.name: each.type for each in fields(Row)}


def settings_text(settings: Mapping[str, Any]) -> str:
    """Extra settings as one cell of a table."""
    return "; ".join(f"{key}={value}" for key, value in sorted(settings.items()))


def read_rows(folder: Path, program: str) -> list[Row]:
    """Every run of a program that the files of a folder tell of, each once; a line that was cut short is none."""
    found: dict[tuple[Any, ...], Row] = {}
    for path in sorted(folder.glob("*.csv")):
        for values in csv.reader(path.read_text().splitlines()):
            if len(values) != len(NAMES) or values[-1] != program:
                continue
            row = Row(*(_KINDS[name](value) for name, value in zip(NAMES, values, strict=True)))
            found.setdefault((row.settings, *row.key), row)
    return list(found.values())


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add rows to a file, on the disk when this returns; the first line of a new one names the columns."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, ",".join(NAMES).encode())
    elif not path.read_bytes().endswith(b"\n"):  # cut short by a crash
        append_line(path, b"")
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(astuple(row) for row in rows)
    append_line(path, text.getvalue().rstrip("\n").encode())
