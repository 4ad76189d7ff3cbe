"""Time the paper's run and a run with 10,000 clients, after imports and loading; prints the best and median of repeats.

Usage: python benchmarks/speed.py
"""

import platform
import time
from dataclasses import replace
from statistics import median

import numpy as np

from fedspd import config
from fedspd.algorithms import FedSPDPublished
from fedspd.data import Shards
from fedspd.engine import Simulation, simulate
from fedspd.experiment import prepare_experiment

REPEATS = 7


def timed(simulation: Simulation, repeats: int) -> tuple[float, float]:
    """Best and median seconds."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        simulate(simulation)
        seconds.append(time.perf_counter() - begin)
    return min(seconds), median(seconds)


def papers_run() -> Simulation:
    """N 100, K 20, Q 5, b 10, T 100, every metric of every round."""
    return prepare_experiment(config.load("published")).simulation


def many_clients(clients: int = 10_000, records: int = 325) -> Simulation:
    """Adult's records dealt out with repeats to 10,000 clients of 325; K 1000, T 20, objective at the end only."""
    base = papers_run()
    rows = np.random.default_rng(0).integers(0, len(base.shards.labels), clients * records)
    shards = Shards(
        base.shards.features[rows], base.shards.labels[rows], np.arange(clients + 1) * records, np.arange(len(rows))
    )
    assert isinstance(base.algorithm, FedSPDPublished)
    algorithm = replace(base.algorithm, clients=clients)
    return replace(base, shards=shards, algorithm=algorithm, participants=1000, rounds=20, objective_every=20)


def main() -> None:
    """Print the table."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}")
    print(f"{'run':44} {'best s':>8} {'median s':>9} {'target s':>9}")
    for name, make, repeats, target in [
        ("paper: N 100, K 20, Q 5, b 10, T 100", papers_run, REPEATS, 0.2),
        ("N 10,000 x 325 records, K 1000, T 20", many_clients, 3, 1.0),
    ]:
        best, middle = timed(make(), repeats)
        print(f"{name:44} {best:8.3f} {middle:9.3f} {target:9.1f}")


if __name__ == "__main__":
    main()
