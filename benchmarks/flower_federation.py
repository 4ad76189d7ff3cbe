"""Flower as it is shipped, on this machine: a SuperLink and SuperNodes over TLS, and an app that does nothing."""

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.setup.keys import write_certificates, write_private_key
from tests.support.deploy.processes import free_port, kill_marked, listens, spawn, wait_until

PROGRAMS = Path(sys.executable).parent
START_SECONDS = 600.0
ROUND = re.compile(r"round \d+ of \d+: .* ([\d.]+) s")
PROJECT = {
    "project": {"name": "empty", "version": "1.0.0"},
    "tool": {
        "flwr": {
            "app": {
                "publisher": "fedspd",
                "components": {"serverapp": "empty_app:server_app", "clientapp": "empty_app:client_app"},
                "config": {"rounds": 1, "clients": 1},
            }
        }
    },
}
APP = """
import time

from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()
def echo(message, context):
    return Message(RecordDict(), reply_to=message)


@server_app.main()
def main(grid, context):
    rounds, clients = context.run_config["rounds"], context.run_config["clients"]
    while len(nodes := list(grid.get_node_ids())) < clients:
        time.sleep(0.1)
    for round in range(1, rounds + 1):
        begin = time.monotonic()
        waiting = set(grid.push_messages([Message(RecordDict(), node, "query") for node in nodes]))
        while waiting:
            waiting -= {reply.metadata.reply_to_message_id for reply in grid.pull_messages(waiting)}
            time.sleep(0.1)
        print(f"round {round} of {rounds}: {len(nodes)} answered, {time.monotonic() - begin:.3f} s", flush=True)
"""


@contextmanager
def flower(folder: Path, nodes: int, port: int, fleet_port: int) -> Iterator["Flower"]:
    """A SuperLink and its nodes, gone on exit.

    Args:
        folder: a new one.
        nodes: how many.
        port: of the SuperLink.
        fleet_port: what the nodes are told: another one where something counts the bytes between.
    """
    made = Flower(folder, port, fleet_port)
    try:
        made.start(nodes)
        yield made
    finally:
        kill_marked(made.token)


class Flower:
    """The processes of a federation."""

    def __init__(self, folder: Path, port: int, fleet_port: int) -> None:
        self.folder, self.port, self.fleet_port, self.token = folder, port, fleet_port, uuid.uuid4().hex
        self.tls = write_certificates(folder / "keys")

    def start(self, nodes: int) -> None:
        """Start the SuperLink, register keys, start the nodes and wait for them."""
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(self.port), "--enable-supernode-auth"]
        command += ["--disable-runtime-dependency-installation", "--ssl-ca-certfile", str(self.tls.authority)]
        command += ["--ssl-certfile", str(self.tls.server), "--ssl-keyfile", str(self.tls.server_key)]
        self._spawn("superlink", command)
        assert wait_until(lambda: listens(self.port), START_SECONDS)
        connection = {"address": f"127.0.0.1:{self.port}", "root-certificates": str(self.tls.authority)}
        (self.folder / "operator").mkdir()
        configuration = {"superlink": {"default": "local", "local": connection}}
        (self.folder / "operator" / "config.toml").write_text(tomli_w.dumps(configuration))
        for number in range(nodes):
            self._node(number)
        for number in range(nodes):
            log = self.folder / f"node-{number}.log"
            assert wait_until(lambda log=log: "SuperNode ID" in log.read_text(), START_SECONDS), log.read_text()

    def rounds(self, rounds: int, clients: int) -> Iterator[float]:
        """Seconds of each round of the empty app, as they come."""
        app = self.folder / "empty"
        (app / "empty_app").mkdir(parents=True)
        (app / "pyproject.toml").write_text(tomli_w.dumps(PROJECT))
        (app / "empty_app" / "__init__.py").write_text(APP)
        started = self._flwr("run", str(app), "local", "--run-config", f"rounds={rounds} clients={clients}")
        command = [PROGRAMS / "flwr", "log", str(started["run-id"]), "local", "--stream"]
        with subprocess.Popen(
            command, env=self._environment("operator"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as log:
            assert log.stdout is not None
            for line in log.stdout:
                if found := ROUND.search(line):
                    yield float(found[1])
                    rounds -= 1
                if not rounds:
                    log.kill()
                    return

    def _node(self, number: int) -> None:
        key = self.folder / "keys" / f"node-{number}"
        write_private_key(key)
        key.with_suffix(".pub").write_text(read_identity(key).public.line)
        self._flwr("supernode", "register", str(key.with_suffix(".pub")), "local")
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{self.fleet_port}", "--host", "127.0.0.1"]
        command += ["--port", str(free_port()), "--root-certificates", str(self.tls.authority)]
        self._spawn(f"node-{number}", [*command, "--auth-supernode-private-key", str(key)])

    def _flwr(self, *arguments: str) -> dict[str, str]:
        command = [PROGRAMS / "flwr", *arguments, "--format", "json"]
        done = subprocess.run(command, env=self._environment("operator"), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def _spawn(self, label: str, command: list[str]) -> None:
        complete = [str(PROGRAMS / command[0]), *command[1:]]
        spawn(complete, f"{self.token}/{label}/", self.folder / f"{label}.log", self._environment(label))

    def _environment(self, label: str) -> dict[str, str]:
        quiet = {"FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_TELEMETRY_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
        path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", os.defpath)])
        return {**os.environ, **quiet, "PATH": path, "FLWR_HOME": str(self.folder / label)}
