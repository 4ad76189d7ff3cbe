"""What a run records, round by round.

Every column says whether it is `public` (computable from releases and public data) or
`diagnostic` (needs records: a simulator's, never sent, logged by a real client or used to decide).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fedspd.errors import InputError

Kind = Literal["public", "diagnostic"]
COLUMNS: dict[str, Kind] = {
    "round": "public",
    "test_accuracy": "public",
    "test_explained": "public",
    "weights_norm": "public",
    "inverse_step": "public",
    "noise_scale": "public",
    "participants": "public",
    "clients_with_budget": "public",
    "epsilon_max": "public",
    "epsilon_mean": "public",
    "objective": "diagnostic",
    "alfv": "diagnostic",
    "alfv_per_client": "diagnostic",
    "consensus_error": "diagnostic",
    "clipped_share": "diagnostic",
}


@dataclass(frozen=True)
class History:
    """One array per column, one entry per round."""

    columns: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        if set(self.columns) != set(COLUMNS):
            raise ValueError(f"a history has the columns {sorted(COLUMNS)}, got {sorted(self.columns)}.")

    def __getitem__(self, column: str) -> np.ndarray:
        return self.columns[column]

    @property
    def score(self) -> np.ndarray:
        """Accuracy by round, or the share that is explained of a number or a count."""
        accuracy = self.columns["test_accuracy"]
        return self.columns["test_explained"] if np.isnan(accuracy).all() else accuracy

    def last(self, column: str) -> float:
        """The value after the last round."""
        return float(self.columns[column][-1])

    def write(self, path: Path) -> None:
        """As CSV with full precision: what is read back is bit for bit what was recorded."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(zip(*(self.columns[name].tolist() for name in COLUMNS), strict=True))


def read_history(path: Path) -> History:
    """What `History.write` wrote.

    Raises:
        InputError: rows of another length than the columns, no numbers, or columns of another version.
    """
    names, *rows = [*csv.reader(path.read_text("utf-8").splitlines())] or [[]]
    try:
        values = np.array([[float(cell) for cell in row] for row in rows]).reshape(len(rows), len(names))
    except ValueError as error:
        raise InputError(
            f"{path} must hold one number per column in every row, got: {error}; make the run again."
        ) from error
    odd = sorted(set(names) ^ set(COLUMNS))
    if odd or len(names) > len(COLUMNS):
        raise InputError(f"expected the columns of a history, got others: {', '.join(odd)}; make the run again.")
    return History(dict(zip(names, values.T, strict=True)))
