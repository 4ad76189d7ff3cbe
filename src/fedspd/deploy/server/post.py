"""Requests to sites and their answers, through Flower's Grid: with a time limit, and late answers dropped by name."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from fedspd.deploy.protocol import wire
from fedspd.errors import InputError

LOOK_EVERY = 0.25  # seconds


class Answers(NamedTuple):
    """What came of a round of requests, by node."""

    content: dict[int, Any]  # what was answered
    unreadable: dict[int, str]  # why an answer could not be read
    late: list[str]  # answers to earlier requests, dropped


class Post:
    """The server's mail: what it has sent and not yet seen answered."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._open: dict[str, tuple[int, str]] = {}  # message, to which node, what about

    def nodes(self) -> set[int]:
        """Nodes that are connected."""
        return set(self.grid.get_node_ids())

    def ask(self, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        """Send each node its request and wait until all have answered, or the time is over.

        Guarantees:
            An answer counts only if it comes from the node that was asked, to the request that it was asked.
            An answer that comes after its time is dropped, and named.
        """
        sent = [wire.request(node, kind, content, seconds, about) for node, content in requests.items()]
        asked = dict(zip(self.grid.push_messages(sent), requests, strict=True)) if sent else {}
        answers, deadline = Answers({}, {}, []), time.monotonic() + seconds
        while asked:
            for message in self.grid.pull_messages([*asked, *self._open]):
                self._sort(message, kind, asked, answers)
            if not asked or time.monotonic() >= deadline:
                break
            time.sleep(LOOK_EVERY)
        self._open.update({message: (node, about) for message, node in asked.items()})
        return answers

    def _sort(self, message: Message, kind: str, asked: dict[str, int], answers: Answers) -> None:
        reply_to = message.metadata.reply_to_message_id
        if reply_to in self._open:
            node, about = self._open.pop(reply_to)
            if not message.has_error():
                answers.late.append(f"{about} of node {node}")
            return
        node = asked.pop(reply_to, None)
        if node is None:
            return
        if message.has_error():
            answers.unreadable[node] = _reason(message)
        elif message.metadata.src_node_id != node:
            answers.unreadable[node] = "it came from another node"
        else:
            self._read(node, message, kind, answers)

    def _read(self, node: int, message: Message, kind: str, answers: Answers) -> None:
        try:
            answers.content[node] = wire.read_answer(message, kind)
        except InputError as error:
            answers.unreadable[node] = str(error)


def _reason(message: Message) -> str:
    return f"no answer: {message.error.reason or message.error.code}"


Say = Callable[[str], None]
"""Where the server reports what happens."""
