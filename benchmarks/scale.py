"""A million clients on one machine: time per round and memory, against the number of clients and of participants.

Writes N clients of 32 records (Adult's, drawn with repeats, 81 columns, float32) to a folder that is mapped into
memory, then runs FedSPD-DP under a proved plan (Q 5, b 4, T 20) for several N and K, each in a process of its own.

Examples:
    python benchmarks/scale.py
    python benchmarks/scale.py --clients 100000 --rounds 5 --json
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.data import AdultSettings, open_shards, prepare, read_adult, write_shards
from fedspd.engine import Simulation, simulate
from fedspd.privacy import WITHOUT_REPLACEMENT, RecordSampling, plan_proved
from fedspd.problem import L1, Objective, Softmax

RECORDS, STEPS, BATCH, BLOCK = 32, 5, 4, 1 << 18
GAMMA, RHO = 0.25, 0.02  # γ at the least that the proof of several local steps allows
MOST = 3  # participations of a client


def blocks(clients: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Adult's records under its public schema, rows of norm at most 1, drawn with repeats."""
    train, _ = prepare(read_adult(AdultSettings()), "min-max", row_norm=1.0)
    features, labels = train.features.astype(np.float32), train.labels.astype(np.int8)
    rng = np.random.default_rng(0)
    for begin in range(0, clients * RECORDS, BLOCK):
        rows = rng.integers(0, len(labels), min(BLOCK, clients * RECORDS - begin))
        yield features[rows], labels[rows]


def run(folder: Path, clients: int, participants: int, rounds: int) -> dict[str, float]:
    """Seconds per round and peak memory of one simulation, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (folder, clients, participants, rounds))


def measure(folder: Path, clients: int, participants: int, rounds: int) -> dict[str, float]:
    """The simulation itself; the first round, which meets an empty cache, is given apart."""
    shards = open_shards(folder, clients)
    _, test = prepare(read_adult(AdultSettings()), "min-max", row_norm=1.0)
    sampling = RecordSampling(WITHOUT_REPLACEMENT, BATCH, STEPS, GAMMA / (GAMMA + RHO))
    plan = plan_proved(3.0, 1e-6, sampling, np.asarray(shards.sizes), MOST)
    algorithm = FedSPD(Objective(Softmax(2), L1(1e-2 / clients), 1.0), clients, RHO, STEPS, GAMMA, row_norm=1.0)
    simulation = Simulation(
        shards, test, algorithm, plan, BATCH, participants, rounds, seed=0, objective_every=0,
        spent_every_round=False, lagrangian=False,
    )  # fmt: skip
    ticks, anonymous = [time.perf_counter()], []

    def on_round() -> None:
        ticks.append(time.perf_counter())
        anonymous.append(memory("RssAnon"))

    outcome = simulate(simulation, on_round)
    seconds = np.diff(ticks)
    return {
        "clients": clients,
        "participants": participants,
        "first_round_s": float(seconds[0]),
        "round_s": float(np.median(seconds[1:])),
        "memory_gib": max(anonymous),
        "mapped_gib": memory("RssFile"),
        "state_gib": 3 * clients * 81 * 2 * 4 / 2**30,
        "accuracy": float(outcome.history.last("test_accuracy")),
    }


def memory(kind: str) -> float:
    """GiB of this process: its own (RssAnon) or mapped from files (RssFile), which the system may take back."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{kind}:")[1].split()[0]) / 2**20


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000, help="the most clients, N")
    parser.add_argument("--rounds", type=int, default=20, help="T")
    parser.add_argument("--folder", type=Path, default=None, help="where the records go; default: a temporary folder")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    most = options.clients
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        begin = time.perf_counter()
        write_shards(folder, np.full(most, RECORDS), blocks(most))
        print(f"{most:,} clients written in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
        jobs = [(most // 10, most // 100), (most, most // 1000), (most, most // 200), (most, most // 100)]
        found = []
        for clients, participants in jobs:
            print(f"N {clients:,}, K {participants:,} ...", file=sys.stderr)
            found.append(run(folder, clients, participants, options.rounds))
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    names = ("clients", "participants", "round_s", "first_round_s", "memory_gib", "state_gib", "mapped_gib", "accuracy")
    print("  ".join(f"{name:>13}" for name in names))
    for row in found:
        print("  ".join(f"{row[name]:13,.4g}" if row[name] < 1e3 else f"{row[name]:13,.0f}" for name in names))


if __name__ == "__main__":
    main()
