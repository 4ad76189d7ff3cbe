"""Processes that charge and release until they are killed, and a check of what they leave behind."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal

from fedspd.privacy.accounting import Event, Gaussian, participations_that_fit
from fedspd.privacy.ledger import Budget, Ledger, verify
from tests.support.ledger.fresh import new_ledger

Order = Literal["charge, then release", "look, release, then charge", "release, then charge"]

EVENT = Gaussian(75.0)
BUDGETS = {f"client-{i}": Budget(1.0 if i % 2 else 0.2, 1e-5) for i in range(12)}
FITS = {c: participations_that_fit(EVENT, {}, b.epsilon, b.delta) for c, b in BUDGETS.items()}
ROUNDS = 2000
ROOT = Path(__file__).parents[3]


def prepare(path: Path) -> None:
    """A ledger whose clients plan as much of the event as fits."""
    with new_ledger(path) as ledger:
        ledger.enter(BUDGETS, {client: {EVENT: 10_000} for client in BUDGETS})


def work(path: Path, releases: Path, order: Order, seed: int, ready: Callable[[], None]) -> None:
    """Charge random clients in random rounds for ever, and mark each release in a file."""
    rng = random.Random(seed)
    marks = os.open(releases, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    ledger = Ledger(path)
    ready()
    while True:
        number = rng.randrange(ROUNDS)
        events: dict[str, Event] = dict.fromkeys(rng.sample(list(BUDGETS), 4), EVENT)
        if order == "charge, then release":
            release(marks, number, ledger.charge("run", number, "uploads", events).granted)
        else:
            release(marks, number, ledger.affordable(events) if order.startswith("look") else events)
            ledger.charge("run", number, "uploads", events)


def release(marks: int, number: int, clients: Iterable[str]) -> None:
    """One line per release, all in one write."""
    os.write(marks, "".join(f"{client} {number}\n" for client in clients).encode())


def fork(task: Callable[[], None]) -> int:
    """The process id of a child that runs `task` and then exits with 0, or with 1 if it raises."""
    with warnings.catch_warnings():
        # Later Pythons warn of threads, which numerical libraries keep in the parent; the child uses none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    try:
        task()
        os._exit(0)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(1)


def kill_workers(path: Path, releases: Path, order: Order, kills: int, seed: int) -> None:
    """Start pairs of workers and kill them at random moments, some while they still open the ledger.

    A process of its own forks them: a fork of one that holds gigabytes takes a tenth of a second.
    """
    program = (
        f"from {__name__} import fork_and_kill; fork_and_kill(*{(str(path), str(releases), order, kills, seed)!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def fork_and_kill(path: str, releases: str, order: Order, kills: int, seed: int) -> None:
    """See `kill_workers`."""
    rng = random.Random(seed)
    for _ in range(kills // 2):
        listen, tell = os.pipe()
        seeds = rng.getrandbits(32), rng.getrandbits(32)
        children = [
            fork(partial(work, Path(path), Path(releases), order, seed, partial(os.close, tell))) for seed in seeds
        ]
        os.close(tell)
        if rng.random() < 0.75:
            os.read(listen, 1)  # ends when both have closed it
        os.close(listen)
        for child in children:
            time.sleep(rng.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "a worker failed by itself"
            assert os.WTERMSIG(status) == signal.SIGKILL


def violations(path: Path, releases: Path) -> list[str]:
    """What must never happen, found in the ledger and the marks of releases."""
    verify(path)
    connection = sqlite3.connect(path)
    rows = Counter((client, number) for client, number in connection.execute("SELECT client, round FROM charges"))
    connection.close()
    lines = releases.read_text().splitlines(keepends=True) if releases.exists() else []
    marks = Counter((line.split()[0], int(line.split()[1])) for line in lines if line.endswith("\n"))
    found = [f"released without a row: {mark}" for mark in marks if mark not in rows]
    found += [f"released twice: {mark}" for mark, times in marks.items() if times > 1]
    found += [f"charged twice: {row}" for row, times in rows.items() if times > 1]
    for kind, keys in (("released", marks), ("charged", rows)):
        counts = Counter(client for client, _ in keys.elements())
        found += [f"{kind} beyond the budget: {c} {n} times" for c, n in counts.items() if n > FITS[c]]
    return found
