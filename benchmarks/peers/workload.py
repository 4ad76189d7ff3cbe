"""What every script of this folder shares: the exported workload, its numbers, and the line of JSON at the end.

Needs NumPy alone, because each script runs in an environment of its own.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import numpy as np

LOCAL_STEPS = 5
BATCH_SIZE = 10
STEP_SIZE = 0.5
CLIP_NORM = 1.0  # of a batch's gradient
NOISE = 0.01  # standard deviation of the noise on every number of an upload
CLASSES = 2


@dataclass(frozen=True)
class Workload:
    """Clients as ranges of rows in one flat table, and the test rows."""

    features: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    participants: int
    rounds: int

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.offsets) - 1

    @property
    def columns(self) -> int:
        """Features of a record."""
        return self.features.shape[1]

    def shard(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of one client."""
        rows = slice(self.offsets[client], self.offsets[client + 1])
        return self.features[rows], self.labels[rows]


def save(path: str, workload: Workload, rows: np.ndarray | None = None) -> None:
    """Write a workload; `rows` says which records of its table the clients hold, where they share records."""
    np.savez(path, rows=np.empty(0, int) if rows is None else rows, **vars(workload))


def load(path: str, dtype: type = np.float32) -> Workload:
    """Read a workload as `save` wrote it."""
    with np.load(path) as file:
        features, labels, rows = file["features"].astype(dtype), file["labels"].astype(np.int64), file["rows"]
        return Workload(
            features[rows] if len(rows) else features,
            labels[rows] if len(rows) else labels,
            file["offsets"].astype(np.int64),
            file["test_features"].astype(dtype),
            file["test_labels"].astype(np.int64),
            int(file["participants"]),
            int(file["rounds"]),
        )


@cache
def cached_load(path: str) -> Workload:
    """Read once per process, for frameworks whose clients live in other processes."""
    return load(path)


def measure(run: Callable[[int], float], rounds: int, warm: bool) -> dict[str, float]:
    """Seconds of one run and the accuracy it ends with; if `warm`, after two rounds that are not timed."""
    if warm:
        run(2)
    begin = time.perf_counter()
    accuracy = float(run(rounds))
    return {"seconds": time.perf_counter() - begin, "accuracy": accuracy}


def arguments(*variants: str) -> argparse.Namespace:
    """The path of the workload, whether to warm up, and which variant to run, if the script has several."""
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", help="the .npz file that peers.py exported")
    parser.add_argument("--warm", action="store_true", help="play two rounds before the run that is timed")
    if variants:
        parser.add_argument("--variant", choices=variants, default=variants[0])
    return parser.parse_args()


def report(measured: dict[str, float], *packages: str) -> None:
    """Print the result as the last line of output."""
    versions = {package: version(package) for package in packages}
    print("\n" + json.dumps({**measured, "versions": versions}), flush=True)
