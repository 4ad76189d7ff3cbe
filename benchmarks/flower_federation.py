"""A Flower federation on this machine: a SuperLink and SuperNodes as processes of their own, over TLS on loopback.

For the demo, tests and benchmarks: every node is authenticated by its own key, as in a deployment, and every process
can be killed and started again.
"""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomli_w

from fedspd.deploy.processes import free_port, kill_marked, listens, marked, spawn, wait_until
from fedspd.deploy.setup.keys import NodeKey, write_certificates, write_node_key

PROGRAMS = Path(sys.executable).parent
NAME = "local"  # of the connection in Flower's configuration file
START_SECONDS = 120.0
HEARTBEAT_SECONDS = 30  # Flower's own
RETRY_SECONDS = 2.0
NODE_ID = re.compile(r"SuperNode ID: (\d+)")
STILL_ONLINE = "Failed to activate SuperNode"
# Flower has no option for it, so every process sets it before Flower reads it.
SET_HEARTBEAT = """from flwr.common import constant
constant.HEARTBEAT_DEFAULT_INTERVAL = {}
"""
COMMON = {
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Node:
    """What a SuperNode is started with: its `--node-config`, and what its environment has beyond the common one."""

    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def site_node(home: Path, **environment: str) -> Node:
    """The SuperNode of a site's folder, with the site's own `flwr-clientapp` first on its path."""
    path = os.pathsep.join([str(home / "bin"), str(PROGRAMS), os.environ.get("PATH", os.defpath)])
    return Node({"site": str(home / "site.toml")}, {"PATH": path, **environment})


class FederationError(RuntimeError):
    """A process of the federation did not do what it was started for; the text ends with its last words."""


class Federation:
    """A SuperLink with its SuperNodes, started on entry and gone on exit, whatever happens between.

    Args:
        folder: a new folder for keys, logs, Flower's homes and the database.
        app_dir: the Flower app that `run` runs.
        database: keep the SuperLink's state in a file, so that it outlives the process.
        ports: of the SuperLink, and the one its nodes are told (another if something counts the bytes between).
        heartbeat_seconds: 10 to 1800. Who is silent for two of them is taken for gone (a node, a run, an answer that
            is being computed), and an answer whose process is not up after one is begun anew.
    """

    def __init__(
        self,
        folder: Path,
        app_dir: Path,
        nodes: Sequence[Node],
        database: bool = False,
        ports: tuple[int, int] | None = None,
        heartbeat_seconds: int = HEARTBEAT_SECONDS,
    ) -> None:
        self.folder, self.app_dir, self.nodes, self.database = folder.resolve(), app_dir.resolve(), nodes, database
        self.port, self.fleet_port = ports or (free_port(),) * 2
        self.heartbeat_seconds = heartbeat_seconds
        self.node_ids: dict[int, int] = {}
        self._token = uuid.uuid4().hex
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: dict[str, int] = {}  # where in its log a process began

    def __enter__(self) -> Self:
        self.certificates = write_certificates(self.folder / "keys")
        connection = {"address": f"127.0.0.1:{self.port}", "root-certificates": str(self.certificates.authority)}
        for part in ("logs", "operator", "python"):
            (self.folder / part).mkdir()
        if self.heartbeat_seconds != HEARTBEAT_SECONDS:
            (self.folder / "python" / "sitecustomize.py").write_text(SET_HEARTBEAT.format(self.heartbeat_seconds))
        configuration = tomli_w.dumps({"superlink": {"default": NAME, NAME: connection}})
        (self.folder / "operator" / "config.toml").write_text(configuration)
        indices = range(len(self.nodes))
        self.keys = [write_node_key(self.folder / "keys", f"node-{i}") for i in indices]
        try:
            self.start_superlink()
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(self.register, self.keys))
            for i in indices:
                self._spawn_node(i)
            for i in indices:
                self._await_node(i, START_SECONDS)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process of the federation at once; a database stays as usable as after a power failure."""
        kill_marked(self._token)
        for process in self._processes.values():
            process.wait()

    def start_superlink(self) -> None:
        """Start the SuperLink, on the same port and database as before, and wait until it accepts connections."""
        tls = self.certificates
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--disable-runtime-dependency-installation", "--enable-supernode-auth"]
        command += ["--ssl-ca-certfile", str(tls.authority), "--ssl-certfile", str(tls.server)]
        command += ["--ssl-keyfile", str(tls.server_key)]
        if self.database:
            command += ["--database", str(self.folder / "superlink.sqlite")]
        self.spawn("superlink", command)
        ready = wait_until(lambda: listens(self.port) or self._ended("superlink"), START_SECONDS)
        if not ready or self._ended("superlink"):
            raise FederationError(f"the SuperLink did not start; {self._last_words('superlink')}")

    def kill_superlink(self) -> None:
        """SIGKILL the SuperLink and what it started."""
        self._kill("superlink")

    def register(self, key: NodeKey) -> int:
        """Register a node's public key with the SuperLink; returns the node's id."""
        return int(self.flwr("supernode", "register", str(key.public), NAME)["node-id"])

    def start_node(self, i: int) -> int:
        """Start node `i` again and wait until the SuperLink has accepted it; returns its id, the same as before.

        A killed node is refused until the SuperLink takes it for gone: up to two heartbeats.
        """
        self._spawn_node(i)
        return self._await_node(i, 2 * self.heartbeat_seconds + START_SECONDS)

    def kill_node(self, i: int) -> None:
        """SIGKILL node `i` and what it started."""
        self._kill(f"node-{i}")

    def server_app_pids(self) -> list[int]:
        """Ids of the processes that run the app's server part; one a run."""
        return marked(self._mark("superlink"), "flwr-serverapp")

    def kill_server_app(self) -> list[int]:
        """SIGKILL the processes that run the app's server part; returns their ids, none if no run is on."""
        return kill_marked(self._mark("superlink"), "flwr-serverapp")

    def client_app_pids(self, i: int) -> list[int]:
        """Ids of the processes in which node `i` answers a message now, by Flower's program or by the site's own."""
        mark = self._mark(f"node-{i}")
        return marked(mark, "flwr-clientapp") + marked(mark, "fedspd.deploy.guard")

    def node_pids(self, i: int) -> list[int]:
        """Ids of all processes of node `i`."""
        return marked(self._mark(f"node-{i}"))

    def run(self, *run_config: str, app_dir: Path | None = None) -> int:
        """Start the app, or another one, with overrides such as `rounds=3`; returns the run's id."""
        # One option for all: of two with the same section, `flwr` forgets the first.
        overrides = ["--run-config", " ".join(run_config)] if run_config else []
        return int(self.flwr("run", str(app_dir or self.app_dir), NAME, *overrides)["run-id"])

    def status(self, run_id: int) -> str:
        """What the SuperLink says of a run: `pending`, `starting`, `running` or `finished:` and how."""
        return self.flwr("list", NAME, "--run-id", str(run_id))["runs"][0]["status"]

    def wait(self, run_id: int, seconds: float) -> str:
        """Wait until a run is finished; returns its status, also if that is not so within some seconds."""
        end = time.monotonic() + seconds
        while True:
            # A `flwr` command costs more than a round, so it is asked only when no server part is at work.
            wait_until(lambda: not self.server_app_pids(), end - time.monotonic())
            status = self.status(run_id)
            if status.startswith("finished") or time.monotonic() > end:
                return status

    def server_log(self, run_id: int) -> str:
        """What the app's server part has printed so far; Flower keeps it apart from the SuperLink's log."""
        return self._command("log", str(run_id), NAME, "--show")

    def follow(self, run_id: int) -> Iterator[str]:
        """Lines that the app's server part prints, as they come, until the run is finished."""
        command = [str(PROGRAMS / "flwr"), "log", str(run_id), NAME, "--stream"]
        with subprocess.Popen(
            command, env=self._environment("operator"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                assert process.stdout is not None
                yield from process.stdout
            finally:
                process.kill()

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """What a `flwr` command, run as the operator, prints as JSON."""
        answer = json.loads(self._command(*arguments, "--format", "json"))
        if not answer["success"]:
            raise FederationError(f"flwr {' '.join(arguments)} failed: {answer}")
        return answer

    def log(self, label: str) -> str:
        """What `superlink`, `node-0`, ... and the processes they started have printed so far."""
        return (self.folder / "logs" / f"{label}.log").read_text(errors="replace")

    def spawn(
        self, label: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process of the federation under a label, which names its log; it ends with the federation."""
        log = self.folder / "logs" / f"{label}.log"
        self._starts[label] = len(self.log(label)) if log.exists() else 0
        complete = self._environment(label, environment)
        process = spawn([str(PROGRAMS / command[0]), *command[1:]], self._mark(label), log, complete)
        self._processes[label] = process
        return process

    def node_command(self, key: NodeKey, config: Mapping[str, str | int | float | bool]) -> list[str]:
        """The command that starts a SuperNode with a key."""
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{self.fleet_port}", "--host", "127.0.0.1"]
        command += ["--port", str(free_port()), "--root-certificates", str(self.certificates.authority)]
        command += ["--auth-supernode-private-key", str(key.private)]
        # A JSON scalar is a TOML one.
        return [*command, "--node-config", " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())]

    def _command(self, *arguments: str) -> str:
        command, environment = [str(PROGRAMS / "flwr"), *arguments], self._environment("operator")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise FederationError(f"flwr {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _spawn_node(self, i: int) -> None:
        self.node_ids.pop(i, None)
        node = self.nodes[i]
        self.spawn(f"node-{i}", self.node_command(self.keys[i], node.config), node.environment)

    def _await_node(self, i: int, seconds: float) -> int:
        label, end = f"node-{i}", time.monotonic() + seconds
        while True:
            wait_until(lambda: self._ended(label) or self._announced(label), end - time.monotonic())
            if (node_id := self._announced(label)) is not None:
                self.node_ids[i] = node_id
                return node_id
            if STILL_ONLINE not in self._recent(label) or time.monotonic() > end:
                raise FederationError(f"{label} was not accepted; {self._last_words(label)}")
            time.sleep(RETRY_SECONDS)
            self._spawn_node(i)

    def _ended(self, label: str) -> bool:
        return self._processes[label].poll() is not None

    def _announced(self, label: str) -> int | None:
        found = NODE_ID.search(self._recent(label))
        return int(found[1]) if found else None

    def _recent(self, label: str) -> str:
        return self.log(label)[self._starts[label] :]

    def _last_words(self, label: str) -> str:
        return f"the log {self.folder / 'logs' / label}.log ends with:\n{self._recent(label)[-2000:]}"

    def _kill(self, label: str) -> None:
        kill_marked(self._mark(label))
        self._processes[label].wait()

    def _mark(self, label: str) -> str:
        return f"{self._token}/{label}/"  # the last stroke tells node-1 from node-10

    def _environment(self, label: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        # Flower finds its own programs on the path; every member has its own home, as on machines of their own.
        complete = {**os.environ, **COMMON, "FLWR_HOME": str(self.folder / label), **(extra or {})}
        own = {} if "PATH" in (extra or {}) else {"PATH": PROGRAMS}  # a site may put its own program before Flower's
        for name, first in {**own, "PYTHONPATH": self.folder / "python"}.items():
            complete[name] = os.pathsep.join(filter(None, [str(first), complete.get(name)]))
        return complete
