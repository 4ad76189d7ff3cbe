"""The demo of a deployment: a server and its sites as processes of this machine, with TLS and a key for each site.

Sets up a federation on Adult by the commands that the documents name, follows the run, holds what the server says it
charged against every site's own ledger, and ends what it started.
"""

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FEDSPD = str(Path(sys.executable).with_name("fedspd"))
END_SECONDS = 20.0


def main() -> int:
    """Run it; 0 where the run ended well and the ledgers agree with the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--aggregation", choices=("plain", "secure"), default="plain")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(130))  # else the processes below would stay
    with TemporaryDirectory() as folder:
        return show(Path(folder), arguments.sites, arguments.aggregation)


def show(folder: Path, sites: int, aggregation: str) -> int:
    """Everything in one folder that goes when the demo ends."""
    adult, names = folder / "adult", [f"site-{number}" for number in range(1, sites + 1)]
    fedspd("deploy", "init", adult, "--sites", sites, "--port", free_port(), "--aggregation", aggregation)
    for name in names:
        with tarfile.open(adult / "kits" / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        fedspd("deploy", "join", folder / name / "site.toml")
    print(f"Starting {sites} sites and a server.", flush=True)
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(started(folder / f"{name}.out", "site", folder / name / "site.toml"))
        code = followed(adult / "federation.toml")
    if code:
        print("".join((folder / f"{name}.out").read_text() for name in names), file=sys.stderr)
        return code
    run = adult / "server" / "run"
    summary, told = (json.loads((run / file).read_text()) for file in ("summary.json", "sites.json"))
    print(f"\nWhat the ledgers of the sites say of {summary['run']}:")
    same = [agrees(folder / site["site"], site, summary["run"]) for site in told]  # all of them are printed
    return 0 if all(same) else 1


def followed(federation: Path) -> int:
    """Lead a run and print the server's lines as they come; its exit code."""
    command = [FEDSPD, "deploy", "server", str(federation)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                print(line, end="", flush=True)
        finally:
            server.terminate()  # says nothing to one that has ended
        return server.wait()


@contextmanager
def started(log: Path, *arguments: object) -> Iterator[None]:
    """A process that works until this is left; it is asked to end, as an init system asks."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [FEDSPD, "deploy", *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def agrees(home: Path, told: dict[str, Any], run: str) -> bool:
    """Whether a site's ledger has as many charges of a run as the server's table says; prints both."""
    (stated,) = json.loads(fedspd("ledger", "show", home / "ledger.db", "--json"))["clients"]
    charged = {entry["mechanism"]: entry["count"] for entry in stated["charged"] if entry["run"] == run}
    parts = " and ".join(f"{count} x {mechanism}" for mechanism, count in charged.items())
    same = sum(charged.values()) == told["charges"]
    print(
        f"{home.name}: {parts}, epsilon {stated['epsilon']:.4f} of {stated['budget']['epsilon']:g} in all; the server "
        f"counts {told['charges']}{'' if same else ', which is WRONG'}",
        flush=True,
    )
    return same


def fedspd(*arguments: object) -> str:
    """What a command prints, which must end well."""
    return subprocess.run([FEDSPD, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def free_port() -> int:
    """A loopback port that nothing listens on now, and that no outgoing connection is given later."""
    while True:
        port = random.SystemRandom().randrange(20000, 32768)  # the kernel gives outgoing connections those above
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


if __name__ == "__main__":
    sys.exit(main())
