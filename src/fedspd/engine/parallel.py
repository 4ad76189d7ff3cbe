"""One thread per core, each with its own clients or rows, instead of a threaded BLAS.

The matrix products of a round are too small to be worth splitting, and splitting them anyway costs
more than it gains; whole clients are worth it. Results do not depend on the number of threads.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

from threadpoolctl import ThreadpoolController


class ParallelMap(Protocol):
    """`map`, or something that does the same on several threads."""

    def __call__(self, function: Callable[[Any], Any], parts: Iterable[Any], /) -> Iterable[Any]:
        """Apply the function to every part; results in the order of the parts."""
        ...


@contextmanager
def cores() -> Iterator[ParallelMap]:
    """A `map` over one thread per core that this process may use, with BLAS held to the calling thread."""
    with _libraries().limit(limits=1, user_api="blas"):
        if usable_cores() == 1:  # handing parts to a thread and back would take longer than many of them
            yield map
            return
        with ThreadPoolExecutor() as threads:
            yield threads.map


def usable_cores() -> int:
    """How many cores this process may run on, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
