"""Which records a round uses, and their batches: the same for simulated and for real clients."""

import numpy as np

from fedspd.data import Holdings, Shards
from fedspd.engine import draws
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WITH_REPLACEMENT, WITHOUT_REPLACEMENT
from fedspd.typing import Batches, Picked


def draw_records(
    rng: draws.Source, sizes: np.ndarray, sampling: str, batch_size: int | None, local_steps: int
) -> np.ndarray:
    """(clients, local steps, longest batch): numbers of records within each client's shard."""
    if batch_size is None:
        return draws.whole_shards(rng, sizes, local_steps)
    count = local_steps * batch_size
    if sampling == POISSON:
        return draws.poisson(rng, sizes, count / sizes, local_steps)
    without = sampling == WITHOUT_REPLACEMENT
    drawn = (draws.records_without_replacement if without else draws.records_with_replacement)(rng, sizes, count)
    return drawn.reshape(len(sizes), local_steps, batch_size)


def member_batches(records: np.ndarray, batch_size: int) -> np.ndarray:
    """How many records each member of the cohorts draws: as many as it has of all, on average `batch_size`.

    A record then has about the same chance at every member, and counts the same in the sum
    (`docs/proofs/secure-sums.md`).
    """
    mean = float(records.mean())
    if batch_size > mean:
        raise InputError(
            f"algorithm.batch_size must be at most the records of a client on average, {mean:g}, where sums are "
            f"secure, got {batch_size}; lower it."
        )
    return np.maximum(1, np.rint(batch_size * records / mean)).astype(np.int64)


def draw_of_members(rng: draws.Source, records: np.ndarray, batches: np.ndarray, sampling: str) -> np.ndarray:
    """Numbers of records within the pooled shard of a cohort: every member draws from its own."""
    starts, found = np.cumsum(records) - records, []
    for own in np.unique(batches).tolist():  # few are distinct
        members = np.flatnonzero(batches == own)
        drawn = draw_records(rng, records[members], sampling, own, 1)[:, 0]
        found.append(np.where(drawn == draws.NOBODY, draws.NOBODY, starts[members, None] + drawn).ravel())
    together = np.concatenate(found)
    return together[together != draws.NOBODY]


def side_by_side(blocks: list[np.ndarray]) -> np.ndarray:
    """(clients, local steps, longest batch): the records of several blocks of clients, filled up with `NOBODY`."""
    width = max(block.shape[2] for block in blocks)

    def filled(block: np.ndarray) -> np.ndarray:
        missing = width - block.shape[2]
        return np.pad(block, [(0, 0), (0, 0), (0, missing)], constant_values=draws.NOBODY) if missing else block

    return blocks[0] if len(blocks) == 1 else np.concatenate([filled(block) for block in blocks])


def stacked(found: list[np.ndarray]) -> np.ndarray:
    """(cohorts, 1, longest batch): the records of each, filled up with `NOBODY`."""
    together = np.full((len(found), 1, max(1, *map(len, found))), draws.NOBODY)
    for row, records in zip(together, found, strict=True):
        row[0, : len(records)] = records
    return together


def gather_batches(shards: Shards, clients: np.ndarray, records: np.ndarray, divisors: np.ndarray) -> Batches:
    """The named records of each client, or all those of the named persons, from the flat table.

    Whole shards of neighbors that have as many records are together in the table already, and are not copied.
    """
    if is_together(shards, clients, records):
        rows = slice(int(shards.offsets[clients[0]]), int(shards.offsets[clients[-1] + 1]))
        features = np.asarray(shards.features)[rows].reshape(*records.shape, -1)
        features.flags.writeable = False
        labels = shards.labels[rows].reshape(records.shape)
        return Batches(features, labels, divisors.astype(features.dtype, copy=False))
    if shards.units is None:
        flat, empty = shards.offsets[clients][:, None, None] + records, records == draws.NOBODY
    else:
        flat = shards.units.spread(clients, records)
        empty = flat == draws.NOBODY
    picked, kind = Picked(np.asarray(shards.features), flat), shards.features.dtype
    labels, divisors = np.asarray(shards.labels).take(flat), divisors.astype(kind, copy=False)
    shares = None if shards.units is None else np.where(empty, 0.0, shards.units.shares[flat]).astype(kind, copy=False)
    if not empty.any():
        return Batches(picked, labels, divisors, shares)
    features = picked.copied
    features[empty] = 0.0
    return Batches(features, labels, divisors, shares)


def is_together(shards: Shards, clients: np.ndarray, records: np.ndarray) -> bool:
    """Whether these are all records of clients side by side, in their order."""
    steps, width = records.shape[1:]
    return bool(
        shards.units is None
        and steps == 1
        and (np.diff(clients) == 1).all()
        and (shards.sizes[clients] == width).all()
        and (records[:, 0] == np.arange(width)).all()
    )


def trimmed(records: np.ndarray) -> np.ndarray:
    """Without the places at the end that nobody in the stack fills."""
    if (records[:, :, -1] != draws.NOBODY).any():
        return records
    filled = np.flatnonzero((records != draws.NOBODY).any(axis=(0, 1)))
    return records[:, :, : 1 + int(filled[-1])] if len(filled) else records[:, :, :1]


def nominal_sizes(holdings: Holdings, clients: np.ndarray, batch_size: int | None, local_steps: int) -> np.ndarray:
    """What each client divides a batch's sum by."""
    whole = holdings.divisors[clients]
    if batch_size is None:
        return whole / local_steps
    return batch_size * whole / holdings.sizes[clients]


def check_batches(holdings: Holdings, sampling: str, batch_size: int | None, local_steps: int) -> None:
    """Refuse batches that the smallest client cannot fill."""
    smallest, drawn = int(holdings.sizes.min()), local_steps * (batch_size or 1)
    if sampling != WITH_REPLACEMENT and drawn > smallest:
        raise InputError(
            f"local_steps x batch_size must be at most the records of the smallest client, {smallest}, "
            f"when sampling without replacement, got {drawn}; lower batch_size, local_steps or partition.clients."
        )
