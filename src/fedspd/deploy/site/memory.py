"""States of a client as bytes, for its store."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def to_bytes(state: Any) -> bytes:
    """All arrays of a nested named tuple, in order."""
    return b"".join(np.ascontiguousarray(array, "<f8").tobytes() for array in _leaves(state))


def from_bytes(like: Any, content: bytes) -> Any:
    """The state that `to_bytes` wrote, in the form of one like it."""
    numbers = np.frombuffer(content, "<f8").astype(np.float64)
    if numbers.size != sum(array.size for array in _leaves(like)):
        raise RuntimeError("a stored state has another size than the method's.")
    return _filled(like, iter(numbers))


def _leaves(state: Any) -> Iterator[np.ndarray]:
    if isinstance(state, tuple):
        for field in state:
            yield from _leaves(field)
    else:
        yield np.asarray(state)


def _filled(like: Any, numbers: Iterator[float]) -> Any:
    if isinstance(like, tuple):
        fields = (_filled(field, numbers) for field in like)
        return type(like)(*fields) if hasattr(like, "_fields") else tuple(fields)
    return np.fromiter(numbers, np.float64, like.size).reshape(like.shape)
