"""Jobs on all cores, each process with one thread."""

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.defaults.play import Job, play_job
from benchmarks.defaults.rows import Row
from fedspd.assemble.many import end_with_parent
from fedspd.engine.parallel import stay_on_one_core


def play_all(
    jobs: Sequence[Job], settings: Mapping[str, Any], program: str, minutes: float | None = None
) -> Iterator[list[Row]]:
    """The rows of every job, as they come.

    Args:
        jobs: the longest first.
        settings: beside the preset.
        program: digest of what plays them.
        minutes: after which no job is begun; those at work are waited for.
    """
    deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    waiting, running = list(reversed(jobs)), set[Future[list[Row]]]()
    workers, context = min(len(jobs), os.cpu_count() or 1), multiprocessing.get_context("spawn")
    if not jobs:
        return
    with ProcessPoolExecutor(workers, context, _begin) as pool:
        while running or (waiting and time.monotonic() < deadline):
            while waiting and len(running) < workers and time.monotonic() < deadline:
                running.add(pool.submit(play_job, waiting.pop(), settings, program))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for job in done:
                yield job.result()


def _begin() -> None:
    """One thread a process: more would only get in each other's way."""
    end_with_parent()
    threadpool_limits(limits=1)
    stay_on_one_core()
