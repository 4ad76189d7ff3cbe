"""One client round: the single text that every engine runs, and the only path from records to a reply."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedspd.algorithms import Algorithm
from fedspd.typing import Array, Batches, Private, Query, Release


class Played(NamedTuple):
    """What a round did on the participants."""

    client: Any  # their next states
    replies: Array
    clipped: Array  # diagnostic


def play(algorithm: Algorithm, told: Any, client: Any, batches: Batches, perturb: Callable[[Query], Release]) -> Played:
    """Query the records, add noise, settle. Nothing un-noised but `Private` state goes past the noise.

    Args:
        algorithm: the method.
        told: what the server sent.
        client: the participants' states.
        batches: their records.
        perturb: `privacy.gaussian` with scale and draws filled in; on a real client `privacy.exact_gaussian`.
    """
    query, kept = algorithm.query(told, client, batches)
    if isinstance(kept, Private) and algorithm.guarantee == "proved":
        raise RuntimeError(f"{type(algorithm).__name__} keeps un-noised state, so its guarantee cannot be 'proved'.")
    client, replies = algorithm.settle(told, client, perturb(query), kept)
    return Played(client, replies, query.clipped)
