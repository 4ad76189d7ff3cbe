"""A site at work: it answers the server's messages, one after the other, for as long as it runs."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from flwr.app import Message

from fedspd.deploy.health import Health
from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.protocol.messages import REQUESTS, Closed, Refused
from fedspd.deploy.protocol.text import plain
from fedspd.deploy.site.connection import Connection, Ended, Rejected, refusing
from fedspd.deploy.site.respond import Response, log_of
from fedspd.deploy.site.settings import read_site
from fedspd.deploy.site.worker import Worker
from fedspd.errors import InputError
from fedspd.privacy.ledger import Ledger

FOREIGN = "this site answers messages of fedspd only, and runs no code that a server sends."


def serve_site(path: Path, say: Callable[[str], None]) -> None:
    """Connect, and answer until the process is told to end.

    Guarantees:
        A message is data: nothing that a server sends is ever run, installed or imported.
        This process reads no record; the worker that does has no connection.
    """
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _interrupt)
    site = read_site(path)
    if site.server is None:
        raise InputError(f"{path} must have a [server] with its address, got none; add it.")
    identity, log = read_identity(site.path("key")), log_of(site, begins_anew=False)

    def tell(line: str) -> None:
        log.info(line)
        say(f"{time.strftime('%H:%M:%S')} {line}")

    with (
        Health("site", site.limits.health_port) as health,
        Worker(path.resolve(), site.limits, log.error) as worker,
        Connection(site.server.address, site.folder / site.server.authority, identity, tell) as connection,
    ):
        health.watch(connection.connected.is_set)
        say(f"{site.name}: key {identity.public.fingerprint}, server {site.server.address}. End it with Ctrl-C.")
        try:
            while True:
                if _next(connection, worker, health, say, log.warning):
                    copy_head(path, tell)
        except Ended:
            pass
        except KeyboardInterrupt:
            say("ended; the site's store and ledger are as they should be, start it again at any time.")


def _next(
    connection: Connection, worker: Worker, health: Health, say: Callable[[str], None], warn: Callable[[str], None]
) -> bool:
    """Wait for a message and answer it; what the worker never sees is logged here. Whether that closed a run."""
    try:
        message = connection.receive()
        if message is None:
            return False
        begin = time.monotonic()
        reply, response = answer_to(message, worker.answer)
        if response.content is None:
            warn(response.line)
        connection.reply(reply)
    except Rejected as error:
        say(f"{time.strftime('%H:%M:%S')} not delivered, the server did not take it: {error}")
        return False
    seconds = time.monotonic() - begin
    health.handled(_outcome(response), seconds)
    say(f"{time.strftime('%H:%M:%S')} {response.line} ({seconds:.2f} s)")
    return isinstance(response.content, Closed)


def copy_head(path: Path, tell: Callable[[str], None]) -> None:
    """After a run: the ledger's head to where the owner wants a copy. A copy that fails is told, and ends nothing."""
    try:
        site = read_site(path)
        if site.budget is None or not site.second_place:
            return
        with Ledger(site.path("ledger")) as ledger:
            site.second_place.send(ledger)
        tell("the ledger's head was copied to its second place")
    except InputError as error:
        tell(str(error))


def answer_to(message: Message, answer: Callable[[str, Any], Response]) -> tuple[Message, Response]:
    """The reply to a message, and what to tell the people at the site; what is not of fedspd gets an error."""
    kind = message.metadata.message_type
    try:
        request = wire.read_request(message) if kind in REQUESTS and message.has_content() else None
    except InputError:
        request = None
    if request is None:
        return refusing(message, FOREIGN), Response(
            None, f"refused a message that is not of fedspd: {plain(kind, 60)!r}"
        )
    response = answer(kind, request)
    return wire.answer(message, response.content), response


def _outcome(response: Response) -> str:
    if response.content is None or isinstance(response.content, Refused):
        return "failed" if response.line.startswith("could not") else "refused"
    return "answered"


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
