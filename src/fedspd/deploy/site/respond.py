"""One message at a site: whatever happens, the answer says nothing but what `client` decided to say."""

import logging
import os
import sys
import traceback
from logging.handlers import RotatingFileHandler, WatchedFileHandler
from pathlib import Path
from typing import Any, NamedTuple

from fedspd.deploy.protocol.messages import Refused
from fedspd.deploy.protocol.text import plain
from fedspd.deploy.site.client import HERE, Client
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.policy import Refusal
from fedspd.deploy.site.settings import Site, read_site
from fedspd.deploy.site.spending import Session
from fedspd.deploy.site.store import Store
from fedspd.errors import InputError

SEE_LOG = "the site could not answer; its log says why."
OLD_LOGS = 5


class Response(NamedTuple):
    """An answer, and a line about it for the people at the site."""

    content: Any
    line: str


def respond(path: Path, kind: str, request: Any, records: Records, session: Session | None = None) -> Response:
    """Answer one request.

    Guarantees:
        The texts of errors stay at the site, unless they are refusals, which say nothing about records.
    """
    try:
        return _decided(read_site(path), kind, request, records, session or HERE)
    except Exception as error:  # whatever it is, its text must not travel
        return Response(Refused(SEE_LOG, final=False), f"could not answer {kind}: {_harmless(error)}")


def _decided(site: Site, kind: str, request: Any, records: Records, session: Session) -> Response:
    log, said = log_of(site), list[str]()
    try:
        with Store(site.path("store")) as store:
            content = Client(site, store, said.append, records, session).answer(request)
        session.pass_on(content)
        for line in said:
            log.info(plain(line))
        return Response(content, said[-1] if said else kind)
    except Refusal as refusal:
        log.warning(line := plain(f"refused {kind}: {refusal}"))
        return Response(Refused(plain(str(refusal)), refusal.final), line)
    except Exception as error:
        log.error(line := plain(f"could not answer {kind}: {_harmless(error)}"))
        return Response(Refused(SEE_LOG, final=False), line)


def _harmless(error: Exception) -> str:
    """Our own errors name files, rows and columns, never values; of others only where they happened is told."""
    if isinstance(error, InputError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"


def log_of(site: Site, begins_anew: bool = True) -> logging.Logger:
    """The site's log, which begins anew when it is long.

    Args:
        site: whose.
        begins_anew: of the processes that write to it only one may move it away; the others follow.
    """
    log = logging.getLogger(f"fedspd.site:{site.path('log')}")
    if not log.handlers:
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(_handler(site, begins_anew))
    return log


class _OwnersLog(RotatingFileHandler):
    """A log that is readable by its owner alone, also after it began anew."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=_owner_only)


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _handler(site: Site, begins_anew: bool) -> logging.Handler:
    path = site.path("log")
    try:
        path.touch(mode=0o600)
        handler: logging.Handler = (
            _OwnersLog(path, maxBytes=site.limits.log_mb * 2**20, backupCount=OLD_LOGS, encoding="utf-8")
            if begins_anew
            else WatchedFileHandler(path, encoding="utf-8")
        )
    except OSError as error:  # a log that cannot be written must not stop a site, nor hide what happens
        handler = logging.StreamHandler(sys.stderr)
        print(f"fedspd: the log {path} cannot be written: {error.strerror}", file=sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    return handler
