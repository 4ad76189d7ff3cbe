"""The two halves of the Flower app. A site's half says nothing to the server but what `client` decided to say."""

import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedspd.deploy.protocol import wire
from fedspd.deploy.protocol.messages import REQUESTS, Refused
from fedspd.deploy.site.client import Client
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site, read_site
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError

SEE_LOG = "the site could not answer; its log says why."

client_app = ClientApp()
server_app = ServerApp()


@server_app.main()
def _main(grid: Grid, context: Context) -> None:
    from fedspd.deploy.server.run import serve  # sites have no use for it, and start often

    serve(grid, context.run_config)


def respond(message: Message, context: Context) -> Message:
    """Answer one message.

    Guarantees:
        The texts of errors stay at the site, unless they are refusals, which say nothing about records.
    """
    try:
        site = read_site(Path(str(context.node_config["site"])))
        return wire.answer(message, _decided(site, message))
    except Exception as error:  # whatever it is, its text must not travel
        print(f"fedspd: {_harmless(error)}", file=sys.stderr)
        return wire.answer(message, Refused(SEE_LOG, final=False))


def _decided(site: Site, message: Message) -> Any:
    log = _log_of(site)
    try:
        with Store(site.path("store")) as store:
            return Client(site, store, log.info).answer(wire.read_request(message))
    except Refusal as refusal:
        log.warning(f"refused {message.metadata.message_type}: {refusal}")
        return Refused(str(refusal), refusal.final)
    except Exception as error:
        log.error(f"could not answer {message.metadata.message_type}: {_harmless(error)}")
        return Refused(SEE_LOG, final=False)


def _harmless(error: Exception) -> str:
    """Our own errors name files, rows and columns, never values; of others only where they happened is told."""
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"


def _log_of(site: Site) -> logging.Logger:
    log = logging.getLogger(f"fedspd.site:{site.path('log')}")
    if not log.handlers:
        log.setLevel(logging.INFO)
        log.propagate = False
        handler = logging.FileHandler(site.path("log"), encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        log.addHandler(handler)
    return log


for _kind in REQUESTS:
    _category, _action = _kind.split(".")
    getattr(client_app, _category)(_action)(respond)
