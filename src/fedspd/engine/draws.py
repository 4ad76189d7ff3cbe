"""Every random number of a simulation: one root seed, named streams, no global state.

A stream is keyed by (seed, name, round), so a round's draws do not depend on how many were made
before it. A seeded run is for science; real clients draw from the operating system.
"""

from typing import Any, Literal, Protocol
from zlib import crc32

import numpy as np

from fedspd.data.holding.units import NOBODY

Stream = Literal[
    "partition", "topology", "cohorts", "participation", "arrivals", "labels", "records", "noise", "moments",
    "evaluation",
]  # fmt: skip

FEW = 4
"""Samples of at most this part of a shard, 1/FEW, are drawn without looking at the whole shard."""

LITTLE = 1 << 13
"""So few records altogether are shuffled sooner than looked through for repeats."""


class Source(Protocol):
    """What draws records: a seeded generator in a simulation, `entropy.SystemEntropy` at a real client."""

    def integers(self, low: int, high: Any, size: Any = ..., dtype: Any = ...) -> Any:
        """Uniform whole numbers from `low` up to but not including `high`."""
        ...

    def random(self, size: Any) -> Any:
        """Uniform numbers in [0, 1)."""
        ...


def stream(seed: int, name: Stream, round: int = 0, *client: int) -> np.random.Generator:
    """The generator of one purpose in one round, of all clients together or of one that is named."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(crc32(name.encode()), round, *client)))


def unit_noise(rng: np.random.Generator, law: str, shape: tuple[int, ...], kind: Any = np.float64) -> np.ndarray:
    r"""Noise of scale 1: standard normals, or matrices of density $\propto e^{-\|b\|}$ in the last two axes.

    Of the latter, directions are uniform and lengths have the law Gamma(d). In an objective there is one of each: that
    for the objective and that for its minimizer stand in the last axis but two.
    """
    if law == "objective":
        alone = *shape[:-3], *shape[-2:]
        return np.stack([unit_noise(rng, each, alone, kind) for each in ("laplace", "gaussian")], axis=-3)
    normals = rng.standard_normal(shape, kind)
    if law == "gaussian":
        return normals
    lengths = rng.standard_gamma(shape[-2] * shape[-1], shape[:-2])[..., None, None]
    return (normals * (lengths / np.linalg.norm(normals, axis=(-2, -1), keepdims=True))).astype(kind, copy=False)


def participants(rng: np.random.Generator, clients: int, count: int) -> np.ndarray:
    """`count` of `clients`, uniformly without replacement, in increasing order."""
    if count == clients:
        return np.arange(clients)
    return np.sort(rng.choice(clients, count, replace=False, shuffle=False))


def records_without_replacement(rng: Source, sizes: np.ndarray, count: int) -> np.ndarray:
    """For each client an ordered uniform sample of `count` of its records, no record twice.

    The order matters: consecutive blocks become the batches of the local steps. Draws that repeat an
    earlier one of the same client are drawn again until none does, at a cost that grows with `count` and
    not with the shard. The result is exactly uniform: nothing here depends on which record bears which
    number, so every ordered sample without repeats is as likely as any other.
    """
    smallest, largest = int(sizes.min()), int(sizes.max())
    if FEW * count > smallest or len(sizes) * largest <= LITTLE:
        return _shuffled(rng, sizes, count)
    bits = count.bit_length()
    narrow = np.uint32 if largest.bit_length() + bits <= 32 else np.int64  # narrow numbers sort faster
    bounds = largest if smallest == largest else sizes[:, None]  # and one bound for all draws faster
    drawn = rng.integers(0, bounds, size=(len(sizes), count))
    waiting, places = np.arange(len(sizes)), np.arange(count, dtype=narrow)
    while True:
        # a plain sort of record numbers with their places in the lowest bits brings repeats together
        keys = np.sort(drawn[waiting].astype(narrow) << bits | places, axis=1)
        rows, columns = np.nonzero(keys[:, 1:] >> bits == keys[:, :-1] >> bits)
        if not len(rows):
            return drawn
        again = waiting[rows]
        drawn[again, keys[rows, columns + 1] & ((1 << bits) - 1)] = rng.integers(0, sizes[again])
        waiting = waiting[np.unique(rows)]


def _shuffled(rng: Source, sizes: np.ndarray, count: int) -> np.ndarray:
    """The same for samples of much of a shard: every record gets a random key, the least keys win.

    A record's own number stands in the lowest bits of its key, so that one plain sort of the keys, much
    faster than an indirect one, carries the records along.
    """
    width = int(sizes.max())
    numbers = np.arange(width, dtype=np.uint64)
    mask = np.uint64((1 << width.bit_length()) - 1)
    while True:
        keys = rng.integers(0, 1 << 64, size=(len(sizes), width), dtype=np.uint64) & ~mask | numbers
        if int(sizes.min()) < width:
            keys[numbers >= sizes[:, None].astype(np.uint64)] = np.iinfo(np.uint64).max
        if count + 1 < width:
            keys = np.partition(keys, count, axis=1)
        keys = np.sort(keys[:, : count + 1], axis=1)
        if ((keys[:, 1:] | mask) != (keys[:, :-1] | mask)).all():  # a tie would favor the record with the lower number
            return (keys[:, :count] & mask).astype(np.int64)


def records_with_replacement(rng: Source, sizes: np.ndarray, count: int) -> np.ndarray:
    """For each client `count` independent uniform draws of its records."""
    return rng.integers(0, sizes[:, None], size=(len(sizes), count))


def whole_shards(rng: Source, sizes: np.ndarray, steps: int) -> np.ndarray:
    """(clients, steps, longest batch): every record of every client once; filled up with `NOBODY`.

    With several steps the records are shuffled and dealt out in turn, so that a client's batches differ
    by at most one in length. Every order is as likely as any other, which the accounting counts on: keys that
    tie would favor some, so they are drawn again.
    """
    width = int(sizes.max())
    numbers = np.broadcast_to(np.arange(width), (len(sizes), width))
    if steps == 1:
        return np.where(numbers < sizes[:, None], numbers, NOBODY)[:, None]
    while True:
        keys = np.where(numbers < sizes[:, None], rng.random((len(sizes), width)), 2.0 + numbers)
        places = np.argsort(keys, axis=1)
        if (np.diff(np.take_along_axis(keys, places, axis=1), axis=1) > 0).all():
            break
    order = np.where(numbers < sizes[:, None], places, NOBODY)
    padded = np.full((len(sizes), -(-width // steps) * steps), NOBODY)
    padded[:, :width] = order
    return padded.reshape(len(sizes), -1, steps).swapaxes(1, 2)


def poisson(rng: Source, sizes: np.ndarray, rates: np.ndarray, steps: int) -> np.ndarray:
    """(clients, steps, longest batch): each record joins with its client's rate and goes to a random step.

    Nothing is cut off: a cap would let one record push out another. Shorter batches are filled up
    with `NOBODY`.
    """
    width = int(sizes.max())
    joins = rng.random((len(sizes), width)) < rates[:, None]
    joins &= np.arange(width) < sizes[:, None]
    step = rng.integers(0, steps, size=joins.shape)
    clients, records = np.nonzero(joins)
    slot = clients * steps + step[clients, records]
    order = np.argsort(slot, kind="stable")
    counts = np.bincount(slot, minlength=len(sizes) * steps)
    batches = np.full((len(counts), max(1, int(counts.max()))), NOBODY)
    place = np.arange(len(slot)) - np.repeat(np.cumsum(counts) - counts, counts)
    batches[slot[order], place] = records[order]
    return batches.reshape(len(sizes), steps, -1)
