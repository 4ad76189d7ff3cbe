"""Federations of real processes on this machine, set up and run by the commands that the documents name."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import tomllib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomli_w

from fedspd.deploy.server.checkpoint import load
from fedspd.privacy.ledger import Ledger, show, verify
from tests.support.deploy.processes import free_port, kill_marked, spawn, wait_until

FEDSPD = str(Path(sys.executable).parent / "fedspd")
ROOT = Path(__file__).parents[3]


class Live:
    """A server and its sites, each in a process of its own, each ended with the test.

    Args:
        folder: the operator's, as `fedspd deploy init` wrote it.
        homes: the sites' folders.
    """

    def __init__(self, folder: Path, homes: list[Path]) -> None:
        self.folder, self.homes = folder, homes
        self.logs = folder.parent / "logs"
        self.logs.mkdir(exist_ok=True)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = uuid.uuid4().hex

    @property
    def file(self) -> Path:
        """The federation's file."""
        return self.folder / "federation.toml"

    def server(self, *options: str, name: str = "server", file: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a server."""
        return self.start(name, [FEDSPD, "deploy", "server", str(file or self.file), *options])

    def site(self, place: int, file: str = "site.toml") -> subprocess.Popen[bytes]:
        """Start a site."""
        return self.start(f"site-{place}{file}", [FEDSPD, "deploy", "site", str(self.homes[place] / file)])

    def sites(self) -> None:
        """Start all sites."""
        for place in range(len(self.homes)):
            self.site(place)

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a process under a name, which names its log."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        self.processes[name] = spawn(command, f"{self._token}/{name}/", self.logs / f"{name}.log", environment)
        return self.processes[name]

    def kill(self, name: str) -> None:
        """SIGKILL a process and those it started."""
        kill_marked(f"{self._token}/{name}/")
        self.processes[name].wait()

    def ask_to_end(self, name: str) -> int:
        """SIGTERM, as an init system does; its exit code."""
        self.processes[name].send_signal(signal.SIGTERM)
        return self.processes[name].wait(30)

    def log(self, name: str = "server") -> str:
        """What a process has printed so far."""
        path = self.logs / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def await_end(self, seconds: float, name: str = "server") -> int:
        """The exit code of a process that ends by itself."""
        ended = wait_until(lambda: self.processes[name].poll() is not None, seconds)
        assert ended, self.log(name)
        return self.processes[name].returncode

    def await_round(self, round: int, seconds: float = 60, folder: str = "server") -> None:
        """Wait until a round was merged."""
        assert wait_until(lambda: self.round(folder) >= round, seconds), self.log()

    def round(self, folder: str = "server") -> int:
        """The last round that was merged."""
        checkpoint = load(self.folder / folder)
        return -1 if checkpoint is None else checkpoint.round

    def results(self, folder: str = "server") -> dict[str, Any]:
        """What a finished run states."""
        path = self.folder / folder / "run"
        return json.loads((path / "summary.json").read_text()) | {
            "sites": json.loads((path / "sites.json").read_text())
        }

    def charges(self, place: int, run: str | None = None) -> int:
        """How often a site's ledger was charged, by all runs or one."""
        with Ledger(self.homes[place] / "ledger.db") as ledger:
            return sum(charged.times for charged in ledger.charges() if run in (None, charged.run))

    def require_books(self, *folders: str) -> None:
        """The server's count of each site is the ledger's, and no site is beyond its budget."""
        for home in self.homes:
            verify(home / "ledger.db")
            with Ledger(home / "ledger.db") as ledger:
                for stated in show(ledger, None):
                    assert stated.epsilon <= stated.budget.epsilon
                    assert stated.rule is not None
        for folder in folders:
            results = self.results(folder)
            for place, site in enumerate(results["sites"]):
                assert site["charges"] == self.charges(place, results["run"])
                assert site["answered"] <= site["charges"]

    def stop(self) -> None:
        """End every process."""
        kill_marked(self._token)
        for process in self.processes.values():
            process.wait()


def fedspd(*arguments: str, code: int = 0) -> str:
    """What a command prints, which must end with this exit code."""
    done = subprocess.run([FEDSPD, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@contextmanager
def live(folder: Path, sites: int, *options: str, budgets: Mapping[int, float] | None = None) -> Iterator[Live]:
    """Adult between so many sites, set up as the how-to in their archives says.

    Args:
        folder: an empty one.
        sites: how many.
        options: of `fedspd deploy init`.
        budgets: other epsilons than 1, by place.
    """
    adult = folder / "adult"
    fedspd("deploy", "init", str(adult), "--sites", str(sites), "--port", str(free_port()), *options)
    homes = [unpacked(adult / "kits" / f"site-{number}.tar.gz", folder / "sites") for number in range(1, sites + 1)]
    for place, home in enumerate(homes):
        if place in (budgets or {}):
            change(home / "site.toml", {"budget.epsilon": (budgets or {})[place]})
        fedspd("deploy", "join", str(home / "site.toml"))
    made = Live(adult, homes)
    try:
        yield made
    finally:
        made.stop()


def unpacked(archive: Path, folder: Path) -> Path:
    """A site's archive, unpacked."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def change(path: Path, changes: Mapping[str, Any], target: Path | None = None) -> Path:
    """Change settings of a TOML file, by "section.key"."""
    values = tomllib.loads(path.read_text())
    for name, value in changes.items():
        section, _, key = name.partition(".")
        values[section][key] = value
        if name == "run.rounds":
            values[section].pop("rounds_at_most", None)  # nothing is left to the rule
    (target or path).write_text(tomli_w.dumps(values))
    return target or path
