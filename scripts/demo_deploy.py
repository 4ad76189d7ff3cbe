"""The demo of a deployment: one SuperLink and five SuperNodes as processes of this machine, with TLS and node keys.

Trains on Adult split over the five sites, prints the table of sites, checks each ledger, and ends what it started.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from fedspd.deploy.federation import Federation, site_node
from fedspd.deploy.setup.init import Plan, write_app

FLOWERS_OWN = ("\x1b", "Using SuperLink", "Successfully installed")  # lines of Flower itself


def main() -> int:
    """Run it; the exit status is that of the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--aggregation", choices=("plain", "secure"), default="plain")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        return show(Path(folder), arguments.sites, arguments.aggregation)


def show(folder: Path, sites: int, aggregation: str) -> int:
    """Everything in one folder that goes when the demo ends."""
    app = folder / "adult"
    homes = write_app(Plan(app, sites, None, 1.0, 1e-5, aggregation))
    print(f"Starting a SuperLink and {sites} SuperNodes, with TLS and a key for each node ...", flush=True)
    with Federation(folder / "federation", app, [site_node(home) for home in homes]) as federation:
        begin = time.monotonic()
        run = federation.run()
        for line in federation.follow(run):
            if (text := line.rstrip()) and not text.startswith(FLOWERS_OWN):
                print(text, flush=True)
        status = federation.status(run)
        print(f"Flower says {status}; {time.monotonic() - begin:.0f} s. Stopping everything.", flush=True)
    program = Path(sys.executable).parent / "fedspd"
    for home in homes:
        print(f"{home.name}: ", end="", flush=True)
        subprocess.run([program, "ledger", "verify", home / "ledger.db"], check=True)
    return 0 if status == "finished:completed" else 1


if __name__ == "__main__":
    sys.exit(main())
