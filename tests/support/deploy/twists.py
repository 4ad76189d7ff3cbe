"""Sites that misbehave, and what a server must hold whatever they do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import Ask, Reply
from fedspd.deploy.server.checkpoint import Checkpoint
from tests.support.deploy.loopback import Handler, honest
from tests.support.deploy.sites import Federation

Change = Callable[[Message, Message], Message | None]
"""Makes of a request and its honest answer what is sent in its place; None: it is lost."""


def in_round(round: int, change: Change) -> Handler:
    """A site that is honest but in one round."""

    def handler(message: Message, path: Path) -> Message | None:
        answer = honest(message, path)
        asked = wire.read_request(message)
        return change(message, answer) if isinstance(asked, Ask) and asked.round == round else answer

    return handler


def with_reply(change: Callable[[Reply], Any]) -> Change:
    """Changes what the reply says."""
    return lambda message, answer: wire.answer(message, change(wire.read_answer(answer, "train.play")))


def lost(message: Message, answer: Message) -> None:
    """The site has played, the server hears nothing."""


def standing(checkpoint: Checkpoint) -> np.ndarray:
    """The server's weights, where it may keep those of the round before too."""
    return checkpoint.server.reshape(-1, *checkpoint.server.shape[-2:])[0]


def mean_of_totals(made: Federation) -> np.ndarray:
    """What the server's sum must be: over all sites, what the last acknowledged reply adds up to."""
    roster = made.saved.roster
    total = np.zeros_like(standing(made.saved))
    for place, member in enumerate(roster):
        with made.store(place) as store:
            stored = store.reply(made.saved.run, member.acknowledged)
        if stored is not None:
            total += np.frombuffer(stored.total, "<f8").reshape(total.shape)
    return total / len(roster)


def replies_made(made: Federation, place: int) -> int:
    """How many replies a site has ever made in the run."""
    with made.store(place) as store:
        return store.last(made.saved.run)[0]
