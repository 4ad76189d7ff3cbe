"""Ratios that a busy machine changes little: processor seconds, the two sides in turn, the least of several each.

The paper's run, accuracy only, against stacked float32 NumPy that clips nothing and claims nothing, with two scores per
record as one writes it first, which is the opponent, and with one contrast, which is quicker; and what a process costs
before it does anything, against one that imports NumPy. Bytecode is cached, as after a first start.

Examples:
    OPENBLAS_NUM_THREADS=1 python benchmarks/ratios.py
    python benchmarks/ratios.py --repeats 3
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.speed import PROCESS, lean, papers_run
from fedspd.engine import Simulation, simulate

STARTS = {
    "import numpy": "import numpy",
    "import fedspd": "import fedspd",
    "from fedspd import run": "from fedspd import run",
    "the paper's run, whole process": PROCESS,
}


def two_scores(simulation: Simulation) -> Callable[[], Any]:
    """The same sizes as one writes them first: two scores per record, all records of a round gathered at once."""
    shards, test = simulation.shards, simulation.tested
    clients, records, columns = shards.clients, int(shards.sizes.min()), shards.features.shape[1]
    table, tested = shards.features.astype(np.float32), test.features.astype(np.float32)
    labels = shards.labels.astype(np.float32)

    def run() -> float:
        rng, server, accuracy = np.random.default_rng(0), np.zeros((columns, 2), np.float32), 0.0
        for _ in range(simulation.rounds):
            asked = rng.choice(clients, simulation.participants, replace=False)
            order = rng.random((len(asked), records)).argsort(axis=1)[:, :50]
            rows = shards.offsets[asked][:, None] + order
            batches = table[rows].reshape(len(asked), 5, 10, columns)
            wanted = labels[rows].reshape(len(asked), 5, 10)
            local = np.tile(server, (len(asked), 1, 1))
            for step in range(5):
                scores = batches[:, step] @ local
                with np.errstate(over="ignore"):
                    miss = 1 / (1 + np.exp(scores[..., 0] - scores[..., 1])) - wanted[:, step]
                gradient = np.einsum("kb,kbd->kd", miss, batches[:, step]) / 10
                local[..., 1] -= 0.5 * gradient
                local[..., 0] += 0.5 * gradient
            server = (local + 0.01 * rng.standard_normal(local.shape, np.float32)).mean(axis=0)
            accuracy = float(np.mean((tested @ (server[:, 1] - server[:, 0]) > 0) == test.labels))
        return accuracy

    return run


def stacked(simulation: Simulation) -> Callable[[], Any]:
    """The same sizes by gradient steps on all participants at once: one contrast, no clipping, no states."""
    shards, test = simulation.shards, simulation.tested
    clients, records, columns = shards.clients, int(shards.sizes.min()), shards.features.shape[1]
    table = shards.features.astype(np.float32)
    labels, tested = shards.labels.astype(np.float32), test.features.astype(np.float32)

    def run() -> float:
        rng, server, accuracy = np.random.default_rng(0), np.zeros(columns, np.float32), 0.0
        for _ in range(simulation.rounds):
            asked = rng.permutation(clients)[: simulation.participants]
            order = rng.random((len(asked), records)).argsort(axis=1)[:, :50]
            rows = (shards.offsets[asked][:, None] + order).reshape(len(asked), 5, 10)
            local = np.tile(server, (len(asked), 1))
            for step in range(5):
                batch = table[rows[:, step]]
                chance = 1 / (1 + np.exp(-(batch @ local[:, :, None])[..., 0]))
                local -= 0.01 * ((chance - labels[rows[:, step]])[:, None] @ batch)[:, 0]
            noise = rng.standard_normal((len(asked), columns, 2), np.float32)  # as many as two classes take
            server = (local + 0.01 * noise[..., 0]).mean(axis=0)
            accuracy = float(np.mean((tested @ server > 0) == test.labels))
        return accuracy

    return run


def least(sides: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Of each side, in turn."""
    found = dict.fromkeys(sides, np.inf)
    for _ in range(1 + repeats):  # the first time is forgotten where it is slow
        for name, side in sides.items():
            found[name] = min(found[name], side())
    return found


def here(run: Callable[[], Any]) -> Callable[[], float]:
    """Processor seconds in this process."""

    def side() -> float:
        begin = time.process_time()
        run()
        return time.process_time() - begin

    return side


def apart(program: str, cache: str) -> Callable[[], float]:
    """Processor seconds of a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = cache

    def side() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return side


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    wide = lean(papers_run())
    narrow = replace(wide, shards=replace(wide.shards, features=wide.shards.features.astype(np.float32)))
    sides = {
        "stacked NumPy, two scores": here(two_scores(wide)),
        "stacked NumPy, one contrast": here(stacked(wide)),
        "the paper's run, float64": here(lambda: simulate(wide)),
        "the paper's run, float32": here(lambda: simulate(narrow)),
    }
    with tempfile.TemporaryDirectory() as cache:
        starts = {name: apart(program, cache) for name, program in STARTS.items()}
        for group in (sides, starts):
            found = least(group, options.repeats)
            first = next(iter(found.values()))
            for name, seconds in found.items():
                print(f"{name:32} {seconds:8.4f} s of processors {seconds / first:6.2f}")


if __name__ == "__main__":
    main()
