"""One thread per core, each with its own clients or rows, instead of a threaded BLAS.

The matrix products of a round are too small to be worth splitting, and splitting them anyway costs
more than it gains; whole clients are worth it. Results do not depend on the number of threads.
"""

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


_alone: list[bool] = []


def stay_on_one_core() -> None:
    """For a process among as many as there are cores: threads of its own would only wait for each other."""
    _alone.append(True)


@contextmanager
def cores() -> Iterator[ParallelMap]:
    """A `map` over one thread per core, with BLAS held to the calling thread."""
    with _libraries().limit(limits=1, user_api="blas"):
        if _alone:
            yield map
            return
        with ThreadPoolExecutor() as threads:
            yield threads.map


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
