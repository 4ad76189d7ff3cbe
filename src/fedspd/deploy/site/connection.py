"""A site's connection to the server: Flower's Fleet API, and nothing of Flower that runs code.

Flower's own SuperNode fetches the app that a server packed and runs it beside the records. Here a message is only read:
its type and its content are data for `wire`, and no package is ever asked for.
"""

import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from flwr.app import Error, Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from fedspd.deploy.protocol.identity import Identity
from fedspd.deploy.protocol.text import plain
from fedspd.errors import InputError

HEARTBEAT_SECONDS = 10.0  # the least that Flower allows: a killed site is taken for gone after two of them
LONGEST_PAUSE = 15.0  # between two tries to reach the server
QUICK = 1.0  # a server that answers "nothing" faster than this does not hold requests until there is a message
SHORTEST_PAUSE = 0.1
MOST_OBJECTS = 8  # of a message; ours have three
MOST_BYTES = 64 * 2**20  # of an object
MOST_ERROR = 4096  # letters of an error that are looked at
OBJECT_TRIES = 50


class Connection:
    """A site as a node of the federation, connected again whenever it was cut off.

    Args:
        address: host and port of the server.
        authority: file with the certificate of the authority that signed the server's.
        identity: the site's key.
        say: tells the people at the site what happens.
    """

    def __init__(self, address: str, authority: Path, identity: Identity, say: Callable[[str], None]) -> None:
        self.address, self.identity, self.say = address, identity, say
        self.connected = threading.Event()
        self._node: Node | None = None
        self._ended = threading.Event()
        self._last_said = ""
        self._clients = [_client(address, authority, identity) for _ in range(2)]  # one for heartbeats
        self._heart = threading.Thread(target=self._beat, daemon=True, name="heartbeats")

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._heart.join()
        if self._node is not None:
            with suppress(httpx.HTTPError, ValueError):  # without it the site may return after two heartbeats only
                self._clients[0].DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))
        for client in self._clients:
            client.close()

    def receive(self) -> Message | None:
        """The next message, whole; None where there is none at the moment, or one that cannot be fetched."""
        begin = time.monotonic()
        answer = self._call(lambda client, node: client.PullMessages(PullMessagesRequest(node=node)))
        if not answer.messages_list:
            if time.monotonic() - begin < QUICK:
                time.sleep(SHORTEST_PAUSE)
            return None
        try:
            head = message_from_proto(answer.messages_list[0])
            tree = iterate_object_tree(answer.message_object_trees[0])
            identities = [one.object_id for one in islice(tree, MOST_OBJECTS + 1)]
        except Exception:  # whatever a server may have packed
            time.sleep(SHORTEST_PAUSE)
            raise Rejected("its message is none of Flower's") from None
        content = self._fetch(head.metadata.run_id, identities) if len(identities) <= MOST_OBJECTS else None
        self._call(
            lambda client, node: client.ConfirmMessageReceived(
                ConfirmMessageReceivedRequest(
                    node=node, run_id=head.metadata.run_id, message_object_id=head.metadata.message_id
                )
            )
        )
        return head if content is None else _whole(head, content)

    def reply(self, reply: Message) -> None:
        """Send an answer."""
        with no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
            head = message_to_proto(remove_content_from_message(reply) if reply.has_content() else reply)
            contents = {identity: found.deflate() for identity, found in objects.items()}
        answer = self._call(
            lambda client, node: client.PushMessages(
                PushMessagesRequest(
                    node=node, messages_list=[head], message_object_trees=[tree], clientapp_runtime_list=[0.0]
                )
            )
        )
        for identity in answer.objects_to_push:
            if identity in contents:
                self._push(reply.metadata.run_id, answer.session_id, identity, contents[identity])

    def _push(self, run: int, session: str, identity: str, content: bytes) -> None:
        self._call(
            lambda client, node: client.PushObject(
                PushObjectRequest(node=node, run_id=run, object_id=identity, object_content=content, session_id=session)
            )
        )

    def _fetch(self, run: int, identities: list[str]) -> dict[str, Any] | None:
        contents = {identity: self._object(run, identity) for identity in identities}
        return None if any(content is None for content in contents.values()) else contents

    def _object(self, run: int, identity: str) -> bytes | None:
        """A part of a message; it may take a moment until it is there."""

        def ask(client: FleetHttpClient, node: Node) -> Any:
            return client.PullObject(PullObjectRequest(node=node, run_id=run, object_id=identity))

        for _ in range(OBJECT_TRIES):
            found = self._call(ask)
            if found.object_available:
                return found.object_content if len(found.object_content) <= MOST_BYTES else None
            if not found.object_found:
                return None
            time.sleep(SHORTEST_PAUSE)
        return None

    def _call(self, act: Callable[[FleetHttpClient, Node], Any]) -> Any:
        """Ask the server; where it cannot be reached, or has forgotten this site, connect again and ask once more."""
        pause = SHORTEST_PAUSE
        while not self._ended.is_set():
            try:
                node = self._node or self._activated()
                return act(self._clients[0], node)
            except NotActivated as error:
                self._lost(str(error))
            except httpx.HTTPStatusError as error:
                if error.response.status_code not in (401, 502, 503, 504):
                    raise Rejected(_told(error)) from None
                self._lost(f"the server does not know this site any more: {_told(error)}")
            except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, ValueError) as error:
                why = plain(str(error)) or type(error).__name__
                self._lost(f"the server at {self.address} cannot be reached: {why}")
            except RuntimeError:  # closed by another thread since the loop's test, which httpx says in this way
                if not self._ended.is_set():
                    raise
            self._ended.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        raise Ended

    def _activated(self) -> Node:
        request = ActivateNodeRequest(public_key=self.identity.public.raw, heartbeat_interval=HEARTBEAT_SECONDS)
        try:
            answer = self._clients[0].ActivateNode(request)
        except httpx.HTTPStatusError as error:
            raise NotActivated(
                f"the server does not let this site in ({_told(error)}): its key {self.identity.public.fingerprint} is "
                "not in federation.toml, its clock is off, or its last connection is not missed yet; trying again"
            ) from None
        self._node = Node(node_id=answer.node_id)
        self.connected.set()
        self._say(f"connected to {self.address}")
        return self._node

    def _lost(self, why: str) -> None:
        self._node = None
        self.connected.clear()
        self._say(why)

    def _say(self, line: str) -> None:
        if line != self._last_said:  # the same trouble every few seconds is said once
            self._last_said = line
            self.say(line)

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS / 2):
            node = self._node
            if node is None:
                continue
            with suppress(httpx.HTTPError, ValueError):  # the next message finds out
                self._clients[1].SendNodeHeartbeat(
                    SendNodeHeartbeatRequest(node=node, heartbeat_interval=HEARTBEAT_SECONDS)
                )


