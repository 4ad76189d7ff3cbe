"""The door of the mail room: what can be reached, and what must be right before it opens."""

import socket
import ssl
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fedspd.deploy.server.settings import Listen
from fedspd.errors import InputError

CALLS = frozenset(
    f"/v1/fleet/{call}"
    for call in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "pull-object",
        "push-object", "confirm-message-received",
    )
)  # fmt: skip
"""What a site may call. Not `get-fab` and `get-run`, which are for code, nor what registers and unregisters."""
MOST_BYTES = 64 * 2**20  # of a call


class OnlyFleet:
    """Everything but the calls of a site ends here, before anything of Flower's sees it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, or answer that it is not here."""
        answer = _refusal(scope) if scope["type"] == "http" else PlainTextResponse("not here", 404)
        await (self.app(scope, receive, send) if answer is None else answer(scope, receive, send))


def _refusal(scope: Scope) -> PlainTextResponse | None:
    if scope["path"] not in CALLS or scope["method"] != "POST":
        return PlainTextResponse("not here", 404)
    length = dict(scope["headers"]).get(b"content-length", b"")
    if not length.isdigit():
        return PlainTextResponse("a call must say how long it is", 411)
    return PlainTextResponse("too long", 413) if int(length) > MOST_BYTES else None


def require_certificate(certificate: Path, key: Path) -> None:
    """Refuse a certificate and a key that are not there, or do not belong together."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"expected the server's certificate {certificate} with its key {key}, got '{error.strerror or error}'; "
            "`fedspd deploy init` and `fedspd deploy renew` make them."
        ) from None


def require_free(listen: Listen) -> None:
    """Say who may be in the way, before uvicorn ends the process."""
    try:
        family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listen.host, listen.port))
    except OSError as error:
        raise InputError(
            f"expected a free port for the sites, got {listen.host}:{listen.port} ({error.strerror}); another server "
            "may be running: `fedspd deploy stop`, or name another listen.port."
        ) from None
