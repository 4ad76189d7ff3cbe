"""The conformance kit on mechanisms of other libraries, as they are released: what they declare, and what is proved.

Each library runs in an environment of its own, of the pinned version and thrown away at the end, and only its releases
on two neighbors come back. The scripts in benchmarks/audited/ call it by its public names and change nothing of it.
A declared (epsilon, delta) of Gaussian noise is held against the Gaussian release that has exactly that, which is the
sharpest test there is for it. What does not install or does not run is a row that says why.

  python -m benchmarks.audit_peers                     every library
  python -m benchmarks.audit_peers --only nvflare      one of them
  python -m benchmarks.audit_peers --keep              environments stay in the cache for the next time
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import QUIET, TORCH, VISION, Bench, FailedError, Peer, fence, folders, last_line
from fedspd.privacy.accounting import Gaussian, calibrate
from fedspd.testing import Lower, Statement, audit_mechanism

SCRIPTS = Path(__file__).resolve().parent / "audited"
LIMIT = 3600.0  # seconds for one library
PEERS = (
    Peer("opendp", "OpenDP", "with_opendp.py"),
    Peer("flower", "Flower", "with_flower.py"),
    Peer("diffprivlib", "diffprivlib", "with_diffprivlib.py", ("diffprivlib==0.6.6", "scikit-learn==1.5.2")),
    Peer("opacus", "Opacus", "with_opacus.py", (TORCH, "opacus==1.6.0")),
    Peer("nvflare", "NVFlare", "with_nvflare.py", ("nvflare==2.9.0",)),
    Peer("appfl", "APPFL", "with_appfl.py", (TORCH, VISION, "opacus==1.6.0", "appfl==1.12.0")),
    Peer("jax_privacy", "JAX Privacy", "with_jax_privacy.py", ("jax==0.10.2", "jax_privacy==2.0.0")),
)


def statement_of(declared: dict[str, Any]) -> Statement | None:
    """What a library declares; None: nothing."""
    if not declared:
        return None
    if "gaussian" in declared:  # an (epsilon, delta) of one Gaussian release, with the whole profile that goes with it
        delta = declared["delta"]
        return Statement(mu=1 / calibrate(Gaussian, 1, declared["gaussian"], delta), delta=delta)
    return Statement(**declared)


def proved(first: np.ndarray, second: np.ndarray, statement: Statement) -> Lower:
    """What releases on two data sets prove."""
    rows = iter(first), iter(second)
    return audit_mechanism(lambda world, rng: next(rows[world]), statement, 0, neighbor=1, runs=len(first))


def line(name: str, declared: dict[str, Any], releases: tuple[np.ndarray, np.ndarray]) -> str:
    """Of the table."""
    statement, runs = statement_of(declared), len(releases[0])
    if statement is None:  # held against no noise at all: how sure can an attacker be?
        lower = proved(*releases, Statement(epsilon=1.0))
        return f"| {name} | none | {lower.direct:.3f} | {runs:,} | declares nothing |"
    claimed, lower = statement.claim.epsilon, proved(*releases, statement)
    verdict = "refuted" if lower.epsilon > claimed else "not refuted"
    return f"| {name} | {claimed:.3f} | {lower.epsilon:.3f} | {runs:,} | {verdict} |"


def rows_of(peer: Peer, bench: Bench, runs: int) -> Iterator[str]:
    """Of one library, or why there are none."""
    try:
        with tempfile.TemporaryDirectory(dir=bench.folder) as work:
            ran(bench, peer, peer.script, work, "--runs", str(runs))
            yield from table(Path(work))
    except (FailedError, subprocess.TimeoutExpired) as reason:
        yield f"| {peer.label} | | | | could not be tried: {reason} |"


def ran(bench: Bench, peer: Peer, script: str, *arguments: str) -> str:
    """What a script prints that ran in a library's environment, with a loopback and nothing else."""
    command = [*(bench.fence or []), str(bench.python(peer)), "-W", "ignore", str(SCRIPTS / script), *arguments]
    done = subprocess.run(command, env=os.environ | QUIET, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise FailedError(last_line(done.stderr))
    return done.stdout


def table(folder: Path) -> Iterator[str]:
    """Of the releases that a script left in a folder."""
    for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
        releases = tuple(np.load(folder / f"{number}-{world}.npy") for world in (0, 1))
        yield line(case["name"], case["declared"], (releases[0], releases[1]))


@contextmanager
def audited(keep: bool) -> Iterator[Bench]:
    """Environments of libraries that are audited."""
    with folders(keep) as (folder, environments):
        bench = Bench(folder, environments / "audited", fence(), LIMIT, 1)
        bench.environments.mkdir(exist_ok=True)
        yield bench


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000, help="on each of two data sets; fewer where one takes long")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--only", choices=names, help="this library")
    parser.add_argument("--keep", action="store_true", help="keep environments in $XDG_CACHE_HOME/fedspd/peers")
    given = parser.parse_args()
    print("| mechanism | declared ε | proved to leak | runs | |\n|---|---|---|---|---|")
    with audited(given.keep) as bench:
        for peer in PEERS:
            if given.only in (None, peer.name):
                for row in rows_of(peer, bench, given.runs):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
