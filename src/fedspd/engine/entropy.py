"""Draws from the operating system, for the batches of real clients: no seed, nothing to draw again."""

import os
from typing import Any

import numpy as np

ALL = 1 << 64
"""How many values eight random bytes take."""


class SystemEntropy:
    """The methods of `np.random.Generator` that draw records (`draws.Source`), fed by `os.urandom` alone."""

    def integers(self, low: int, high: Any, size: Any = None, dtype: Any = np.int64) -> np.ndarray:
        """Uniform whole numbers from `low` up to but not including `high`, one bound or one per draw.

        Guarantees:
            Every number is equally likely: draws beyond the last whole multiple of the range are drawn again.
        """
        if isinstance(high, int) and high - low == ALL:
            return self._words(() if size is None else size).astype(dtype) + dtype(low)
        span = np.asarray(high) - low
        if (span < 1).any():
            raise ValueError("high must be above low.")
        span = np.broadcast_to(span.astype(np.uint64), span.shape if size is None else size)
        surplus = (np.uint64(ALL - 1) - span + np.uint64(1)) % span  # 2^64 modulo the span
        words = self._words(span.shape)
        while (over := words > np.uint64(ALL - 1) - surplus).any():
            words[over] = self._words(int(over.sum()))
        return (words % span).astype(dtype) + dtype(low)

    def random(self, size: Any) -> np.ndarray:
        """Uniform multiples of 2^-53 in [0, 1)."""
        return (self._words(size) >> np.uint64(11)) * 2.0**-53

    def _words(self, size: Any) -> np.ndarray:
        shape = np.broadcast_shapes(size)  # a number of draws is a shape, too
        return np.frombuffer(bytearray(os.urandom(8 * int(np.prod(shape)))), dtype=np.uint64).reshape(shape)
