"""The draws of one participant in one round, on the device.

A participant's draws are keyed by seed, round and client, so they do not depend on which device plays
it nor on who plays beside it. They are not the NumPy engine's streams: the same seed gives other draws
of the same law.
"""

from typing import Any

import jax
import jax.numpy as jnp

from fedspd.engine.draws import NOBODY


def key(seed: Any, round: Any, client: Any) -> Any:
    """The key of one participant's draws."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), round), client)


def unit_noise(key: Any, law: str, shape: tuple[int, ...], kind: Any) -> Any:
    """Noise of scale 1, as `engine.draws.unit_noise`: each matrix of the last two axes has the law."""
    if law == "objective":
        alone = *shape[:-3], *shape[-2:]
        on_top = jax.random.normal(jax.random.fold_in(key, 4), alone, kind)
        return jnp.stack([unit_noise(key, "laplace", alone, kind), on_top], axis=-3)
    normals = jax.random.normal(jax.random.fold_in(key, 1), shape, kind)
    if law == "gaussian":
        return normals
    lengths = jax.random.gamma(jax.random.fold_in(key, 3), shape[-2] * shape[-1], shape[:-2], kind)
    return normals * (lengths[..., None, None] / jnp.linalg.norm(normals, axis=(-2, -1), keepdims=True))


def without_replacement(keys: Any, sizes: Any, count: int) -> Any:
    """For each of stacked clients an ordered uniform sample of `count` records, no record twice.

    Step i of Fisher and Yates' shuffle swaps place i with a place drawn from those not yet passed. Only places
    that a swap has touched hold another record than their own: what each swap added to its target is remembered,
    and a place holds its own number plus all that was added to it. The cost grows with the square of `count`,
    and not with the shard.
    """
    steps = jnp.arange(count, dtype=jnp.int32)
    # clients stand last, so that they are looked up together
    targets = jax.vmap(lambda key, size: steps + _below(size - steps, key), out_axes=1)(keys, sizes)

    def held(added: Any, place: Any) -> Any:
        return place + jnp.sum(jnp.where(targets == place, added, 0), axis=0, dtype=jnp.int32)

    def swap(step: Any, state: Any) -> Any:
        added, drawn = state
        found, moved = held(added, targets[step]), held(added, step.astype(jnp.int32))
        return added.at[step].set(moved - found), drawn.at[step].set(found)

    nothing = jnp.zeros_like(targets)
    return jax.lax.fori_loop(0, count, swap, (nothing, nothing))[1].T


def _below(bounds: Any, key: Any) -> Any:
    """Uniform integers from 0 to below each bound: 64 random bits modulo a bound of 31 bits.

    `jax.random.randint` takes 32 bits where a range exceeds 65,536, and is off by a tenth for some of a billion.
    """
    bits = jax.random.bits(jax.random.fold_in(key, 2), bounds.shape, jnp.uint64)
    return (bits % bounds.astype(jnp.uint64)).astype(jnp.int32)


def shuffled(key: Any, size: Any, width: int) -> Any:
    """All records of a shard in random order; `NOBODY` where it is shorter than `width`."""
    numbers = jnp.arange(width)
    there = numbers < size
    keys = jnp.where(there, jax.random.bits(jax.random.fold_in(key, 2), (width,), jnp.uint64) >> 1, jnp.uint64(1 << 63))
    return jnp.where(there, jnp.argsort(keys), NOBODY).astype(jnp.int32)


def with_replacement(key: Any, size: Any, count: int) -> Any:
    """`count` independent uniform draws of the records."""
    return _below(jnp.full(count, size), key)


def whole_shard(key: Any, size: Any, width: int, steps: int) -> Any:
    """(steps, longest batch): every record once, shuffled and dealt out in turn where there are several steps."""
    if steps == 1:
        numbers = jnp.arange(width, dtype=jnp.int32)
        return jnp.where(numbers < size, numbers, NOBODY)[None]
    padded = jnp.full(-(-width // steps) * steps, NOBODY, jnp.int32).at[:width].set(shuffled(key, size, width))
    return padded.reshape(-1, steps).T
