"""Which records a round uses, and their batches: the same for simulated and for real clients."""

import numpy as np

from fedspd.data import Holdings, Shards
from fedspd.engine import draws
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WITH_REPLACEMENT, WITHOUT_REPLACEMENT
from fedspd.typing import Batches


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


def gather_batches(shards: Shards, clients: np.ndarray, records: np.ndarray, divisors: np.ndarray) -> Batches:
    """The named records of each client, gathered from the flat table."""
    flat = shards.offsets[clients][:, None, None] + records
    features = np.asarray(shards.features).take(flat, axis=0)  # faster than indexing
    if records.min() == draws.NOBODY:
        features[records == draws.NOBODY] = 0.0
    return Batches(features, shards.labels[flat], divisors.astype(features.dtype, copy=False))


def trimmed(records: np.ndarray) -> np.ndarray:
    """Without the places at the end that nobody in the stack fills."""
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
