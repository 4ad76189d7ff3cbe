"""The mail room: Flower's SuperLink, reduced to what sites need, in the server's own process.

Flower's SuperLink has three doors on one port. Through the Control API anybody starts and stops runs and unregisters
nodes; through the Runtime API apps fetch their tasks; through the Fleet API nodes fetch messages. Here the first two do
not exist: the run is led by this process, and the port has eight calls of the Fleet API and nothing else. No call hands
out or takes in code.
"""

import asyncio
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SubStatus
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID, TaskType
from flwr.supercore.error import http_error_translator
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import get_federation_manager, get_objectstore_linkstate_factories
from flwr.superlink.routers.fleet.node_auth import authenticate_node
from flwr.superlink.routers.fleet.router import router
from google.protobuf.message import Message as ProtobufMessage
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.responses import Response

from fedspd.deploy.protocol.identity import Members
from fedspd.deploy.server.door import OnlyFleet, require_certificate, require_free
from fedspd.deploy.server.settings import Listen
from fedspd.errors import InputError

HOLD_SECONDS = 10.0  # a site's call for messages is answered when there is one, or after this time
MOST_OBJECTS = 8  # of a message; ours have three
RUN_HEARTBEAT_SECONDS = 10.0
START_SECONDS = 30.0
GOODBYE_SECONDS = 0.5
BATCH = 50  # messages that are handed over at once: the next sites get theirs while these answer


