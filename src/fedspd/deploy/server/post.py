"""Requests to sites and their answers: with a time limit, and late answers dropped by name."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from flwr.app import Message

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.text import plain
from fedspd.errors import InputError

LOOK_EVERY = 0.02  # seconds


class MailRoom(Protocol):
    """What passes messages on: `link.Link`, or nodes within a process."""

    @property
    def names(self) -> Mapping[int, str]:
        """The site that each node is, by its key."""
        ...

    def get_node_ids(self) -> Iterable[int]:
        """Nodes that are connected."""
        ...

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Hand messages over; their numbers, empty where a site is not connected."""
        ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Answers that have arrived to these."""
        ...


class Answers(NamedTuple):
    """What came of a round of requests, by node."""

    content: dict[int, Any]  # what was answered
    unreadable: dict[int, str]  # why an answer could not be read
    late: list[str]  # answers to earlier requests, dropped


class Post:
    """The server's mail: what it has sent and not yet seen answered."""

    def __init__(self, room: MailRoom) -> None:
        self.room = room
        self._open: dict[str, tuple[int, str]] = {}  # message, to which node, what about

    def nodes(self) -> set[int]:
        """Nodes that are connected."""
        return set(self.room.get_node_ids())

    @property
    def names(self) -> Mapping[int, str]:
        """The site that each node is, by its key."""
        return self.room.names

    def ask(self, kind: str, requests: Mapping[int, Any], seconds: float, about: str) -> Answers:
        """Send each node its request and wait until all have answered, or the time is over.

        Guarantees:
            An answer counts only if it comes from the node that was asked, to the request that it was asked.
            An answer that comes after its time is dropped, and named.
        """
        sent = [wire.request(node, kind, content, seconds, about) for node, content in requests.items()]
        numbers = list(self.room.push_messages(sent)) if sent else []
        asked = {number: node for number, node in zip(numbers, requests, strict=True) if number}
        answers, deadline = Answers({}, {}, []), time.monotonic() + seconds
        absent = (node for number, node in zip(numbers, requests, strict=True) if not number)
        answers.unreadable.update(dict.fromkeys(absent, "it is not connected"))
        while asked:
            for message in self.room.pull_messages([*asked, *self._open]):
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
    return f"no answer: {plain(str(message.error.reason or message.error.code))}"


Say = Callable[[str], None]
"""Where the server reports what happens."""
