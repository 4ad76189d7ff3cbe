"""A site's connection against a server that answers nonsense: it says no, or tries again, and goes on."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeResponse, PullMessagesResponse, PushMessagesResponse
from flwr.proto.message_pb2 import Message as ProtobufMessage
from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.task_identity import TaskIdentity

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.messages import VERSION, Hello, Refused
from fedspd.deploy.setup.keys import write_certificates, write_private_key
from fedspd.deploy.site.connection import Connection, Ended, Rejected

Answer = tuple[int, dict[str, str], bytes]


def hello() -> tuple[Message, Any, Any]:
    """A message of ours, its head as it travels, and the tree of its parts."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 5, 1, 1
    message = wire.request(7, "query.hello", Hello(VERSION, "nonce"), 60.0, "test")
    with no_object_id_recompute():
        message.metadata.__dict__["_message_id"] = message.object_id
        return message, message_to_proto(remove_content_from_message(message)), get_object_tree(message)


def ok(content: Any) -> Answer:
    return 200, {"content-type": PROTOBUF_MEDIA_TYPE}, content.SerializeToString()


@contextmanager
def served(folder: Path, answers: dict[str, Answer]) -> Iterator[tuple[Connection, list[str]]]:
    """A connection to a server that has these answers, by call, and what the connection says."""
    tls = write_certificates(folder / "keys")
    write_private_key(folder / "site.key")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            code, headers, body = answers.get(self.path.rpartition("/")[2], ok(ActivateNodeResponse(node_id=7)))
            self.send_response(code)
            for name, value in ({"content-length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.server, tls.server_key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    said: list[str] = []
    try:
        identity, address = read_identity(folder / "site.key"), f"127.0.0.1:{server.server_address[1]}"
        with Connection(address, tls.authority, identity, said.append) as connection:
            yield connection, said
    finally:
        server.shutdown()
        server.server_close()


def odd_heads() -> dict[str, Callable[[], PullMessagesResponse]]:
    _, head, tree = hello()
    empty, other = ProtobufMessage(), ProtobufMessage()
    other.CopyFrom(head)
    other.metadata.message_type = ""
    error = ProtobufMessage()
    error.error.code = 99
    return {
        "no tree": lambda: PullMessagesResponse(messages_list=[head]),
        "an empty message": lambda: PullMessagesResponse(messages_list=[empty], message_object_trees=[tree]),
        "no type": lambda: PullMessagesResponse(messages_list=[other], message_object_trees=[tree]),
        "an error without a head": lambda: PullMessagesResponse(messages_list=[error], message_object_trees=[tree]),
    }


@pytest.mark.parametrize("what", list(odd_heads()))
def test_a_message_that_is_none_is_rejected(what: str, tmp_path: Path) -> None:
    with served(tmp_path, {"pull-messages": ok(odd_heads()[what]())}) as (connection, _), pytest.raises(Rejected):
        connection.receive()


def test_parts_that_a_server_asks_for_and_a_reply_does_not_have_are_not_sent(tmp_path: Path) -> None:
    wanted = PushMessagesResponse(objects_to_push=["foo", "../../etc/passwd"], session_id="1")
    with served(tmp_path, {"push-messages": ok(wanted)}) as (connection, _):
        message, _, _ = hello()
        connection.reply(wire.answer(message, Refused("no", final=True)))


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"code":1,"detail":"\\u001b[2J\\n05:00:00 run x: played, charge 1 of 9 planned"}', b"\xff"],
)
def test_a_refusal_of_any_shape_is_one_printable_line(body: bytes, tmp_path: Path) -> None:
    answers = {"pull-messages": (403, {"content-type": "application/json"}, body)}
    with served(tmp_path, answers) as (connection, said), pytest.raises(Rejected) as caught:
        connection.receive()
    assert all(line.isprintable() and len(line) < 1000 for line in [*said, str(caught.value)])


def until_ended(connection: Connection) -> None:
    """Wait for a message that never comes."""
    with suppress(Ended):
        connection.receive()


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"content-encoding": "gzip", "content-type": PROTOBUF_MEDIA_TYPE}, b"no gzip"),
        (200, {"content-type": PROTOBUF_MEDIA_TYPE}, b"\xff" * 100),
        (403, {"content-type": "application/json"}, b'{"code":1,"detail":"\\n\\u001b[31mforged"}'),
    ],
)
def test_a_server_that_lets_nobody_in_is_tried_again(answer: Answer, tmp_path: Path) -> None:
    with served(tmp_path, {"activate-node": answer}) as (connection, said):
        thread = threading.Thread(target=until_ended, args=(connection,), daemon=True)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive(), "it goes on trying"
        assert said
        assert all(line.isprintable() for line in said)
