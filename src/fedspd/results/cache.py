"""What took long is kept in the user's cache folder, by a digest of all it depends on."""

import hashlib
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedspd.results.files import BROKEN, OWNER_ONLY, OWNER_ONLY_FOLDER, write_whole

NO_PLACE = (OSError, RuntimeError)
"""What a folder raises that cannot be written to, and a home that the system does not know."""


def cache_folder(name: str) -> Path:
    """Where things of one kind are kept for the next time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedspd" / name


def own_folder(kind: str) -> Path:
    """The folder of one kind, made where it is missing; others cannot look into it."""
    folder = cache_folder(kind)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=OWNER_ONLY_FOLDER, exist_ok=True)
    with suppress(PermissionError):  # of somebody else, who shares it
        folder.chmod(OWNER_ONLY_FOLDER)  # an earlier version left it open
    return folder


def digest(*parts: bytes | memoryview) -> str:
    """Of all parts in their order."""
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(part)
    return made.hexdigest()


@dataclass(frozen=True)
class Cache:
    """Named arrays of one kind, by digest."""

    kind: str

    def read(self, key: str) -> dict[str, np.ndarray] | None:
        """What was kept under a key; None where there is nothing, or where it is damaged."""
        try:
            content = self._path(key).read_bytes()
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except BROKEN:
            return None

    def write(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under a key, for this user alone; whoever reads meanwhile finds all of them or none.

        Where nothing can be written, or nobody has a home, nothing is kept: what was computed is worth more.
        """
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        with suppress(*NO_PLACE):
            own_folder(self.kind)
            write_whole(self._path(key), content.getvalue(), mode=OWNER_ONLY)

    def _path(self, key: str) -> Path:
        return cache_folder(self.kind) / f"{key}.npz"
