"""Runs per second of the paper's setting: a grid of budgets and penalties with many seeds, compiled as one program.

The paper's run: N 100, K 20, Q 5, b 10, T 100, softmax on Adult's 81 columns, test accuracy after every round.

Examples:
    python benchmarks/throughput.py
    python benchmarks/throughput.py --seeds 4 --json
"""

import argparse
import json
import sys
import time
from statistics import median

import numpy as np

from fedspd import config
from fedspd.assemble import prepare_experiment
from fedspd.assemble.many import run_many
from fedspd.engine import Simulation
from fedspd.engine.jax_engine.session import session

EPSILONS = (0.1, 1.0, 3.0)
PENALTIES = tuple(np.geomspace(0.01, 10, 7).tolist())
QUICK = {
    "metrics.criterion": False, "metrics.lagrangian": False, "metrics.spent_every_round": False,
    "metrics.objective_every": 0, "partition.seed": 0,
}  # fmt: skip


def configs(seeds: int) -> list[config.Config]:
    """The grid with every seed; all runs share one deal of the records."""
    return [
        config.load("published", QUICK | {"run.seed": seed, "privacy.epsilon": epsilon, "algorithm.penalty": penalty})
        for seed in range(seeds)
        for epsilon in EPSILONS
        for penalty in PENALTIES
    ]


def device_seconds(simulations: list[Simulation], repeats: int) -> tuple[float, float]:
    """Seconds of compiling and the median seconds of the program: all rounds of all runs, and their accuracies."""
    with session():
        import jax

        from fedspd.engine.jax_engine.inputs import program_key
        from fedspd.engine.jax_engine.lanes import make_inputs
        from fedspd.engine.jax_engine.program import run_and_measure
        from fedspd.engine.participation import plan_course
        from fedspd.engine.spending import Spending

        first = simulations[0]
        shape = program_key(first, np.float32, handed_in=False)
        lanes = [
            make_inputs(one, plan_course(one, Spending(one.plan, one.shards.clients, None, False)), shape, 0, 0, None)
            for one in simulations
        ]
        stacked = jax.device_put(jax.tree.map(lambda *arrays: np.stack(arrays), *lanes))
        tables = jax.device_put((first.shards.features.astype(np.float32), first.shards.labels))
        test = jax.device_put((first.tested.features.astype(np.float32)[None], first.tested.labels[None]))
        seconds = []
        for _ in range(1 + repeats):
            begin = time.perf_counter()
            jax.block_until_ready(run_and_measure(shape, stacked, *tables, *test))
            seconds.append(time.perf_counter() - begin)
    return seconds[0], median(seconds[1:])


def main() -> None:
    """Print runs per second, of the program alone and with everything around it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32, help="seeds of each of the 21 points")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    grid = configs(options.seeds)
    begin = time.perf_counter()
    simulations = [prepare_experiment(one).simulation for one in grid]
    prepared = time.perf_counter() - begin
    print(f"{len(grid)} runs prepared in {prepared:.2f} s", file=sys.stderr)
    compiled, program = device_seconds(simulations, options.repeats)
    list(run_many(grid, "jax"))  # compiles what is compiled around the program
    begin, host = time.perf_counter(), time.thread_time()
    finished = list(run_many(grid, "jax"))
    whole, host = time.perf_counter() - begin, time.thread_time() - host
    found = {
        "runs": len(finished), "first_call_s": compiled, "program_s": program,
        "program_runs_per_s": len(grid) / program, "whole_s": whole, "whole_runs_per_s": len(grid) / whole,
        "host_ms_per_run": 1e3 * host / len(grid),  # of this thread, which waits for the program without computing
    }  # fmt: skip
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:20} {value:12,.4g}")


if __name__ == "__main__":
    main()
