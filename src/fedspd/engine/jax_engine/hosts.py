"""What several processes that run a simulation together tell each other, beside the rounds."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

WORD = np.uint64  # what is told goes as whole numbers, which arrive to the bit


def whole(tables: Any) -> Any:
    """Tables of all devices as arrays of this host."""
    if jax.process_count() == 1:
        return jax.tree.map(np.asarray, tables)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tables, tiled=True))


def of_the_first(number: int) -> int:
    """A whole number as the first process has it."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.int64(number)))


def kept_by_the_first(kept: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray] | None:
    """Named arrays as the first process has them, one after the other; None where it has none."""
    if jax.process_count() == 1:
        return kept
    facts = None if kept is None else [(name, array.dtype.str, array.shape) for name, array in kept.items()]
    told = json.loads(_told(json.dumps(facts).encode()))
    if told is None:
        return None
    return {
        name: np.frombuffer(_told(b"" if kept is None else kept[name].tobytes()), kind).reshape(shape).copy()
        for name, kind, shape in told
    }


def _told(content: bytes) -> bytes:
    """Bytes of the first process."""
    length = of_the_first(len(content))
    words = np.zeros(-(-length // WORD().itemsize), WORD)
    if jax.process_index() == 0:
        words.view(np.uint8)[:length] = np.frombuffer(content, np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(words)).tobytes()[:length]
