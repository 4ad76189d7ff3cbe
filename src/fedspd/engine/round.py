"""One client round: the single text that every engine runs, and the only path from records to a reply."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedspd.algorithms import Algorithm
from fedspd.algorithms.base import HasFreeRounds
from fedspd.typing import Argmin, Array, Batches, Private, Query, Release

Perturb = Callable[[Query | Argmin, Any], Release]
"""From a query and its draws to a release: a mechanism with its scale filled in, or the exact one of a real client."""


class Played(NamedTuple):
    """What a round did on the participants."""

    client: Any  # their next states
    replies: Array
    clipped: Array  # diagnostic


def play(algorithm: Algorithm, told: Any, client: Any, batches: Batches, perturb: Perturb, draws: Any) -> Played:
    """Query the records, add noise, settle, as often as the method releases in a round.

    Nothing un-noised but `Private` state goes past the noise.

    Args:
        algorithm: the method.
        told: what the server sent.
        client: the participants' states.
        batches: their records.
        perturb: adds the noise.
        draws: of the noise, (participants, ...); with a further axis where there are several releases. None where
            `perturb` draws for itself.
    """
    if algorithm.releases == 1:
        return _release(algorithm, told, client, batches, perturb, draws)
    played, clipped = None, 0.0
    for step in range(algorithm.releases):
        fresh = None if draws is None else draws[:, step, ...]
        played = _release(algorithm, told, client, batches.steps(slice(step, step + 1)), perturb, fresh)
        client, clipped = played.client, clipped + played.clipped / algorithm.releases
    assert played is not None
    return played._replace(clipped=clipped)


def play_free(algorithm: Algorithm, told: Any, client: Any) -> Played | None:
    """A round that uses no records, of a method that has such; None of any other."""
    if not isinstance(algorithm, HasFreeRounds):
        return None
    states, replies = algorithm.recycle(told, client)
    return Played(states, replies, 0.0 * replies[:, 0, 0])


def _release(algorithm: Algorithm, told: Any, client: Any, batches: Batches, perturb: Perturb, draws: Any) -> Played:
    stir = getattr(algorithm, "stir", None)  # of `RemembersNoise`, which would take long to ask for in every round
    if stir is not None:
        client, draws = stir(client, draws)
    query, kept = algorithm.query(told, client, batches)
    if isinstance(kept, Private) and algorithm.guarantee == "proved":
        raise RuntimeError(f"{type(algorithm).__name__} keeps un-noised state, so its guarantee cannot be 'proved'.")
    client, replies = algorithm.settle(told, client, perturb(query, draws), kept)
    return Played(client, replies, query.clipped)
