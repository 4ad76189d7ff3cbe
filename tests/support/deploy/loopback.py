"""A mail room within one process: real messages, answered as a site's worker does, without a network between."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from flwr.app import Message
from flwr.supercore.task_identity import TaskIdentity

from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.respond import respond
from fedspd.deploy.site.serve import answer_to

Handler = Callable[[Message, Path], Message | None]
"""Answers a message for the site of a file; None: the answer is lost on the way."""


def honest(message: Message, path: Path) -> Message:
    """As a site's worker answers, each time a fresh one."""
    return answer_to(message, lambda kind, request: respond(path, kind, request, Records()))[0]


class Loopback:
    """Nodes that answer at once; a test may take one away or put another handler in its place."""

    def __init__(self, sites: Mapping[int, Path]) -> None:
        self.sites = dict(sites)
        self.handlers: dict[int, Handler] = dict.fromkeys(sites, honest)
        self.silent: set[int] = set()  # get a request and never answer
        self.offline: set[int] = set()
        self.late: set[int] = set()  # answer, but the answer arrives with those of the next requests
        self.sent: list[Message] = []
        self.got: list[Message] = []
        self.answers: dict[str, Message] = {}
        self._delayed: dict[str, Message] = {}
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as Flower does for a server app

    @property
    def names(self) -> dict[int, str]:
        return {node: path.parent.name for node, path in self.sites.items()}

    def get_node_ids(self) -> list[int]:
        return [node for node in self.sites if node not in self.offline]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        self.answers.update(self._delayed)
        self._delayed.clear()
        return [self._deliver(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.answers.pop(number) for number in list(message_ids) if number in self.answers]

    def _deliver(self, message: Message) -> str:
        number = f"message-{next(self._numbers)}"
        message.metadata.__dict__["_message_id"] = number
        self.sent.append(message)
        node = message.metadata.dst_node_id
        if node in self.handlers and node not in self.silent | self.offline:
            answer = self.handlers[node](message, self.sites[node])
            if answer is not None:
                self.got.append(answer)
                (self._delayed if node in self.late else self.answers)[number] = answer
        return number
