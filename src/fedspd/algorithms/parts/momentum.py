r"""Momentum of a server: what it sends lies ahead of its weights, in the direction of the last move.

$v = w + \frac{\beta}{p}(w - w_{before})$, where a share p of the clients takes part in a round: of a server that
averages the latest uploads of all, only that share hears of it. Whatever is sent is a function of releases, so it
costs no privacy (`docs/privacy.md`).

The state is one array, so that a checkpoint can keep it: the weights, and those of the round before.
"""

from typing import Any

from fedspd.typing import Array, array_namespace


def resting(weights: Array) -> Any:
    """The state of a server that has not moved yet."""
    return array_namespace(weights).stack([weights, weights])


def moved(server: Array, weights: Array) -> Any:
    """The state after a move to these weights."""
    return array_namespace(weights).stack([weights, server[0, ...]])


def ahead(server: Array, momentum: Any, share: Any = 1.0) -> Any:
    """What is sent."""
    return server[0, ...] + momentum / share * (server[0, ...] - server[1, ...])
