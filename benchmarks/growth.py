"""How the time of a run grows with its sizes: each is varied alone around one setting, and slopes are fitted.

N clients with m records of d columns each, of whom K take part in each of T rounds with Q local steps on batches of 10;
FedSPD-DP on the NumPy engine, accuracy and objective left out. A slope of 1 is time in proportion.

Examples:
    python benchmarks/growth.py
    python benchmarks/growth.py --json > growth.json
    python benchmarks/growth.py --read growth.json --figure docs/figures/growth.png
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.data import Shards
from fedspd.engine import Simulation, simulate
from fedspd.privacy import WITHOUT_REPLACEMENT, plan_as_published
from fedspd.problem import L1, Objective, Softmax

BASE = {"K": 100, "N": 500, "m": 200, "d": 81, "Q": 5, "T": 20}
VALUES = {
    "K": (12, 36, 100, 300, 500),
    "N": (100, 500, 2000, 8000),
    "m": (60, 200, 600, 1800),
    "d": (9, 27, 81, 243),
    "Q": (1, 2, 5, 10, 20),
    "T": (5, 20, 60, 200),
}
MEANING = {
    "K": "participants", "N": "clients", "m": "records of a client", "d": "columns", "Q": "local steps", "T": "rounds",
}  # fmt: skip
BATCH = 10


def prepared(sizes: dict[str, int]) -> Simulation:
    """A run of these sizes on random records."""
    rng, rows, clients = np.random.default_rng(0), sizes["N"] * sizes["m"], sizes["N"]
    features = rng.standard_normal((rows, sizes["d"])) / np.sqrt(4 * sizes["d"])
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    shards = Shards(features, rng.integers(0, 2, rows), np.arange(clients + 1) * sizes["m"], None)
    algorithm = FedSPD(Objective(Softmax(2), L1(1e-4), 1.0), clients, 0.5, sizes["Q"], 5.0, row_norm=1.0)
    records = np.full(clients, sizes["m"])
    plan = plan_as_published(1.0, "round", 1e-4, WITHOUT_REPLACEMENT, BATCH * sizes["Q"], records, 1.0)
    return Simulation(
        shards, None, algorithm, plan, BATCH, sizes["K"], sizes["T"], seed=0, objective_every=0,
        spent_every_round=False, lagrangian=False,
    )  # fmt: skip


def seconds(sizes: dict[str, int], repeats: int) -> float:
    """The best of several."""
    simulation, best = prepared(sizes), np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        simulate(simulation)
        best = min(best, time.perf_counter() - begin)
    return best


def measured(repeats: int) -> dict[str, dict[str, float]]:
    """Seconds by size and value."""
    found = {}
    for name, values in VALUES.items():
        found[name] = {str(one): seconds(BASE | {name: one}, repeats) for one in values}
        print(name, {value: round(one, 4) for value, one in found[name].items()}, file=sys.stderr)
    return found


def slope(times: dict[str, float], last: int = 3) -> float:
    """Of the logarithms, over the largest values: small ones are bound by calls."""
    values = np.log([[float(value), one] for value, one in list(times.items())[-last:]])
    return float(np.polyfit(values[:, 0], values[:, 1], 1)[0])


def draw(found: dict[str, dict[str, float]], path: Path) -> None:
    """One line for each size, over its value at the setting in the middle."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, times in found.items():
        values = np.array([float(value) for value in times])
        shown = f"{name}, {MEANING[name]}: slope {slope(times):.2f}"
        axis.loglog(values / BASE[name], [1e3 * one for one in times.values()], marker="o", label=shown)
    axis.set_xlabel("size over " + ", ".join(f"{name} {value}" for name, value in BASE.items()))
    axis.set_ylabel("milliseconds of a run")
    axis.set_title("How the time of a run grows, NumPy engine")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, or read what was measured; print slopes, and draw them where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--read", type=Path, help="figures of an earlier call with --json, in place of new ones")
    parser.add_argument("--figure", type=Path, help="where the picture goes")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    found = json.loads(options.read.read_text()) if options.read else measured(options.repeats)
    if options.figure:
        draw(found, options.figure)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, times in found.items():
        print(
            f"{name}  {MEANING[name]:20} slope {slope(times):5.2f}   "
            + "  ".join(f"{v}: {s:.4f} s" for v, s in times.items())
        )


if __name__ == "__main__":
    main()
