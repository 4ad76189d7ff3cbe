"""The process beside the records: it stays warm from message to message, and is ended where it takes too much.

It has no connection to anybody but the process that started it, and holds the records in memory. What it is asked, and
what it answers, passes through a pipe.
"""

import logging
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedspd.deploy.protocol.messages import Refused
from fedspd.deploy.site.respond import SEE_LOG, Response, respond
from fedspd.deploy.site.settings import Limits
from fedspd.deploy.site.spending import Session
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
        self.session = Session()
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except InputError:
            self._end()
            raise
        except (EOFError, OSError):
            self._end()
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
            self._pipe.send((kind, request, self.session))
            if self._pipe.poll(self.limits.seconds):
                response = self._pipe.recv()
                self.session.pass_on(response.content)  # before it may leave
                return response
            why = f"it took longer than limits.seconds = {self.limits.seconds:g}"
        except InputError as error:
            why = str(error)
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
        # Ctrl-C reaches the whole group, and this process ends the other. What is blocked here is blocked there from
        # the first moment on, until it ignores it.
        resource_tracker.ensure_running()  # its start, else within ours, would unblock it
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        if not ours.poll(START_SECONDS):
            raise EOFError
        told = ours.recv()
        if told != READY:
            raise InputError(told)

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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    from fedspd.deploy.site.computing.records import Records

    os.umask(0o077)
    logging.raiseExceptions = False  # a log that cannot be written hides nothing: lines are told to the starter too
    try:
        _limit(memory_mb * 2**20)
    except (ValueError, OSError) as error:
        pipe.send(f"expected to keep to limits.memory_mb = {memory_mb}, got '{error}'; change it.")
        return
    records = Records()
    pipe.send(READY)
    while True:
        try:
            kind, request, session = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(respond(path, kind, request, records, session))


def _limit(most: int) -> None:
    """Take no more memory than this, or than the machine's own limit where that is less."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
