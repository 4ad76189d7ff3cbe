"""The folder of a sweep that can stop at any moment: what the sweep is, and a line for every finished run.

`sweep.toml` says what is varied and what is fixed. `rows.jsonl` grows by one line per run, written
through to the disk once a second. A line that a crash cut short, or that its digest does not fit, is no line: its run
is made again.
"""

import json
import math
import os
import time
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import tomli_w

from fedspd.errors import InputError
from fedspd.reading import meant
from fedspd.results import (
    WORK_FILE,
    Convergence,
    RunFolder,
    Summary,
    append_line,
    digest,
    own_file,
    read_work,
    write_whole,
)
from fedspd.studies.folder import SWEEP_FILE

ROWS_FILE = "rows.jsonl"
BLOCK_SECONDS = 1.0  # between two writes of rows: each waits for the disk
NAMES = (
    "algorithm",
    "guarantee",
    "epsilon",
    "epsilon_alone",
    "delta",
    "unit",
    "relation",
    "trust",
    "members",
    "threshold",
    "colluders",
    "epsilon_spent_max",
    "epsilon_spent_mean",
    "epsilon_per_round",
    "noise_multiplier",
    "rounds",
    "uploads",
    "bytes_uploaded",
    "penalty",
    "inverse_step",
    "test_accuracy",
    "test_accuracy_average",
    "majority_accuracy",
    "test_loss",
    "test_balanced_accuracy",
    "test_explained",
    "test_mae",
    "test_deviance",
    "weights_norm",
    "objective",
    "alfv",
    "consensus_error",
    "clipped_share",
    "criterion",
    "engine",
    "wall_seconds",
)
TYPES = get_type_hints(Summary) | get_type_hints(Convergence)
COLUMNS: dict[str, type] = {name: (get_args(TYPES[name]) or (TYPES[name],))[0] for name in NAMES} | {"diverged": bool}
"""What a row says of a run, beside its settings and its seed."""

Row = dict[str, Any]


def row_of(summary: Summary) -> Row:
    """The numbers of a summary that a table has a column for; None where there is no finite one."""
    criterion = None if summary.convergence is None else summary.convergence.criterion
    return {name: _plain(kind, criterion if name == "criterion" else summary[name]) for name, kind in COLUMNS.items()}


def check_metric(metric: str) -> None:
    """Refuse what is no number of a run."""
    known = [name for name, kind in COLUMNS.items() if kind not in (str, bool)]
    if metric not in known:
        end = meant(metric, known, "; name one of those.")
        raise InputError(f"the metric must be one of {', '.join(known)}, got {metric!r}{end}")


def check_folder(folder: Path, declared: Mapping[str, Any], keys: Collection[str]) -> None:
    """Refuse a folder that holds anything but runs of this sweep.

    Args:
        folder: where rows will be kept.
        declared: what the sweep is.
        keys: of all its runs.
    """
    begun = os.path.isfile(folder / WORK_FILE) and read_work(folder).command == ("sweep",)
    RunFolder(folder, replaces=WORK_FILE if begun else SWEEP_FILE)
    for name in (SWEEP_FILE, ROWS_FILE):  # rows are added to one of them
        own_file(folder, name)
    if not (folder / SWEEP_FILE).exists():
        return
    kept, obstacle = read_rows(folder), None
    try:
        before = tomllib.loads((folder / SWEEP_FILE).read_text("utf-8"))
        if before.keys() != declared.keys():
            obstacle = f"whose {SWEEP_FILE} is not of a sweep"
        elif kept:
            obstacle = _other(before, declared) or (None if kept.keys() <= set(keys) else _less(before, declared))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        obstacle = f"whose {SWEEP_FILE} cannot be read"
    if obstacle:
        raise InputError(
            f"a sweep is continued with the same settings and at least the same values and seeds, got {folder}, "
            f"{obstacle}; name another with --out."
        )


def read_rows(folder: Path) -> dict[str, Row]:
    """Every run that is finished, by its key."""
    path = folder / ROWS_FILE
    found: dict[str, Row] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            kept = json.loads(line)
            if kept["row"].keys() == COLUMNS.keys() and kept["digest"] == _digest(kept["key"], kept["row"]):
                found.setdefault(kept["key"], kept["row"])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # cut short by a crash
            continue
    return found


def begin_rows(folder: Path, declared: Mapping[str, Any], private: bool = False) -> None:
    """Write down what the sweep is, and end a line that a crash has cut short."""
    text = tomli_w.dumps(declared).encode()
    if not folder.exists():
        with RunFolder(folder).staged(private) as staging:
            write_whole(staging / SWEEP_FILE, text, durable=True)
    elif not (folder / SWEEP_FILE).exists() or (folder / SWEEP_FILE).read_bytes() != text:
        write_whole(folder / SWEEP_FILE, text, durable=True)
    with (folder / ROWS_FILE).open("ab") as file:
        if file.tell() and not (folder / ROWS_FILE).read_bytes().endswith(b"\n"):
            file.write(b"\n")


class RowFile:
    """The file that finished runs are added to, in blocks: at most a second of work is made again after a crash."""

    def __init__(self, folder: Path) -> None:
        self._path, self._lines, self._written = folder / ROWS_FILE, list[bytes](), -math.inf

    def add(self, key: str, row: Row) -> None:
        """Add a finished run; when a second has passed since the last block, all are written through to the disk."""
        self._lines.append(json.dumps({"key": key, "row": row, "digest": _digest(key, row)}, allow_nan=False).encode())
        if time.monotonic() - self._written >= BLOCK_SECONDS:
            self.close()

    def close(self) -> None:
        """When this returns, all runs that were added are on the disk."""
        if self._lines:
            append_line(self._path, b"\n".join(self._lines))
        self._lines, self._written = [], time.monotonic()


def _digest(key: str, row: Row) -> str:
    return digest(json.dumps([key, row], allow_nan=False).encode())


def _plain(kind: type, value: Any) -> Any:
    if value is None or (kind is not str and not math.isfinite(value)):
        return None
    return kind(value)


def _other(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What else the sweep before was, if it was another one."""
    if before["program"] != now["program"]:
        return "which another version of fedspd has begun"
    if before["grid"].keys() != now["grid"].keys():
        return f"which varies {' and '.join(before['grid'])}"
    for section, keys in now["fixed"].items():
        was = before["fixed"][section]
        for key in was | keys:
            old, new = was.get(key, "absent"), keys.get(key, "absent")
            if old != new:
                return f"where {section}.{key} is {old} and not {new}"
    return None


def _less(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What the sweep before has that this one has not."""
    for name, values in before["grid"].items():
        for value in values:
            if value not in now["grid"][name]:
                return f"where {name} is {value} too"
    return f"where seeds are {before['seeds'][0]} to {before['seeds'][1]}"
