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
from fedspd.privacy import PublishedPlan

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
    assert isinstance(base.plan, PublishedPlan)
    return replace(
        base,
        shards=shards,
        algorithm=replace(base.algorithm, clients=clients),
        plan=replace(base.plan, records=np.full(clients, records)),
        participants=1000,
        rounds=20,
        objective_every=20,
    )


def plain_loop(simulation: Simulation) -> float:
    """Seconds of the same rounds as a straightforward script would do them: client by client, accuracy only.

    A yardstick for this machine's speed at this moment; it measures nothing but test accuracy.
    """
    shards, algorithm, test = simulation.shards, simulation.algorithm, simulation.test
    assert isinstance(algorithm, FedSPDPublished)
    rho, strength, rng = algorithm.penalty, 1e-4, np.random.default_rng(0)
    begin = time.perf_counter()
    last, dual, upload = (np.zeros((shards.clients, shards.features.shape[1], 2)) for _ in range(3))
    for round in range(1, simulation.rounds + 1):
        gamma = algorithm.schedule.inverse_step(round)
        x0 = upload.mean(axis=0)
        for i in rng.choice(shards.clients, simulation.participants, replace=False):
            features, labels = shards.shard(int(i))
            drawn = rng.permutation(len(labels))[:50].reshape(5, 10)
            x, average = last[i], np.zeros_like(x0)
            for batch in drawn:
                rows, scores = features[batch], features[batch] @ x
                p = np.exp(scores - scores.max(axis=1, keepdims=True))
                residual = p / p.sum(axis=1, keepdims=True) - np.eye(2)[labels[batch]]
                norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(residual, axis=1)
                gradient = rows.T @ (residual * np.minimum(1, 1 / norms)[:, None]) / 10
                v = (gamma * x + rho * x0 + dual[i] - gradient) / (gamma + rho)
                x = np.sign(v) * np.maximum(np.abs(v) - strength / (gamma + rho), 0)
                average += x / 5
            last[i] = x
            dual[i] += rho * (x0 - average)
            upload[i] = average - dual[i] / rho + rng.normal(0, 0.05, x.shape)
        np.mean(np.argmax(test.features @ upload.mean(axis=0), axis=1) == test.labels)
    return time.perf_counter() - begin


def main() -> None:
    """Print the table."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}")
    yardstick = min(plain_loop(papers_run()) for _ in range(3))
    print(f"plain NumPy loop over clients, accuracy only: {yardstick:.3f} s\n")
    print(f"{'run':40} {'best s':>8} {'median s':>9} {'target s':>9} {'plain loop / best':>18}")
    for name, make, repeats, target in [
        ("paper: N 100, K 20, Q 5, b 10, T 100", papers_run, REPEATS, 0.2),
        ("N 10,000 x 325 records, K 1000, T 20", many_clients, 3, 1.0),
    ]:
        best, middle = timed(make(), repeats)
        ratio = f"{yardstick / best:.1f}" if make is papers_run else ""
        print(f"{name:40} {best:8.3f} {middle:9.3f} {target:9.1f} {ratio:>18}")


if __name__ == "__main__":
    main()
