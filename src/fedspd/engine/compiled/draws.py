"""The draws of one participant in one round, on the device.

A participant's draws are keyed by seed, round and client, so they do not depend on which device plays
it nor on who plays beside it. They are not the NumPy engine's streams: the same seed gives other draws
of the same law.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedspd.engine.draws import NOBODY

PAIRS = 128  # so many draws are compared pair by pair sooner than sorted


def key(seed: Any, round: Any, client: Any) -> Any:
    """The key of one participant's draws."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), round), client)


def normals(key: Any, matrix: tuple[int, int], kind: Any) -> Any:
    """Standard normal draws shaped like a weight matrix."""
    return jax.random.normal(jax.random.fold_in(key, 1), matrix, kind)


def without_replacement(key: Any, size: Any, count: int) -> Any:
    """An ordered uniform sample of `count` of `size` records, no record twice.

    Repeats are drawn again until none is left, as in the NumPy engine and exactly uniform for the same
    reason: nothing depends on which record bears which number. Integers are 64 random bits modulo the size.
    """

    def draw(attempt: Any) -> Any:
        return jax.random.randint(jax.random.fold_in(key, 2 + attempt), (count,), 0, size, jnp.int32)

    def again(state: Any) -> Any:
        attempt, drawn, repeats = state
        drawn = jnp.where(repeats, draw(attempt), drawn)
        return attempt + 1, drawn, _repeats(drawn)

    first = draw(0)
    return jax.lax.while_loop(lambda state: jnp.any(state[2]), again, (1, first, _repeats(first)))[1]


def shuffled(key: Any, size: Any, width: int) -> Any:
    """All records of a shard in random order; `NOBODY` where it is shorter than `width`."""
    numbers = jnp.arange(width)
    there = numbers < size
    keys = jnp.where(there, jax.random.bits(jax.random.fold_in(key, 2), (width,), jnp.uint64) >> 1, jnp.uint64(1 << 63))
    return jnp.where(there, jnp.argsort(keys), NOBODY).astype(jnp.int32)


def with_replacement(key: Any, size: Any, count: int) -> Any:
    """`count` independent uniform draws of the records."""
    return jax.random.randint(jax.random.fold_in(key, 2), (count,), 0, size, jnp.int32)


def whole_shard(key: Any, size: Any, width: int, steps: int) -> Any:
    """(steps, longest batch): every record once, shuffled and dealt out in turn where there are several steps."""
    if steps == 1:
        numbers = jnp.arange(width, dtype=jnp.int32)
        return jnp.where(numbers < size, numbers, NOBODY)[None]
    padded = jnp.full(-(-width // steps) * steps, NOBODY, jnp.int32).at[:width].set(shuffled(key, size, width))
    return padded.reshape(-1, steps).T


def _repeats(drawn: Any) -> Any:
    """Which draws repeat another one, of which one is left out."""
    count = len(drawn)
    if count <= PAIRS:
        return jnp.any(jnp.tril(drawn[:, None] == drawn[None, :], -1), axis=1)
    keys = jnp.sort(drawn.astype(jnp.int64) * count + jnp.arange(count))
    numbers, places = keys // count, keys % count
    return jnp.zeros(count, bool).at[places[1:]].set(numbers[1:] == numbers[:-1])
