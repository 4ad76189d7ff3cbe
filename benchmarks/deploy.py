"""Rounds per second and bytes per client of a deployed run, beside a Flower app that does nothing.

Every SuperNode is a process of its own on this machine, authenticated and over TLS; the bytes are those on the wire
between them and the SuperLink, both ways, polling included. Both apps run in the same federation, one after the other.
Flower starts a process for every message: on one machine that, not the network, is what a round waits for.

Examples:
    python benchmarks/deploy.py
    python benchmarks/deploy.py --sizes 5 --rounds 10 --aggregation secure --json
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import tomli_w

from fedspd.deploy.federation import Federation, Node
from fedspd.deploy.processes import free_port
from fedspd.deploy.setup.init import Plan, write_app

# Fifty nodes that look for work ten times a second would keep two cores busy, so they do it as often as Flower's own.
UNHURRIED = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "1"}
PATIENCE = 3600.0
# Many processes that start at once on few cores are up late; Flower would start each again after 30 seconds, and again.
SLOW_START_SECONDS = 600
CLIENT_KIB = 350 * 1024  # of memory, while a client answers: three processes that each hold Flower
IDLE_SECONDS = 12.0  # a SuperNode asks for messages every three
ROUND = re.compile(r"round \d+ of \d+: .* ([\d.]+) s$")

EMPTY_PROJECT = """
[project]
name = "empty"
version = "1.0.0"

[tool.flwr.app]
publisher = "fedspd"

[tool.flwr.app.components]
serverapp = "empty_app:server_app"
clientapp = "empty_app:client_app"

[tool.flwr.app.config]
rounds = 1
clients = 1
"""
EMPTY_APP = """
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
        print(f"round {round} of {rounds}: {len(nodes)} answered, {time.monotonic() - begin:.3f} s")
"""


@dataclass(frozen=True)
class Figures:
    """What one app did with one number of clients; the first round, which also fetches the app, counts for the run."""

    app: str
    clients: int
    rounds_per_second: float
    bytes_per_client_and_round: float
    bytes_per_client_and_run: float
    bytes_per_client_and_idle_second: float
    seconds_of_the_run: float


class Meter:
    """Bytes that passed so far, in both directions."""

    total = 0

    def pipe(self, inner: asyncio.StreamReader, outer: asyncio.StreamWriter) -> "asyncio.Task[None]":
        """Hand bytes on until the sender ends."""

        async def forward() -> None:
            try:
                while chunk := await inner.read(65536):
                    self.total += len(chunk)
                    outer.write(chunk)
                    await outer.drain()
            except ConnectionError:
                pass
            finally:
                outer.close()

        return asyncio.create_task(forward())


@contextmanager
def metered(listen: int, upstream: int) -> Iterator[Meter]:
    """A loopback port whose connections are handed on to another, counted."""
    meter, loop = Meter(), asyncio.new_event_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", upstream)
        except OSError:
            writer.close()
            return
        await asyncio.gather(meter.pipe(reader, far_writer), meter.pipe(far_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", listen))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield meter
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def idle_rate(meter: Meter, clients: int) -> float:
    """Bytes per client and second while there is nothing to do: what waiting for other clients adds to a round."""
    start = meter.total
    time.sleep(IDLE_SECONDS)
    return (meter.total - start) / IDLE_SECONDS / clients


def measure(federation: Federation, meter: Meter, name: str, app: Path, run_config: Sequence[str]) -> Figures:
    """Run an app once and count; what it prints says when each of its rounds is over."""
    clients = len(federation.nodes)
    idle = idle_rate(meter, clients)
    start, begin = meter.total, time.monotonic()
    run_id = federation.run(*run_config, app_dir=app)
    marks, seconds = [], []
    for line in federation.follow(run_id):
        if found := ROUND.search(line.rstrip()):
            marks.append(meter.total)
            seconds.append(float(found[1]))
    total, elapsed = meter.total - start, time.monotonic() - begin
    if (status := federation.wait(run_id, PATIENCE)) != "finished:completed" or len(marks) < 2:
        raise RuntimeError(f"{name}: {status}\n{federation.server_log(run_id)}")
    return Figures(
        app=name,
        clients=clients,
        rounds_per_second=len(seconds[1:]) / sum(seconds[1:]),
        bytes_per_client_and_round=(marks[-1] - marks[0]) / len(marks[1:]) / clients,
        bytes_per_client_and_run=total / clients,
        bytes_per_client_and_idle_second=idle,
        seconds_of_the_run=elapsed,
    )


def change(app: Path, settings: Mapping[str, Mapping[str, float]]) -> None:
    """Change an app's settings in its file: `flwr run` adds none that is not there."""
    project = tomllib.loads((app / "pyproject.toml").read_text())
    for section, keys in settings.items():
        project["tool"]["flwr"]["app"]["config"][section] |= keys
    (app / "pyproject.toml").write_text(tomli_w.dumps(project))


def measure_both(folder: Path, clients: int, rounds: int, aggregation: str) -> Iterator[Figures]:
    """The figures of the empty app and of ours, in one federation."""
    empty, ours = folder / "empty", folder / "ours"
    (empty / "empty_app").mkdir(parents=True)
    (empty / "pyproject.toml").write_text(EMPTY_PROJECT)
    (empty / "empty_app" / "__init__.py").write_text(EMPTY_APP)
    sites = write_app(Plan(ours, clients, schema=None, epsilon=1.0, delta=1e-5, aggregation=aggregation))
    nodes = [Node({"site": str(site / "site.toml")}, UNHURRIED) for site in sites]
    change(ours, {"deploy": {"start_seconds": PATIENCE, "round_seconds": PATIENCE}, "run": {"rounds": rounds}})
    ports = free_port(), free_port()
    federation = Federation(folder / "federation", empty, nodes, ports=ports, heartbeat_seconds=SLOW_START_SECONDS)
    with metered(ports[1], ports[0]) as meter, federation:
        yield measure(federation, meter, "empty", empty, [f"rounds={rounds}", f"clients={clients}"])
        yield measure(federation, meter, f"fedspd, {aggregation}", ours, [])


def available_kib() -> int:
    """Memory that processes can have without swapping."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found[1])


def described(one: Figures) -> str:
    """Figures for people."""
    return (
        f"{one.clients:3d} clients, {one.app:14s} {one.rounds_per_second:7.3f} rounds/s "
        f"{one.bytes_per_client_and_round / 1024:8.1f} KiB a client and round "
        f"(idle {one.bytes_per_client_and_idle_second / 1024:.2f} KiB/s), "
        f"{one.bytes_per_client_and_run / 1024:.1f} KiB a client and run of {one.seconds_of_the_run:.0f} s"
    )


def main() -> None:
    """Print a line for each app and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="5,20,50", help="numbers of clients")
    parser.add_argument("--rounds", type=int, default=3, help="at least two: the first is not counted")
    parser.add_argument("--aggregation", choices=("plain", "secure"), default="plain")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds must be at least 2, got {options.rounds}")
    sizes = [int(size) for size in options.sizes.split(",")]
    if (largest := available_kib() // CLIENT_KIB) < max(sizes):
        parser.error(f"this machine has memory for {largest} clients now, got --sizes {options.sizes}")
    figures = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for one in measure_both(Path(folder), size, options.rounds, options.aggregation):
                figures.append(one)
                print(described(one), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        print(json.dumps([asdict(one) for one in figures], indent=2))


if __name__ == "__main__":
    main()
