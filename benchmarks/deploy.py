"""Seconds of a round and bytes per site of a deployed run, beside Flower's own empty app as it is shipped.

Every site is a process of its own on this machine (two in ours: the connection and the worker beside the records),
authenticated and over TLS; the bytes are those on the wire, both ways, waiting included. Both run one after the other,
on the same machine in the same minutes. The first round is not counted.

Examples:
    python benchmarks/deploy.py
    python benchmarks/deploy.py --sizes 5 --rounds 10 --aggregation secure --json
    python benchmarks/deploy.py --sizes '' --rows 1000000
    python benchmarks/deploy.py --sizes '' --simulated 200
"""

import argparse
import asyncio
import csv
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.flower_federation import flower  # noqa: E402
from benchmarks.simulated_sites import simulated_sites  # noqa: E402
from tests.support.deploy.live import Live, change, live  # noqa: E402
from tests.support.deploy.processes import free_port  # noqa: E402

PATIENCE = 3600.0
SITE_KIB = 500 * 1024  # of memory: two processes, each with Flower or NumPy in it


@dataclass(frozen=True)
class Figures:
    """What one app did with one number of sites."""

    app: str
    sites: int
    seconds_of_a_round: float  # median
    slowest_round: float
    bytes_per_site_and_round: float


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
            except (ConnectionError, asyncio.CancelledError):
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
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in asyncio.all_tasks(loop)])
        time.sleep(0.1)  # cancelled tasks close their connections
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def empty_app(folder: Path, sites: int, rounds: int) -> Figures:
    """Flower as it is shipped, with an app that sends nothing back and forth."""
    ports, marks, seconds = (free_port(), free_port()), list[int](), list[float]()
    with metered(ports[1], ports[0]) as meter, flower(folder, sites, *ports) as made:
        for one in made.rounds(rounds, sites):
            seconds.append(one)
            marks.append(meter.total)
    return _figures("Flower's empty app", sites, seconds, marks)


def ours(folder: Path, sites: int, rounds: int, aggregation: str) -> Figures:
    """A private run on Adult, between as many sites."""
    gate, marks = free_port(), list[int]()
    with live(folder, sites, "--aggregation", aggregation) as made:
        settings = {"run.rounds": rounds, "federation.start_seconds": PATIENCE, "federation.round_seconds": PATIENCE}
        change(made.file, settings)
        port = int(re.search(r"port = (\d+)", made.file.read_text())[1])  # pyright: ignore[reportOptionalSubscript]
        for home in made.homes:
            change(home / "site.toml", {"server.address": f"127.0.0.1:{gate}", "policy.min_batch": 1})
        with metered(gate, port) as meter:
            made.server()
            made.sites()
            for number in range(1, rounds + 1):
                made.await_round(number, PATIENCE)
                marks.append(meter.total)
            made.await_end(PATIENCE)
        return _figures(f"fedspd, {aggregation}", sites, _seconds(made), marks)


def large_table(folder: Path, rows: int, rounds: int) -> str:
    """A site with very many records: how long it reads once, and how long a round takes."""
    with live(folder, 1) as made:
        path = made.homes[0] / "records.csv"
        header, *records = path.read_text().splitlines()
        with path.open("w") as file:
            file.write(header + "\n")
            for number in range(rows):
                file.write(records[number % len(records)] + "\n")
        change(made.homes[0] / "site.toml", {"limits.memory_mb": 16384, "limits.seconds": 600.0})
        change(
            made.file, {"run.rounds": rounds, "federation.start_seconds": PATIENCE, "federation.round_seconds": 600.0}
        )
        made.server()
        begin = time.monotonic()
        made.sites()
        made.await_round(1, PATIENCE)
        before = time.monotonic() - begin
        made.await_end(PATIENCE)
        seconds = _seconds(made)[1:]
    return (
        f"{rows} records at one site: {before:.1f} s until the first round was over (the table is read once), then "
        f"{statistics.median(seconds):.2f} s a round, at most {max(seconds):.2f} s"
    )


def _seconds(made: Live) -> list[float]:
    with (made.folder / "server" / "run" / "rounds.csv").open() as file:
        return [float(row["seconds"]) for row in csv.DictReader(file)]


def _figures(app: str, sites: int, seconds: list[float], marks: list[int]) -> Figures:
    counted = seconds[1:]
    traffic = (marks[-1] - marks[0]) / len(counted) / sites
    return Figures(app, sites, statistics.median(counted), max(counted), traffic)


def available_kib() -> int:
    """Memory that processes can have without swapping."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    assert found is not None
    return int(found[1])


def described(one: Figures) -> str:
    """Figures for people."""
    return (
        f"{one.sites:3d} sites, {one.app:20s} {one.seconds_of_a_round:7.2f} s a round "
        f"(slowest {one.slowest_round:.2f} s), {one.bytes_per_site_and_round / 1024:6.1f} KiB a site and round"
    )


def main() -> None:
    """Print a line for each app and number of sites, and the ratio of the two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="5,20", help="numbers of sites")
    parser.add_argument("--rounds", type=int, default=8, help="at least two: the first is not counted")
    parser.add_argument("--aggregation", choices=("plain", "secure"), default="plain")
    parser.add_argument("--rows", type=int, default=0, help="also a site with so many records")
    parser.add_argument("--simulated", type=int, default=0, help="also so many sites in one process, over TLS")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds must be at least 2, got {options.rounds}")
    sizes = [int(size) for size in options.sizes.split(",") if size]
    if sizes and (largest := available_kib() // SITE_KIB) < max(sizes):
        parser.error(f"this machine has memory for {largest} sites now, got --sizes {options.sizes}")
    out, figures = sys.stderr if options.json else sys.stdout, list[Figures]()
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            pair = [
                empty_app(Path(folder) / "flower", size, min(options.rounds, 4)),
                ours(Path(folder) / "ours", size, options.rounds, options.aggregation),
            ]
        for one in pair:
            print(described(one), file=out, flush=True)
        print(f"    {pair[0].seconds_of_a_round / pair[1].seconds_of_a_round:.1f} times as fast", file=out, flush=True)
        figures += pair
    with tempfile.TemporaryDirectory() as folder:
        if options.rows:
            print(large_table(Path(folder) / "large", options.rows, options.rounds), file=out, flush=True)
        if options.simulated:
            print(simulated_sites(Path(folder) / "many", options.simulated, options.rounds), file=out, flush=True)
    if options.json:
        print(json.dumps([asdict(one) for one in figures], indent=2))


if __name__ == "__main__":
    main()
