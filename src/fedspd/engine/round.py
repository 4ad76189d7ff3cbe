"""One client round: the single text that every engine runs, and the only path from records to a reply."""

from typing import Any, NamedTuple

from fedspd.algorithms import Algorithm
from fedspd.privacy import gaussian
from fedspd.typing import Array, Batches, Private


class Played(NamedTuple):
    """What a round did on the participants."""

    client: Any  # their next states
    replies: Array
    clipped: Array  # diagnostic


def play(algorithm: Algorithm, told: Any, client: Any, batches: Batches, noise_scale: Any, normals: Array) -> Played:
    """Query the records, add noise, settle. Nothing un-noised but `Private` state goes past the noise."""
    query, kept = algorithm.query(told, client, batches)
    if isinstance(kept, Private) and algorithm.guarantee == "proved":
        raise RuntimeError(f"{type(algorithm).__name__} keeps un-noised state, so its guarantee cannot be 'proved'.")
    release = gaussian(query, noise_scale, normals)
    client, replies = algorithm.settle(told, client, release, kept)
    return Played(client, replies, query.clipped)
