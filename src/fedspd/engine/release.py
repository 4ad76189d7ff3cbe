"""The one door from records to the outside: a `Query` or an `Argmin` goes in, a `Release` comes out.

Rounds, moments and real sites all pass here, and nothing else calls `privacy.mechanism` or `privacy.exact`: a
contract of import-linter forbids it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms import Moments
from fedspd.data import Shards
from fedspd.privacy.exact import exact_gaussian, whole_gaussian
from fedspd.privacy.mechanism import MECHANISMS, randomized_response
from fedspd.typing import Argmin, Array, Query, Release


class Drawn(NamedTuple):
    """Noise of a simulation: draws of size one, and what they are multiplied by."""

    law: str  # "gaussian", "laplace" or "objective"
    scale: Any  # one number, or one per client
    draws: Array  # fresh, used once; in an objective two for each client


class Exact(NamedTuple):
    """Noise of a real client: Gaussian, from the operating system, without rounding."""

    scale: float


class Whole(NamedTuple):
    """Noise of a member of a secure sum: whole numbers modulo 2^64, from the operating system."""

    scale: float  # of this member's noise alone
    grid: float  # a step, a power of two
    reach: float  # the declared range of a coordinate


def release(query: Query | Argmin, noise: Drawn | Exact | Whole) -> Release:
    """Add the noise. There is no other way.

    Guarantees:
        At a real client there is a release whatever the records are: to fail would tell something about them, so
        coordinates of a query that are not finite count as zero.
    """
    if isinstance(noise, Drawn):
        return MECHANISMS[noise.law](query, noise.scale, noise.draws)
    if isinstance(query, Argmin):
        raise RuntimeError("noise in an objective is not drawn exactly: such methods are refused before.")
    value = np.asarray(query.value)
    finite = query._replace(value=np.where(np.isfinite(value), value, 0.0))
    return exact_gaussian(finite, noise.scale) if isinstance(noise, Exact) else whole_gaussian(finite, *noise)


def release_moments(
    moments: Moments, shards: Shards, scales: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of every column from one noised release per client.

    Args:
        moments: what is summed up.
        shards: the clients' records.
        scales: of the noise, one per client.
        rng: draws it.
    """
    query = moments.query(shards.features, shards.offsets, None if shards.units is None else shards.units.shares)
    normals = rng.standard_normal(np.shape(query.value))
    return moments.scaling(release(query, Drawn("gaussian", scales[:, None], normals)), shards.holdings.records)


def flip_labels(shards: Shards, chance: float, rng: np.random.Generator) -> Shards:
    """Randomized response on the labels of all clients.

    Args:
        shards: the clients' records.
        chance: of a flip.
        rng: tosses the coins.
    """
    coins = rng.random(len(shards.labels))
    return replace(shards, labels=randomized_response(shards.labels, coins, chance))
