"""Replays on neighbors of three kinds: the worst that is known, random ones, and ones that a search made worse.

The search is a plain evolution strategy (Rechenberg 1973): of a pair of shards and what the server sends, mutants take
their parent's place where a record moves a query further.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedspd.audit.replay import (
    BATCH,
    COLUMNS,
    ROUNDS,
    Found,
    Shard,
    attack,
    random_labels,
    random_rows,
    replay,
    unit_draws,
    worst,
)
from fedspd.audit.target import extreme_labels

RANDOM, GENERATIONS, WIDTH = 40, 60, 0.5


@dataclass(frozen=True)
class Genome:
    """A pair of shards that differ in their first record, and what the server sends."""

    shard: Shard
    row: np.ndarray  # in the place of the first, in the neighbor
    label: Any
    servers: np.ndarray


def replay_all(algorithm: Any, row_norm: float, seed: int = 0, unit: str = "record") -> tuple[Found, int]:
    """The worst of all kinds of neighbors, and how many pairs were tried.

    Args:
        algorithm: the method, made concrete.
        row_norm: every feature row is at most this long.
        seed: of the random pairs and of the search.
        unit: what pairs differ in, "record" or "person".
    """
    rng = np.random.default_rng(seed)
    found = [_worst_case(algorithm, row_norm, unit), attack(algorithm, row_norm, RANDOM, seed, unit)]
    found += _evolved(algorithm, row_norm, rng, unit)
    return worst(found), len(found) - 1 + RANDOM


def _worst_case(algorithm: Any, row_norm: float, protected: str) -> Found:
    """One record with the longest of rows, opposite labels or none, and nothing else."""
    steps, outputs = algorithm.local_steps, algorithm.objective.loss.outputs
    one, other = extreme_labels(algorithm.objective.loss)
    unit = row_norm * np.eye(COLUMNS)[0]
    blank = Shard(np.zeros((BATCH * steps, COLUMNS)), np.full(BATCH * steps, other), _starts(BATCH * steps, protected))
    first = blank.with_record(0, unit, one)
    replaced = unit if algorithm.relation == "replace-one" else 0 * unit
    drawn = np.arange(BATCH * steps).reshape(steps, BATCH)
    still = np.zeros((ROUNDS, COLUMNS, outputs))
    silent = 0 * unit_draws(np.random.default_rng(0), algorithm, ROUNDS, COLUMNS)
    return replay(algorithm, first, first.with_record(0, replaced, other), [drawn] * ROUNDS, still, silent)


def _starts(records: int, unit: str) -> np.ndarray | None:
    """Of persons with a row each, where persons are protected: rows then come with their shares."""
    return None if unit == "record" else np.arange(records + 1)


def _evolved(algorithm: Any, row_norm: float, rng: np.random.Generator, unit: str) -> list[Found]:
    """What the parents and mutants of a search found."""
    steps, loss = algorithm.local_steps, algorithm.objective.loss
    records = BATCH * steps
    shard = Shard(random_rows(rng, records, row_norm), random_labels(rng, loss, records), _starts(records, unit))
    parent = Genome(
        shard, random_rows(rng, 1, row_norm)[0], random_labels(rng, loss, 1)[0],
        rng.standard_normal((ROUNDS, COLUMNS, loss.outputs)),
    )  # fmt: skip
    normals = unit_draws(rng, algorithm, ROUNDS, COLUMNS)
    drawn = np.arange(records).reshape(steps, BATCH)

    def tried(genome: Genome) -> Found:
        row = 0 * genome.row if algorithm.relation == "zero-out" else genome.row
        neighbor = genome.shard.with_record(0, row, genome.label)
        return replay(algorithm, genome.shard, neighbor, [drawn] * ROUNDS, genome.servers, normals)

    found = [tried(parent)]
    best = found[0].worst_ratio
    for generation in range(GENERATIONS):
        mutant = _mutated(algorithm, parent, row_norm, WIDTH * 0.95**generation, rng)
        found.append(tried(mutant))
        if found[-1].worst_ratio >= best:
            parent, best = mutant, found[-1].worst_ratio
    return found


def _mutated(algorithm: Any, genome: Genome, row_norm: float, width: float, rng: np.random.Generator) -> Genome:
    loss, shard = algorithm.objective.loss, genome.shard
    rows = _bounded(shard.features + width * row_norm * rng.standard_normal(shard.features.shape), row_norm)
    rows[1:] *= rng.choice([0.0, 1.0], p=[0.1, 0.9])  # others that are null
    relabeled = rng.random(len(rows)) < 0.1
    labels = np.where(relabeled, random_labels(rng, loss, len(rows)), shard.labels)
    row = _bounded(genome.row + width * row_norm * rng.standard_normal(COLUMNS), row_norm)
    servers = genome.servers * rng.choice([0.0, 1.0], p=[0.1, 0.9]) + width * rng.standard_normal(genome.servers.shape)
    label = random_labels(rng, loss, 1)[0] if rng.random() < 0.3 else genome.label
    return Genome(replace(shard, features=rows, labels=labels), row, label, servers)


def _bounded(rows: np.ndarray, norm: float) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))
