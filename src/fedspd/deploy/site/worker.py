"""The process beside the records: it stays warm from message to message, and is ended where it takes too much.

It has no connection to anybody but the process that started it, and holds the records in memory. What it is asked, and
what it answers, passes through a pipe.
"""

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedspd.deploy.protocol.messages import Refused
from fedspd.deploy.site.respond import SEE_LOG, Response, respond
from fedspd.deploy.site.settings import Limits
from fedspd.errors import InputError

START_SECONDS = 60.0
READY = "ready"


class Worker:
    """A warm worker, started again whenever it is gone.

    Args:
        path: the site's file.
        limits: on time and memory.
        log: says why a worker was ended.
    """

    def __init__(self, path: Path, limits: Limits, log: Callable[[str], None]) -> None:
        self.path, self.limits, self.log = path, limits, log
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except (EOFError, OSError):
            raise InputError(
                f"expected the process that reads the records to start within limits.memory_mb = "
                f"{self.limits.memory_mb}, got none; raise it."
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def answer(self, kind: str, request: Any) -> Response:
        """The worker's answer; where it takes too long or dies, that it could not answer."""
        try:
            if self._process is None or not self._process.is_alive():
                self._start()
            self._pipe.send((kind, request))
            if self._pipe.poll(self.limits.seconds):
                return self._pipe.recv()
            why = f"it took longer than limits.seconds = {self.limits.seconds:g}"
        except (EOFError, OSError):
            why = f"its process ended; limits.memory_mb = {self.limits.memory_mb} may be too little"
        self._end()
        line = f"could not answer {kind}: {why}"
        self.log(line)
        return Response(Refused(SEE_LOG, final=False), line)

    def _start(self) -> None:
        self._end()
        fresh = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        ours, theirs = fresh.Pipe()
        self._pipe = ours
        self._process = fresh.Process(
            target=_work, args=(theirs, self.path, self.limits.memory_mb), name="fedspd-site", daemon=True
        )
        self._process.start()
        theirs.close()
        if not ours.poll(START_SECONDS) or ours.recv() != READY:
            raise EOFError

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


def _work(pipe: Connection, path: Path, memory_mb: int) -> None:
    """Answer until the other end of the pipe is closed."""
    from fedspd.deploy.site.records import Records

    os.umask(0o077)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the starter ends this process
    most = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    records = Records()
    pipe.send(READY)
    while True:
        try:
            kind, request = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(respond(path, kind, request, records))
