"""How long runs take here, as seconds and as parts of the time of a plain NumPy loop measured in between.

The loop goes client by client, as a straightforward script would, and measures nothing but test accuracy. It is timed
before and after every row, and the row is divided by the better of the two, so that what is compared with the
committed figures, benchmarks/figures.json, depends little on the machine and on what else it is doing.

A row that became slower is marked, and that is all: speed never fails anything.

  python benchmarks/speed.py                      all rows
  python benchmarks/speed.py --only paper-lean    one row
  python benchmarks/speed.py --json               figures as JSON instead of a table
  python benchmarks/speed.py --write              and keep them as the ones to compare with
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fedspd import config
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.assemble import prepare_experiment
from fedspd.assemble.engines import compiled
from fedspd.data import Shards
from fedspd.engine import Simulation, simulate
from fedspd.engine.jax_engine.session import installed
from fedspd.privacy import PublishedPlan

FIGURES = Path(__file__).with_name("figures.json")
SLOWER = 1.25  # a ratio this much above the committed one is marked
SEEDS = 10
NO_JAX = "JAX is not installed"
PROCESS = """
import fedspd
lean = {"lagrangian": False, "objective_every": 0, "spent_every_round": False, "criterion": False}
fedspd.run("published", {"run.engine": "numpy"} | {f"metrics.{name}": value for name, value in lean.items()})
"""


def papers_run() -> Simulation:
    """N 100, K 20, Q 5, b 10, T 100, every metric of every round."""
    return prepare_experiment(config.load("published")).simulation


def lean(simulation: Simulation) -> Simulation:
    """The same with test accuracy as its only metric of every round."""
    return replace(simulation, lagrangian=False, objective_every=0, spent_every_round=False)


def many_clients(clients: int = 10_000, records: int = 325, kind: Any = np.float64) -> Simulation:
    """Adult's records dealt out with repeats to 10,000 clients of 325; K 1000, T 20, objective at the end only."""
    base = papers_run()
    rows = np.random.default_rng(0).integers(0, len(base.shards.labels), clients * records)
    features = base.shards.features.astype(kind, copy=False)[rows]
    shards = Shards(features, base.shards.labels[rows], np.arange(clients + 1) * records, None)
    assert isinstance(base.algorithm, FedSPDPublished)
    assert isinstance(base.plan, PublishedPlan)
    return replace(
        base,
        shards=shards,
        algorithm=replace(base.algorithm, clients=clients),
        plan=replace(base.plan, records=np.full(clients, records)),
        participants=min(1000, clients),
        rounds=20,
        objective_every=20,
    )


def plain_loop(simulation: Simulation) -> float:
    """Seconds of the same rounds as a straightforward script would do them: client by client, accuracy only.

    A yardstick for this machine's speed at this moment; it measures nothing but test accuracy.
    """
    shards, algorithm, test = simulation.shards, simulation.algorithm, simulation.tested
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


@dataclass(frozen=True)
class Job:
    """A row to be timed."""

    name: str
    label: str
    make: Callable[[], Callable[[], Any]]  # gives what is timed, ready to be called
    repeats: int
    needs_jax: bool = False


@dataclass(frozen=True)
class Row:
    """What was measured."""

    name: str
    label: str
    best: float | None = None  # seconds
    median: float | None = None
    ratio: float | None = None  # best over the plain loop's best before and after
    skipped: str | None = None


def on_numpy(make: Callable[[], Simulation]) -> Callable[[], Callable[[], Any]]:
    """A simulation on NumPy."""

    def ready() -> Callable[[], Any]:
        simulation = make()
        return lambda: simulate(simulation)

    return ready


def on_jax(make: Callable[[], Simulation], seeds: int = 1) -> Callable[[], Callable[[], Any]]:
    """A simulation on JAX for one seed or several together, compiled before it is timed."""

    def ready() -> Callable[[], Any]:
        simulation = make()
        simulations = [replace(simulation, seed=seed) for seed in range(seeds)]

        def run() -> list[Any]:
            return list(compiled(simulations))

        run()
        return run

    return ready


def process() -> Callable[[], Any]:
    """A whole process, from the start of Python to its end."""
    return lambda: subprocess.run([sys.executable, "-c", PROCESS], check=True, stdout=subprocess.DEVNULL)


