"""A server at work: it opens the mail room, leads the run, and hands back what is left of it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple, NoReturn

from fedspd.assemble import Run
from fedspd.deploy.health import Health
from fedspd.deploy.server.checkpoint import Checkpoint, load
from fedspd.deploy.server.link import Link
from fedspd.deploy.server.lock import locked
from fedspd.deploy.server.post import Say
from fedspd.deploy.server.run import RESULTS, Server
from fedspd.deploy.server.settings import RunSettings
from fedspd.errors import InputError
from fedspd.results import Checkpoints, Work, unfinished
from fedspd.results.evaluation import Evaluation


class Finished(NamedTuple):
    """A run that is over."""

    run: Run
    checkpoint: Checkpoint
    evaluation: Evaluation | None = None  # of its model, where records were held out for that


class Interrupted(Exception):  # noqa: N818 (somebody wanted it)
    """The server was told to end; the text says how to go on."""


@contextmanager
def led(settings: RunSettings, say: Say, work: Work) -> Iterator[Finished]:
    """Lead a run to its end; the folder stays locked, and marked as unfinished, while its results are written."""
    os.umask(0o077)
    signal.signal(signal.SIGTERM, _interrupt)
    absent = [seat.name for seat in settings.seats if not seat.key]
    if len(settings.members) < settings.federation.quorum:
        raise InputError(
            f"expected the keys of at least federation.quorum = {settings.federation.quorum} sites, got "
            f"{len(settings.members)}; enter those of {', '.join(absent)} with `fedspd deploy add`."
        )
    if (settings.folder / RESULTS).exists():
        raise InputError(
            f"the run in {settings.folder} is complete, see {settings.folder / RESULTS}; for a new one name another "
            "federation.folder."
        )
    kept = Checkpoints(settings.folder)
    with (
        locked(settings.folder),
        unfinished(settings.folder, work, True, lambda error: kept.exist()),
        Health("server", settings.listen.health_port) as health,
    ):
        try:
            with Link(settings.listen, settings.home, settings.members) as link:
                say(
                    f"listening on {settings.listen.host}:{settings.listen.port}; Ctrl-C stops it, and nothing is lost."
                )
                health.count("sites_connected", lambda: len(link.get_node_ids()))
                server = Server(link, settings, say, health)
                run = server.run()
            yield Finished(run, server.checkpoint, server.evaluation)
        except KeyboardInterrupt:
            raise Interrupted(_how_to_go_on(settings)) from None


def _how_to_go_on(settings: RunSettings) -> str:
    checkpoint = load(settings.folder)
    if checkpoint is None:
        return "stopped before the run began; nothing was spent. The same command starts it."
    return (
        f"stopped after round {checkpoint.round} of {checkpoint.run}. The same command goes on; the sites may stay as "
        "they are, and pay nothing for the pause."
    )


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
