"""JAX Privacy: a step of DP-SGD on all records, steps with correlated noise, and steps on batches by Poisson sampling.

A record of gradient 5, clipped to 1, against one without gradient in its place, so that both data sets are as long.
"""
# pyright: basic, reportMissingImports=false

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np
from jax_privacy import accounting, batch_selection, matrix_factorization, noise_addition
from releases import Case, write

DELTA, RECORDS, BATCH, STEPS, APART = 1e-5, 10, 5, 4, 2
TABLES = [jnp.zeros((RECORDS, 1)).at[0].set(row) for row in (5.0, 0.0)]
gradient = jax_privacy.clipped_grad(lambda weights, rows: jnp.mean(rows @ weights), l2_clip_norm=1.0)
rng = np.random.default_rng(0)


@partial(jax.jit, static_argnames=("strategy", "deviation"))
def stepped(key: Any, batches: Any, strategy: Callable[[], Any], deviation: float) -> Any:
    """The noised sum of clipped gradients of every batch, from weights of zero each time."""
    weights = jnp.zeros(1)
    privatizer = noise_addition.matrix_factorization_privatizer(strategy(), stddev=deviation, prng_key=key)
    state, released = privatizer.init(weights), []
    for rows in batches:
        noised, state = privatizer.update(gradient(weights, rows), state)
        released.append(noised)
    return jnp.concatenate(released)


def whole(world: int) -> Any:
    """One step on all records."""
    return stepped(keyed(), TABLES[world][None], matrix_factorization.streaming_matrix.identity, 1.0)


def correlated(world: int) -> Any:
    """Every record in each second step, with noise that has the library's own sensitivity for that as its deviation."""
    batches = jnp.stack([TABLES[world] if step % APART == 0 else TABLES[1] for step in range(STEPS)])
    return stepped(keyed(), batches, strategy, float(np.sqrt(SENSITIVITY)))


def sampled(world: int) -> Any:
    """Two steps on batches; rows of zeros fill them up."""
    batches = np.zeros((2, RECORDS, 1))
    for rows, drawn in zip(batches, POISSON.batch_iterator(RECORDS, rng=rng), strict=True):
        rows[: len(drawn)] = np.asarray(TABLES[world])[drawn]
    return stepped(keyed(), batches, matrix_factorization.streaming_matrix.identity, 0.7)


def keyed() -> Any:
    """A key of a release of its own."""
    return jax.random.key(int(rng.integers(2**32)))


def strategy() -> Any:
    """The inverse of the best banded matrix for the largest error."""
    return matrix_factorization.toeplitz.inverse_as_streaming_matrix(COEFFICIENTS)


COEFFICIENTS = matrix_factorization.toeplitz.optimal_max_error_strategy_coefs(STEPS)
SENSITIVITY = matrix_factorization.toeplitz.minsep_sensitivity_squared(COEFFICIENTS, APART, STEPS // APART, STEPS)
POISSON = batch_selection.CyclicPoissonSampling(sampling_prob=BATCH / RECORDS, iterations=2)
counted = accounting.DpsgdTrainingAccountant(accounting.PldAccountantConfig()).compute_epsilon(
    2, accounting.DpParams(noise_multipliers=0.7, num_samples=RECORDS, delta=DELTA, batch_size=BATCH)
)

write(
    "jax_privacy",
    [
        Case("a step on all records, noise 1", {"mu": 1.0, "delta": DELTA}, whole),
        Case("four steps with correlated noise, a record in two of them", {"mu": 1.0, "delta": DELTA}, correlated),
        Case("two steps by Poisson sampling, noise 0.7", {"epsilon": counted, "delta": DELTA}, sampled),
    ],
)
