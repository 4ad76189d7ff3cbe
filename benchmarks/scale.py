"""A table for planners: seconds and memory of a round for 100 to ten million clients on one machine.

Writes N clients of 32 records (Adult's, drawn with repeats, 81 columns, float32) to a folder that is mapped into
memory, then runs FedSPD-DP under a proved plan (Q 5, b 4, T 20) for several N and K, each in a process of its own. To
what was measured it fits processor seconds = a + b K + c N and memory = d + e K + f N, none of them negative, with
equal weight on relative errors. Rows beyond the largest N are that law's. Processor seconds of a round are the median
over rounds, which a busy machine changes little; `round_s` is the quickest round by the clock.

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
LARGEST = 10_000_000  # clients that the law is asked about
NAMES = ("clients", "participants", "cpu_s", "round_s", "first_round_s", "memory_gib", "file_gib", "accuracy")


def blocks(clients: int, records: int = RECORDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Adult's records under its public schema, rows of norm at most 1, drawn with repeats."""
    train, _ = prepare(read_adult(AdultSettings()), "min-max", row_norm=1.0)
    features, labels = train.features.astype(np.float32), train.labels.astype(np.int8)
    rng = np.random.default_rng(0)
    for begin in range(0, clients * records, BLOCK):
        rows = rng.integers(0, len(labels), min(BLOCK, clients * records - begin))
        yield features[rows], labels[rows]


def run(folder: Path, clients: int, participants: int, rounds: int) -> dict[str, float]:
    """Seconds per round and peak memory of one simulation, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (folder, clients, participants, rounds))


def simulation_of(folder: Path, clients: int, participants: int, rounds: int) -> Simulation:
    """FedSPD-DP on the clients of a folder."""
    shards = open_shards(folder, clients)
    _, test = prepare(read_adult(AdultSettings()), "min-max", row_norm=1.0)
    sampling = RecordSampling(WITHOUT_REPLACEMENT, BATCH, STEPS, GAMMA / (GAMMA + RHO))
    most = min(rounds, max(3, 3 * rounds * participants // clients))  # participations of a client
    plan = plan_proved(3.0, 1e-6, sampling, np.asarray(shards.sizes), most)
    algorithm = FedSPD(Objective(Softmax(2), L1(1e-2 / clients), 1.0), clients, RHO, STEPS, GAMMA, row_norm=1.0)
    return Simulation(
        shards, test, algorithm, plan, BATCH, participants, rounds, seed=0, objective_every=0,
        spent_every_round=False, lagrangian=False,
    )  # fmt: skip


def measure(folder: Path, clients: int, participants: int, rounds: int) -> dict[str, float]:
    """The simulation itself; the first round, which meets an empty cache, is given apart."""
    simulation = simulation_of(folder, clients, participants, rounds)
    ticks, work, anonymous = [time.perf_counter()], [time.process_time()], []

    def on_round() -> None:
        ticks.append(time.perf_counter())
        work.append(time.process_time())
        anonymous.append(memory("RssAnon"))

    outcome = simulate(simulation, on_round)
    seconds = np.diff(ticks)
    return {
        "clients": clients,
        "participants": participants,
        "first_round_s": float(seconds[0]),
        "round_s": float(seconds[1:].min()),
        "cpu_s": float(np.median(np.diff(work)[1:])),
        "memory_gib": max(anonymous),
        "file_gib": file_gib(clients),
        "accuracy": float(outcome.history.last("test_accuracy")),
    }


def file_gib(clients: int) -> float:
    """Of the records: mapped, so the system reads what is drawn and may take it back."""
    return clients * RECORDS * 81 * 4 / 2**30


def settings(most: int) -> list[tuple[int, int]]:
    """Clients in tens, and 100, 1000, ... participants, at most a tenth of them or 100, and at most 10,000."""
    sizes = [10**power for power in range(2, 8) if 10**power < most] + [most]
    return [(size, count) for size in sizes for count in (100, 1000, 10_000) if count <= max(100, size // 10)]


def fitted(found: list[dict[str, float]], name: str) -> np.ndarray:
    """What a number costs at all, for a participant and for a client: least squares of relative errors, none negative.

    Such a fit leaves some of the three at zero; of all choices of which, the best one that needs no negative wins.
    """
    sizes = np.array([[1.0, row["participants"], row["clients"]] for row in found])
    rows = sizes / np.array([[row[name]] for row in found])
    best, left = np.zeros(3), np.inf
    for kept in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        solved = np.zeros(3)
        solved[kept] = np.linalg.lstsq(rows[:, kept], np.ones(len(rows)), rcond=None)[0]
        error = float(np.square(rows @ solved - 1).sum())
        if (solved >= 0).all() and error < 0.999 * left:  # of equals, the one that says least
            best, left = solved, error
    return best


def beyond(found: list[dict[str, float]], most: int) -> list[dict[str, float]]:
    """The law's rows for more clients than were measured."""
    laws = {name: fitted(found, name) for name in ("cpu_s", "memory_gib")}
    return [
        {"clients": clients, "participants": count, "round_s": np.nan, "first_round_s": np.nan, "accuracy": np.nan}
        | {"file_gib": file_gib(clients)}
        | {name: float(law @ [1.0, count, clients]) for name, law in laws.items()}
        for clients, count in settings(LARGEST)
        if clients > most
    ]


def table(found: list[dict[str, float]], most: int) -> Iterator[str]:
    """Rows of Markdown, measured ones and the law's, and the law."""
    yield "| " + " | ".join((*NAMES, "")) + " |"
    yield "|---" * (len(NAMES) + 1) + "|"
    for how, rows in (("measured", found), ("by the law", beyond(found, most))):
        for row in rows:
            shown = (f"{row[name]:,.3g}" if row[name] < 100 else f"{row[name]:,.0f}" for name in NAMES)
            yield "| " + " | ".join(shown).replace("nan", "") + f" | {how} |"
    seconds, memory = fitted(found, "cpu_s"), fitted(found, "memory_gib")
    yield f"processor seconds of a round = {seconds[0]:.2g} + {seconds[1]:.2g} K + {seconds[2]:.2g} N"
    yield f"GiB = {memory[0]:.2g} + {memory[1]:.2g} K + {memory[2]:.2g} N"
    for name, law in (("cpu_s", seconds), ("memory_gib", memory)):
        off = [abs(float(law @ [1.0, row["participants"], row["clients"]]) / row[name] - 1) for row in found]
        yield f"the law of {name} is off by at most {100 * max(off):.0f} % where it was measured"


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
        found = []
        for clients, participants in settings(most):
            print(f"N {clients:,}, K {participants:,} ...", file=sys.stderr)
            found.append(run(folder, clients, participants, options.rounds))
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(*table(found, most), sep="\n")


if __name__ == "__main__":
    main()