JOBS = (
    Job("paper", "paper's run, all metrics, NumPy", on_numpy(papers_run), 7),
    Job("paper-lean", "paper's run, accuracy only, NumPy", on_numpy(lambda: lean(papers_run())), 15),
    Job("paper-jax", "paper's run, accuracy only, JAX", on_jax(lambda: lean(papers_run())), 15, True),
    Job("seeds-jax", f"the same for {SEEDS} seeds together", on_jax(lambda: lean(papers_run()), SEEDS), 7, True),
    Job("process", "paper's run, accuracy only, whole process", process, 5),
    Job("many", "N 10,000 x 325, K 1000, T 20, NumPy", on_numpy(lambda: lean(many_clients())), 3),
    Job("many-jax", "N 10,000 x 325, K 1000, T 20, JAX", on_jax(lambda: lean(many_clients(kind=np.float32))), 3, True),
)  # fmt: skip


def timed(job: Job, yardstick: Callable[[], float], before: float) -> tuple[Row, float]:
    """A row, and the plain loop's time after it."""
    if job.needs_jax and not installed():
        return Row(job.name, job.label, skipped=NO_JAX), before
    run = job.make()
    seconds = []
    for _ in range(job.repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    del run
    after = yardstick()
    best = min(seconds)
    return Row(job.name, job.label, best, median(seconds), best / min(before, after)), after


def machine() -> dict[str, Any]:
    """What the figures depend on besides this project."""
    packages = ["numpy", "scipy", *(["jax"] if installed() else [])]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def committed() -> dict[str, float]:
    """The ratios that were kept, by row."""
    if not FIGURES.exists():
        return {}
    return {name: row["ratio"] for name, row in json.loads(FIGURES.read_text())["rows"].items()}


def comparison(row: Row, kept: dict[str, float]) -> str:
    """How a row stands to the committed figures."""
    if row.ratio is None:
        return row.skipped or ""
    if row.name not in kept:
        return "not committed yet"
    change = row.ratio / kept[row.name]
    if change <= 1:
        return f"{100 * (1 - change):.0f} % faster than committed"
    return f"{100 * (change - 1):.0f} % slower than committed" + (" <-- SLOWER" if change > SLOWER else "")


def line(row: Row, kept: dict[str, float]) -> str:
    """A row as text."""
    if row.best is None or row.median is None or row.ratio is None:
        return f"{row.name:11} {row.label:42} {'':>8} {'':>9} {'':>7} {'':>8}  {row.skipped}"
    return (
        f"{row.name:11} {row.label:42} {row.best:8.3f} {row.median:9.3f} {row.ratio:7.3f} {1 / row.ratio:7.1f}x  "
        f"{comparison(row, kept)}"
    )


def keep(rows: list[Row], about: dict[str, Any]) -> None:
    """Write the figures; rows that were not measured stay as they were."""
    old = json.loads(FIGURES.read_text())["rows"] if FIGURES.exists() else {}
    new = {
        row.name: {"label": row.label, "ratio": round(row.ratio, 4), "seconds": round(row.best, 4)}
        for row in rows
        if row.ratio is not None and row.best is not None
    }
    FIGURES.write_text(json.dumps({"machine": about, "rows": old | new}, indent=2) + "\n")


def sweep(rows: list[Row]) -> str | None:
    """What many seeds cost, in runs."""
    found = {row.name: row.best for row in rows}
    one, many = found.get("paper-jax"), found.get("seeds-jax")
    return f"{SEEDS} seeds together cost {many / one:.1f} runs of one" if one and many else None


def main() -> None:
    """Time, compare, and keep where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [job.name for job in JOBS]
    parser.add_argument("--only", action="append", choices=names, help="a row; may be given several times")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of a table")
    parser.add_argument("--write", action="store_true", help="keep the figures in benchmarks/figures.json")
    options = parser.parse_args()
    kept, about, paper = committed(), machine(), papers_run()

    def yardstick() -> float:
        return min(plain_loop(paper) for _ in range(2))

    before, rows = yardstick(), []
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
        print(f"plain NumPy loop over clients, accuracy only: {before:.3f} s\n")
        print(f"{'row':11} {'':42} {'best s':>8} {'median s':>9} {'/ loop':>7} {'faster':>8}")
    for job in JOBS:
        if options.only and job.name not in options.only:
            continue
        row, before = timed(job, yardstick, before)
        rows.append(row)
        if not options.json:
            print(line(row, kept), flush=True)
    if options.json:
        found = [asdict(row) | {"committed": kept.get(row.name)} for row in rows]
        print(json.dumps({"machine": about, "rows": found}, indent=2))
    elif together := sweep(rows):
        print("\n" + together)
    if options.write:
        keep(rows, about)


if __name__ == "__main__":
    main()
