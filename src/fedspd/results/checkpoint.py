"""What long work keeps to go on from: whole, on the disk, known again by its digest, the last two of them.

A file is a line of names, the arrays in NumPy's format, and a digest of all that. Whatever cuts a writer off, the
latest file that its digest fits is as it was written; a later one that is torn or was changed is passed over.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.results.files import BROKEN, OWNER_ONLY, own_file, written_whole

KEPT = 2  # generations
BLOCK = 1 << 20  # bytes
DIGEST_SIZE = 32


@dataclass(frozen=True)
class Checkpoints:
    """Numbered generations of named arrays in a folder, for their owner alone."""

    folder: Path
    name: str = "checkpoint"

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep one more, and the one before it; when this returns, it is on the disk.

        Guarantees:
            Whenever the process or the machine ends, the one before is there, whole, until this one is.
        """
        numbers = self._numbers()
        place = self._place(max(numbers, default=0) + 1)
        with written_whole(place, durable=True, mode=OWNER_ONLY) as file:
            _write(_Hashed(file), arrays)
        whole = [number for number in numbers if self._is_whole(number)][-(KEPT - 1) :]
        for number in set(numbers) - set(whole):
            self._place(number).unlink()

    def read(self) -> dict[str, np.ndarray] | None:
        """The latest that is as it was written; None where there is none."""
        for number in reversed(self._numbers()):
            if self._is_whole(number):
                with suppress(*BROKEN), own_file(self.folder, self._place(number).name).open("rb") as file:
                    names: list[str] = json.loads(file.readline())
                    return {name: np.lib.format.read_array(file, allow_pickle=False) for name in names}
        return None

    def exist(self) -> bool:
        """Whether anything was kept, whole or not."""
        return bool(self._numbers())

    def remove(self) -> None:
        """All of them: what they were kept for is done."""
        for number in self._numbers():
            self._place(number).unlink()

    def _place(self, number: int) -> Path:
        return self.folder / f"{self.name}-{number}"

    def _numbers(self) -> list[int]:
        begin = f"{self.name}-"
        ends = [path.name.removeprefix(begin) for path in self.folder.glob(f"{begin}*")]
        return sorted(int(end) for end in ends if end.isascii() and end.isdigit())

    def _is_whole(self, number: int) -> bool:
        path = own_file(self.folder, self._place(number).name)
        left, made = path.stat().st_size - DIGEST_SIZE, _digest()
        with path.open("rb") as file:
            while left > 0 and (block := file.read(min(BLOCK, left))):
                made.update(block)
                left -= len(block)
            return left == 0 and file.read() == made.digest()


class _Hashed:
    """A file that is written, and the digest of what was."""

    def __init__(self, file: Any) -> None:
        self.file, self.made = file, _digest()

    def write(self, content: Any) -> None:
        """On the file and into the digest."""
        self.made.update(content)
        self.file.write(content)


def _write(file: _Hashed, arrays: Mapping[str, np.ndarray]) -> None:
    file.write(json.dumps(list(arrays)).encode() + b"\n")
    for array in arrays.values():
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    file.file.write(file.made.digest())


def _digest() -> Any:
    return hashlib.blake2b(digest_size=DIGEST_SIZE)
