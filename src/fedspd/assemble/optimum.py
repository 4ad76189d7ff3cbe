"""The reference optimum, solved once per problem and kept in the user's cache folder."""

import hashlib
import os

import numpy as np

from fedspd.engine import Simulation, optimum
from fedspd.results import cache_folder


def cached_optimum(simulation: Simulation) -> np.ndarray:
    """scikit-learn's optimum of the simulation's problem, from the cache if it was solved before."""
    objective, shards = simulation.algorithm.objective, simulation.shards
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((objective.loss, objective.regularizer, shards.offsets.tolist(), shards.counts)).encode())
    digest.update(np.ascontiguousarray(shards.features).data)
    digest.update(np.ascontiguousarray(shards.labels).data)
    home = cache_folder("optima")
    path = home / f"{digest.hexdigest()}.npy"
    if path.exists():
        return np.load(path)
    best = optimum(simulation)
    home.mkdir(parents=True, exist_ok=True)
    staging = path.with_suffix(f".{os.getpid()}.tmp")
    with staging.open("wb") as file:
        np.save(file, best)
    staging.replace(path)
    return best
