"""A run of very many clients is killed in the middle and goes on: is it the same to the bit, and what does it cost?

Writes N clients (Adult's records, as benchmarks/scale.py) to a folder that is mapped into memory and plays FedSPD-DP
three times, each in a process of its own: as if nobody came; killed as soon as it has kept where it stands; resumed.

Examples:
    python -m benchmarks.cut_off
    python -m benchmarks.cut_off --clients 20000 --engine jax --every 0
"""

import argparse
import hashlib
import json
import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import blocks, memory, simulation_of
from fedspd.assemble.engines import compiled
from fedspd.data import write_shards
from fedspd.engine import simulate
from fedspd.engine.keeping import Keeper
from fedspd.results import Checkpoints

RECORDS = 20  # of a client; a round takes each of them once
SHARE = 100  # one client in so many takes part in a round


def play(folder: Path, clients: int, rounds: int, engine: str, every: float, kept: Path, told: Path) -> None:
    """Play a run, or what is left of it, and write a digest of all its models."""
    begin, keeper = time.perf_counter(), Keeper(Checkpoints(kept), every)
    simulation = simulation_of(folder, clients, clients // SHARE, rounds)
    if engine == "jax":
        ((_, outcome),) = compiled([simulation], keeper=keeper)
    else:
        outcome = simulate(simulation, keeper=keeper)
    content = {
        "digest": hashlib.blake2b(np.ascontiguousarray(outcome.models).tobytes(), digest_size=16).hexdigest(),
        "accuracy": float(outcome.history.last("test_accuracy")),
        "seconds": time.perf_counter() - begin,
        "memory_gib": memory("VmHWM"),
    }
    told.write_text(json.dumps(content))


def cut_off(home: Path, clients: int, rounds: int, engine: str, every: float) -> dict[str, Any]:
    """What became of a run that was killed, beside one that was not."""
    fresh = multiprocessing.get_context("spawn")
    records, whole, cut = home / "records", home / "whole", home / "cut"
    for each in (records, whole, cut):
        each.mkdir(parents=True)
    write_shards(records, np.full(clients, RECORDS), blocks(clients, RECORDS))

    def started(kept: Path, name: str) -> Any:
        arguments = (records, clients, rounds, engine, every, kept, home / name)
        process = fresh.Process(target=play, args=arguments)
        process.start()
        return process

    alone = started(whole, "whole.json")
    alone.join()
    assert alone.exitcode == 0, "the run that nobody cuts off failed"
    victim = started(cut, "killed.json")
    while not Checkpoints(cut).exist() and victim.is_alive():
        time.sleep(0.001)
    victim.kill()
    victim.join()
    kept = Checkpoints(cut).read()
    assert kept is not None, "it was over before anything was kept"
    size = max(path.stat().st_size for path in cut.glob("checkpoint-*"))
    second = started(cut, "resumed.json")
    second.join()
    assert second.exitcode == 0, "the run did not go on"
    first, again = (json.loads((home / name).read_text()) for name in ("whole.json", "resumed.json"))
    return {
        "clients": clients, "engine": engine, "rounds": rounds, "kept_rounds": len(kept["models"]),
        "checkpoint_gib": size / 2**30, "whole_s": first["seconds"], "resumed_s": again["seconds"],
        "memory_gib": again["memory_gib"], "accuracy": again["accuracy"],
        "same": first["digest"] == again["digest"], "killed": not (home / "killed.json").exists(),
    }  # fmt: skip


def main() -> None:
    """Print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000, help="N")
    parser.add_argument("--rounds", type=int, default=20, help="T")
    parser.add_argument("--engine", choices=("numpy", "jax"), default="numpy")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two moments of keeping")
    parser.add_argument("--folder", type=Path, default=None, help="where the records go; default: a temporary folder")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        found = cut_off(home, options.clients, options.rounds, options.engine, options.every)
    finally:
        shutil.rmtree(home)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
