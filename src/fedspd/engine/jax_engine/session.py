"""JAX as this package uses it: 64-bit types allowed, exact products, and compiled programs kept on disk."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec

from fedspd.errors import InputError
from fedspd.problem.margins import LOOPS
from fedspd.results import own_folder
from fedspd.results.cache import NO_PLACE


def installed() -> bool:
    """Whether JAX can be imported."""
    return find_spec("jax") is not None


def require() -> None:
    """Refuse to go on without JAX."""
    if not installed():
        raise InputError("the engine jax needs JAX, got none; install fedspd[jax], or use --engine numpy.")


@contextmanager
def session() -> Iterator[None]:
    """Within it programs may be traced and run; the caller's own JAX settings are left as they are."""
    require()
    import jax

    _keep_programs()
    LOOPS["jax"] = jax.lax.while_loop
    # float32 products of a GPU would otherwise keep 10 bits of mantissa only
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        yield


@cache
def _keep_programs() -> None:
    """Compile each program once per machine, unless the user keeps programs elsewhere already."""
    import jax

    if jax.config.jax_compilation_cache_dir is None:  # pyright: ignore[reportAttributeAccessIssue]
        with suppress(*NO_PLACE):  # JAX does without
            jax.config.update("jax_compilation_cache_dir", str(own_folder("programs")))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def join(coordinator: str, processes: int, process: int) -> None:
    """Become one of several processes, on one host or many, that run a simulation together.

    Args:
        coordinator: address and port of the first process, which listens there and nowhere else.
        processes: how many there are.
        process: the number of this one, from 0.
    """
    import jax

    jax.distributed.initialize(coordinator, processes, process, coordinator_bind_address=coordinator)
