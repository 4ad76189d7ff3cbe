"""Records of very many clients in files that are mapped into memory, not read: a million clients on one machine.

A folder holds `features.npy`, `labels.npy` and `offsets.npy`, sorted by client like `Shards`. Rows are
written block by block and come into memory only where a round draws them.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedspd.data.dataset import Shards
from fedspd.errors import InputError

FILES = ("features", "labels", "offsets")


def write_shards(folder: Path, sizes: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
    """Write the records of clients, client by client.

    Args:
        folder: is made, for its owner alone; must not hold such files yet.
        sizes: number of records on each client.
        blocks: features and labels in the order of the clients, in blocks of any length; the first block
            decides their types, float32 or float64 for the features.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    taken = [name for name in FILES if (folder / f"{name}.npy").exists()]
    if taken:
        raise InputError(f"the folder must be new, got {folder}, which holds {taken[0]}.npy; name another.")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    features = labels = None
    done = 0
    for rows, classes in blocks:
        if features is None or labels is None:
            features = _new(folder / "features.npy", rows.dtype, (int(offsets[-1]), rows.shape[1]))
            labels = _new(folder / "labels.npy", classes.dtype, (int(offsets[-1]),))
        if done + len(rows) > len(labels):
            raise InputError(f"sizes add up to {len(labels)} records, got more; count them again.")
        features[done : done + len(rows)] = rows
        labels[done : done + len(rows)] = classes
        done += len(rows)
    if features is None or done != len(features):
        raise InputError(f"sizes add up to {offsets[-1]} records, got {done}; count them again.")
    features.flush()
    np.save(folder / "offsets.npy", offsets)  # last: without it the folder cannot be opened


def open_shards(folder: Path, clients: int | None = None) -> Shards:
    """The clients of such a folder, or the first so many of them; nothing is read but the offsets."""
    missing = [name for name in FILES if not (folder / f"{name}.npy").exists()]
    if missing:
        raise InputError(f"expected {', '.join(FILES)} as .npy files, got {folder} without {missing[0]}.npy.")
    features, labels = (_mapped(folder / f"{name}.npy") for name in FILES[:2])
    offsets = np.load(folder / "offsets.npy")[: None if clients is None else clients + 1]
    rows = slice(0, int(offsets[-1]))
    return Shards(features[rows], labels[rows], offsets, None)


def _mapped(path: Path) -> np.ndarray:
    array = np.load(path, mmap_mode="r")
    array._mmap.madvise(mmap.MADV_RANDOM)  # rounds draw rows here and there: reading ahead would map the whole file
    return array


def _new(path: Path, kind: np.dtype, shape: tuple[int, ...]) -> np.memmap:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # records are for their owner alone
    return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