class Link:
    """The mail room, open on entry and closed on exit.

    Guarantees:
        Only sites of `members` get in, each by its own key, and each answers for itself alone.

    Args:
        listen: where.
        home: what the files of `listen` are relative to.
        members: who.
    """

    def __init__(self, listen: Listen, home: Path, members: Members) -> None:
        self.listen, self.home = listen, home
        database = str(home / listen.database) if listen.database else FLWR_IN_MEMORY_DB_NAME
        _, factory = get_objectstore_linkstate_factories(database, get_federation_manager(is_simulation=False))
        self._state = factory.state()
        self.names = {self._registered(key.raw): name for name, key in members.items()}
        for node in self.names:  # a database may still call those connected that were so when this process last ended
            self._state.deactivate_node(node)
        self._mail: dict[int, asyncio.Semaphore] = {}
        self._arriving: list[Message] = []  # heads of answers, whose content is still under way
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server = uvicorn.Server(self._configured(factory))
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, daemon=True, name="fleet"),
            threading.Thread(target=self._beat, daemon=True, name="run heartbeats"),
        ]

    def __enter__(self) -> Self:
        require_certificate(self.home / self.listen.certificate, self.home / self.listen.key)
        require_free(self.listen)
        self._begin_run()
        for thread in self._threads:
            thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._threads[0].is_alive() or time.monotonic() > end:
                raise InputError(
                    f"expected to listen on {self.listen.host}:{self.listen.port}, got no start; check it."
                )
            time.sleep(0.02)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.finish_task(self._task, SubStatus.COMPLETED, "")
        self._ended.set()
        self._wake([node for node in self.names for _ in range(2)])  # who waits for messages hears that there are none
        self._server.should_exit = True
        time.sleep(GOODBYE_SECONDS)
        self._server.force_exit = True  # connections that sites keep open for the next run
        for thread in self._threads:
            thread.join()

    def get_node_ids(self) -> set[int]:
        """Nodes that are connected."""
        return set(self._state.get_nodes(self._run))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Hand messages over, and wake the sites they are for; no number for a site that is not connected."""
        messages, numbers = list(messages), list[str]()
        for start in range(0, len(messages), BATCH):
            batch = messages[start : start + BATCH]
            numbers += [self._store(message) for message in batch]
            self._wake([message.metadata.dst_node_id for message in batch])
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Answers that have arrived; one whose content is still under way is left for the next call."""
        known = {message.metadata.reply_to_message_id for message in self._arriving}
        found = self._state.get_message_res(message_ids=set(message_ids) - known, run_id=self._run)
        self._state.delete_messages(message_ins_ids={message.metadata.reply_to_message_id for message in found})
        self._arriving += found
        whole = [(message, self._inflated(message)) for message in self._arriving]
        self._arriving = [message for message, content in whole if content is None and not _expired(message)]
        return [content for _, content in whole if content is not None]

    def _store(self, message: Message) -> str:
        with no_object_id_recompute():
            number = message.metadata.__dict__["_message_id"] = message.object_id
            contents, tree = get_all_nested_objects(message), get_object_tree(message)
            session = self._state.start_session(self._run)
            head = remove_content_from_message(message)
            stored, missing = self._state.store_message_and_object_tree(head, tree, session)
            if not stored:
                return ""  # the site is not connected
            for identity in missing:
                self._state.store_object(self._run, session, identity, contents[identity].deflate())
        return number

    def _inflated(self, message: Message) -> Message | None:
        """A message with its content, if all of it is there."""
        number, store = message.metadata.message_id, self._state.object_store
        if message.has_error():
            return message
        try:
            identities = [tree.object_id for tree in iterate_object_tree(store.get_object_tree(number))]
            contents = {identity: store.get(identity) for identity in identities}
            if len(identities) > MOST_OBJECTS or not all(contents.values()):
                return None
            whole = inflate_object_from_contents(number, {key: value or b"" for key, value in contents.items()})
        except Exception:  # whatever a site may have sent: it is as if nothing had come
            return None
        store.delete(number)
        if not isinstance(whole, Message):
            return None
        # Who sent it and what it answers was checked in its head; what it says of that itself was not.
        for name in ("_src_node_id", "_reply_to_message_id", "_message_type"):
            whole.metadata.__dict__[name] = message.metadata.__dict__[name]
        whole.metadata.__dict__["_message_id"] = number
        return whole

    def _node(self, key: bytes) -> int | None:
        return self._state.get_node_id_by_public_key(key)

    def _registered(self, key: bytes) -> int:
        found = self._node(key)
        return self._state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, 0) if found is None else found

    def _begin_run(self) -> None:
        """A run of Flower's, led by this process: no package belongs to it."""
        state = self._state
        number = state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )  # fmt: skip
        (run,) = state.get_run_info(run_ids=[number])
        task = run.primary_task_id
        if task is None or state.claim_task(task) is None or not state.activate_task(task):
            raise RuntimeError("Flower did not start the run")
        self._run, self._task = number, task
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = number, 1, task

    def _configured(self, factory: Any) -> uvicorn.Config:
        app = FastAPI(
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            middleware=[
                Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
                Middleware(ProtobufTranslationMiddleware),
                Middleware(BaseHTTPMiddleware, dispatch=self._admit),
            ],
        )
        app.state.linkstate_factory, app.state.enable_supernode_auth = factory, True
        app.include_router(router)
        return uvicorn.Config(
            OnlyFleet(app), host=self.listen.host, port=self.listen.port, log_level="warning", access_log=False,
            ssl_certfile=self.home / self.listen.certificate, ssl_keyfile=self.home / self.listen.key,
            timeout_keep_alive=60, lifespan="off",
        )  # fmt: skip

    async def _admit(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Let a registered site in, in its own name; hold its call for messages until there is one."""
        asked = getattr(request.state, "protobuf_request", None)
        if not isinstance(asked, ProtobufMessage):
            raise HTTPException(400, "expected a call of Flower's Fleet API")
        await run_in_threadpool(authenticate_node, request)
        if isinstance(asked, ActivateNodeRequest) and self._node(asked.public_key) not in self.names:
            raise HTTPException(401, "this key is not in federation.toml")  # any more: a database may still know it
        if isinstance(asked, PushMessagesRequest):
            senders = {message.metadata.src_node_id for message in asked.messages_list}
            if senders != {asked.node.node_id}:
                raise HTTPException(403, "a site answers for itself alone")
            if any(_objects(tree) > MOST_OBJECTS for tree in asked.message_object_trees):
                raise HTTPException(413, "an answer has few parts")
        if isinstance(asked, PullMessagesRequest):
            await self._until_mail(asked.node.node_id)
        return await call_next(request)

    async def _until_mail(self, node: int) -> None:
        if not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._mail.setdefault(node, asyncio.Semaphore(0)).acquire(), HOLD_SECONDS)

    def _wake(self, nodes: Iterable[int]) -> None:
        def release() -> None:
            for node in nodes:
                self._mail.setdefault(node, asyncio.Semaphore(0)).release()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(release)

    def _listen(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve()

        with suppress(SystemExit):  # uvicorn's word for an address that it cannot use
            asyncio.run(serve())

    def _beat(self) -> None:
        """Else Flower takes the run for dead."""
        while not self._ended.wait(RUN_HEARTBEAT_SECONDS):
            self._state.acknowledge_task_heartbeat(self._task)


def _objects(tree: ObjectTree) -> int:
    """How many parts a message has, counted no further than matters."""
    return sum(1 for _ in islice(iterate_object_tree(tree), MOST_OBJECTS + 1))


def _expired(message: Message) -> bool:
    return message.metadata.created_at + message.metadata.ttl < time.time()
