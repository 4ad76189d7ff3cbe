"""Commands in processes that are killed, and what their folders hold but for times."""

import csv
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from fedspd.privacy.ledger import Ledger

TIMES = {"wall_seconds", "seconds", "seconds s.e."}
WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["tests.support.warm"])


def call(folder: Path, arguments: Sequence[str]) -> ForkServerProcess:
    """A command at work in a folder, in a process of its own that has imported everything already."""
    process = WARM.Process(target=_command, args=(str(folder), list(arguments)))
    process.start()
    return process


def _command(folder: str, arguments: list[str]) -> None:
    from fedspd.cli import main

    os.setpgid(0, 0)
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
    with open("said", "a") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = ["fedspd", *arguments]
    main()


@dataclass
class Killer:
    """Kills a command at random moments of its life, over and over, until it is done.

    Half of them lie in the first quarter, where it charges and plays rounds; most of a small run's life is its picture.
    """

    rng: random.Random
    life: float  # seconds that the command takes
    kills: int = 0

    def finish(self, folder: Path, begin: Sequence[str], out: str, most: int) -> None:
        """Call a command, kill it, resume it, kill that; at most so many times, and in the end let it be done."""
        for left in range(most, -1, -1):
            resumes = (folder / out / "unfinished.json").exists()
            if (folder / out).exists() and not resumes:
                return  # killed when all was done
            process = call(folder, ["resume", out] if resumes else [*begin, "--out", out])
            if left:
                process.join(1.1 * self.life * self.rng.random() ** 2)
            else:
                process.join()
            if process.exitcode is None:
                os.kill(process.pid or 0, signal.SIGKILL)
                process.join()
                self.kills += 1
            elif process.exitcode == 0:
                return
            else:
                raise AssertionError((folder / "said").read_text()[-2000:])
        raise AssertionError("it never ended")


def timed(folder: Path, arguments: Sequence[str]) -> float:
    """Let a command be done; how long that took."""
    begin = time.monotonic()
    process = call(folder, arguments)
    process.join()
    assert process.exitcode == 0, (folder / "said").read_text()[-2000:]
    return time.monotonic() - begin


def run_files(folder: Path) -> dict[str, Any]:
    """What a run folder holds, but for times, and the head of the ledger, which is hashed with those of its rows."""
    apart = {"ledger.sqlite", "summary.json", "statement.json"}
    found: dict[str, Any] = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in apart}
    for name in ("summary.json", "statement.json"):
        found[name] = json.loads((folder / name).read_text())
    if found["statement.json"]["ledger"] is not None:
        del found["statement.json"]["ledger"]["head"]
    del found["statement.json"]["run"]["finished"]
    for key in TIMES & found["summary.json"].keys():
        del found["summary.json"][key]
    return found


def table_rows(table: Path) -> list[dict[str, str]]:
    """The rows of a CSV, but for times."""
    with table.open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]


def charges(path: Path) -> list[tuple[Any, ...]]:
    """What a ledger was charged, row by row."""
    with Ledger(path) as ledger:
        return [
            (charge.client, charge.run, charge.round, charge.mechanism, repr(charge.event))
            for charge in ledger.charges_after(0)
        ]
