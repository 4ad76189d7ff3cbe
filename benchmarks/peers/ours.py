"""This project on the same workload: FedSPD-DP as published, on NumPy or JAX, for one seed or many.

Runs in the project's environment. By default test accuracy alone is measured every round, as the peers do it.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from workload import report

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.speed import many_clients
from fedspd import config
from fedspd.assemble import prepare_experiment
from fedspd.assemble.engines import compiled
from fedspd.engine import Outcome, Simulation, simulate
from fedspd.engine.jax_engine.session import installed

NUMPY, JAX = "numpy", "jax"


def engine(name: str) -> Callable[[Sequence[Simulation]], Sequence[Outcome]]:
    """How an engine runs simulations that differ in their seed alone; the one place that knows both engines."""
    if name == NUMPY:
        return lambda simulations: [simulate(simulation) for simulation in simulations]
    if not installed():
        sys.exit("JAX is not installed")
    return lambda simulations: [outcome for _, outcome in sorted(compiled(simulations), key=lambda one: one[0])]


def papers_run() -> Simulation:
    """N 100, K 20, Q 5, b 10, T 100, with as little noise as the peers add."""
    overrides = {"metrics.criterion": False, "privacy.epsilon": 1000.0}
    return prepare_experiment(config.load("published", overrides)).simulation


def lean(simulation: Simulation) -> Simulation:
    """Test accuracy every round and nothing else, in single precision, as the peers do it."""
    shards = replace(simulation.shards, features=simulation.shards.features.astype(np.float32, copy=False))
    return replace(simulation, shards=shards, objective_every=0, spent_every_round=False, lagrangian=False)


def main() -> None:
    """Time the workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=["paper", "many"])
    parser.add_argument("--variant", choices=[NUMPY, JAX], default=NUMPY)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--metrics", action="store_true", help="every metric of every round")
    parser.add_argument("--warm", action="store_true", help="run once before the run that is timed")
    options = parser.parse_args()
    run = engine(options.variant)
    simulation = papers_run() if options.job == "paper" else many_clients(kind=np.float32)  # as the peers load it
    if not options.metrics:
        simulation = lean(simulation)
    simulations = [replace(simulation, seed=seed) for seed in range(options.seeds)]
    if options.warm:
        run(simulations)
    begin = time.perf_counter()
    outcomes = run(simulations)
    seconds = time.perf_counter() - begin
    accuracy = sum(float(outcome.history["test_accuracy"][-1]) for outcome in outcomes) / len(outcomes)
    report({"seconds": seconds, "accuracy": accuracy}, "fedspd", options.variant)


if __name__ == "__main__":
    main()
