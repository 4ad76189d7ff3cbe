"""Very many sites of one server: each a thread of one process, with a connection, a store and a ledger of its own."""

import csv
import json
import os
import re
import statistics
import sys
import threading
import time
from pathlib import Path

from fedspd.deploy.protocol.identity import read_identity
from fedspd.deploy.site.computing.records import Records
from fedspd.deploy.site.connection import Connection, Ended, Rejected
from fedspd.deploy.site.respond import respond
from fedspd.deploy.site.serve import answer_to
from tests.support.deploy.live import ROOT, change, live

PATIENCE = 3600.0


def simulated_sites(folder: Path, count: int, rounds: int) -> str:
    """Time and memory of a round."""
    with live(folder, count) as made:
        settings = {"run.rounds": rounds, "federation.start_seconds": PATIENCE, "federation.round_seconds": PATIENCE}
        change(made.file, settings)
        server = made.server()
        command = [sys.executable, str(ROOT / "benchmarks" / "simulated_sites.py"), *(str(home) for home in made.homes)]
        for home in made.homes:
            change(home / "site.toml", {"policy.min_batch": 1})
        made.start("sites", command)
        made.await_round(1, PATIENCE)
        before = _processor_seconds(server.pid)
        made.await_round(rounds, PATIENCE)
        spent = (_processor_seconds(server.pid) - before) / (rounds - 1) / count
        status = Path(f"/proc/{server.pid}/status").read_text()
        memory = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # pyright: ignore[reportOptionalSubscript]
        made.await_end(PATIENCE)
        with (made.folder / "server" / "run" / "rounds.csv").open() as file:
            seconds = [float(row["seconds"]) for row in csv.DictReader(file)][1:]
        sites = json.loads((made.folder / "server" / "run" / "sites.json").read_text())
    answered = sum(site["answered"] == rounds for site in sites)
    return (
        f"{count} sites in one process over TLS: {statistics.median(seconds):.1f} s a round (slowest "
        f"{max(seconds):.1f} s), {answered} answered every round; the server takes {1000 * spent:.0f} ms of "
        f"processor time a site and round, and {memory:.0f} MiB of memory at most"
    )


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _site(home: Path) -> None:
    path, records = home / "site.toml", Records()
    address = re.search(r'address = "(.*)"', path.read_text())[1]  # pyright: ignore[reportOptionalSubscript]
    with Connection(address, home / "ca.pem", read_identity(home / "site.key"), lambda line: None) as connection:
        while True:
            try:
                message = connection.receive()
                if message is not None:
                    reply, _ = answer_to(message, lambda kind, request: respond(path, kind, request, records))
                    connection.reply(reply)
            except Rejected:
                continue
            except Ended:
                return


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    for each in sys.argv[1:]:
        threading.Thread(target=_site, args=(Path(each),), daemon=True).start()
    time.sleep(PATIENCE)