class NotActivated(Exception):  # noqa: N818 (it may be in a moment)
    """The server did not let the site in."""


class Rejected(Exception):  # noqa: N818 (a server's word, not a fault of ours)
    """A server did not take what was sent: its run is over, or it does not want it."""


class Ended(Exception):  # noqa: N818 (nothing is wrong)
    """The connection is closed for good."""


def refusing(message: Message, why: str) -> Message:
    """An answer to a message that is none of ours."""
    return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)


def _whole(head: Message, contents: dict[str, Any]) -> Message:
    try:
        message = inflate_object_from_contents(head.metadata.message_id, contents)
    except Exception:  # whatever a server may have packed
        return head
    if not isinstance(message, Message):
        return head
    message.metadata.__dict__["_message_id"] = head.metadata.message_id
    identity = head.metadata.run_id, head.metadata.dst_node_id
    TaskIdentity.run_id, TaskIdentity.node_id = identity  # Flower asks for them when a reply is made
    TaskIdentity.task_id = 1
    return message


def _client(address: str, authority: Path, identity: Identity) -> FleetHttpClient:
    try:
        return FleetHttpClient.from_server_address(
            address,
            False,
            authority.read_bytes(),
            # Not Flower's own check of versions: it ends the process where a server says so.
            interceptors=[NodeAuthHttpInterceptor(identity.key, identity.key.public_key())],
        )
    except (OSError, ssl.SSLError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no certificate"
        raise InputError(f"expected the certificate of the server's authority at {authority}, got: {why}.") from None


def _told(error: httpx.HTTPStatusError) -> str:
    from flwr.supercore.error import FlowerError

    try:
        found = FlowerError.from_json(error.response.text[:MOST_ERROR])
    except Exception:  # whatever a server may have written
        found = None
    return plain(found.message) if found else f"HTTP {error.response.status_code}"
