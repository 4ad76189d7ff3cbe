"""Write the workloads as files that every environment can read: `paper.npz` and `many.npz` in the folder given."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from workload import Workload, save

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.speed import papers_run


def main() -> None:
    """Export both."""
    folder, simulation = Path(sys.argv[1]), papers_run()
    shards, test = simulation.shards, simulation.tested
    paper = Workload(
        shards.features.astype(np.float32),
        shards.labels,
        shards.offsets,
        test.features.astype(np.float32),
        test.labels,
        simulation.participants,
        simulation.rounds,
    )
    save(str(folder / "paper.npz"), paper)
    clients, records = 10_000, 325  # and the draws of speed.many_clients
    rows = np.random.default_rng(0).integers(0, len(shards.labels), clients * records)
    many = replace(paper, offsets=np.arange(clients + 1) * records, participants=1000, rounds=20)
    save(str(folder / "many.npz"), many, rows)


if __name__ == "__main__":
    main()
