"""The paper's workload in this project, in other frameworks and in plain scripts, side by side on this machine.

N 100 clients of 325 records, softmax on 81 features, K 20 per round, 5 local steps of 10 records, 100 rounds, Gaussian
noise on every upload, test accuracy on 16,281 rows after every round; the same for 10 seeds; and 10,000 clients with
K 1000 and 20 rounds. This project runs FedSPD-DP as published, without intercept; the others run federated averaging
(APPFL also IIADMM) with one. All add little noise. An accuracy shows that a row learns, no more: step sizes differ.

Each framework is installed from PyPI into an environment of its own, thrown away at the end, and runs in a network
namespace that has a loopback and nothing else. What does not install or does not run is a row that says why.
Two times are told: of the run alone, after imports, loading and compiling, and of the whole process. Ratios are to this
project's best. Unless --only is given, the figures also go to benchmarks/peers.json.

  python benchmarks/peers.py                       everything; most of the time is the others'
  python benchmarks/peers.py --keep --repeats 1    quicker, and environments stay in the cache for the next time
  python benchmarks/peers.py --only pfl,fedjax     two peers, beside this project
  python benchmarks/peers.py --json                figures as JSON instead of a table
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "peers"
RESULT = HERE / "peers.json"
PATIENCE = 120.0  # seconds after which a row is not repeated again
LARGER_CLASS = 12435 / 16281  # accuracy of a model of zeros, or of no numbers: a peer that ends there did no work
SEEDS = 10
TORCH = "torch==2.13.0"
VISION = "torchvision==0.28.0"  # the one that names this PyTorch, so that no other PyTorch is fetched

# Frameworks say nothing to anybody and write nothing to the home folder.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "disabled",
    "JAX_PLATFORMS": "cpu",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Peer:
    """A row: a script, and the environment it needs."""

    name: str
    label: str
    script: str
    installs: tuple[str, ...] = ()  # nothing: the project's own environment
    arguments: tuple[str, ...] = ()
    framework: bool = False
    many: bool = False  # also does the job with 10,000 clients

    @property
    def ours(self) -> bool:
        """Whether it is this project."""
        return self.script == "ours.py"


PEERS = (
    Peer("numpy", "fedspd, NumPy", "ours.py", arguments=("--variant", "numpy"), many=True),
    Peer("jax", "fedspd, JAX", "ours.py", arguments=("--variant", "jax"), many=True),
    Peer("plain-batched", "plain NumPy, batched", "plain_numpy_batched.py", many=True),
    Peer("plain-loop", "plain NumPy, loop", "plain_numpy_loop.py", many=True),
    Peer("plain-torch", "plain PyTorch, loop", "plain_torch.py", (TORCH, "numpy")),
    Peer("fedjax", "FedJAX", "with_fedjax.py", ("fedjax==0.0.17", "jax==0.10.2"), (), True, True),
    Peer("fedlab", "FedLab", "with_fedlab.py", (TORCH, VISION, "fedlab==1.3.0"), framework=True),
    Peer("pfl", "pfl", "with_pfl.py", (TORCH, "pfl[pytorch]==0.6.0"), framework=True),
    Peer("flower", "Flower", "with_flower.py", (TORCH, "flwr[simulation]==1.41.0"), framework=True),
    *(
        Peer(name, label, "with_appfl.py", (TORCH, VISION, "appfl==1.12.0"), ("--variant", variant), framework=True)
        for name, label, variant in [
            ("appfl-fedavg", "APPFL FedAvg", "fedavg"),
            ("appfl-iiadmm", "APPFL IIADMM", "iiadmm"),
        ]
    ),
)

# (job, peer or "frameworks", which time, how many times ours)
GOALS = (
    ("paper", "flower", "seconds", 300),
    ("paper", "pfl", "seconds", 60),
    ("paper", "fedlab", "seconds", 60),
    ("paper", "fedjax", "seconds", 20),
    ("paper", "plain-batched", "seconds", 2),
    ("paper", "frameworks", "whole", 10),
    ("many", "fedjax", "seconds", 30),
)
SWEEP_GOAL = 3.0  # runs that a sweep over 10 seeds may cost
JOBS = {
    "paper": "the paper's run: N 100, K 20, Q 5, b 10, T 100",
    "many": "N 10,000 x 325 records, K 1000, T 20",
    "sweep": f"the paper's run for {SEEDS} seeds",
}


class FailedError(Exception):
    """Why a row has no figures."""


@dataclass
class Row:
    """What was measured of a peer in a job."""

    job: str
    peer: str
    label: str
    seconds: float | None = None  # the run alone
    whole: float | None = None  # the whole process
    accuracy: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    skipped: str | None = None


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    """The last line with something on it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def fence() -> list[str] | None:
    """What to put before a command so that it sees a loopback alone and leaves no process behind; None: not here."""
    spaces = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for who in ([], ["--user", "--map-root-user"]):
        before = ["unshare", *who, *spaces, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        try:
            if subprocess.run([*before, "true"], capture_output=True, timeout=20, check=False).returncode == 0:
                return before
        except (OSError, subprocess.TimeoutExpired):
            continue
    return None


@dataclass
class Bench:
    """Where environments and files live, and how scripts are run there."""

    folder: Path
    environments: Path
    fence: list[str] | None
    limit: float
    repeats: int

    def python(self, peer: Peer) -> Path:
        """The interpreter of a peer's environment, which is made when there is none."""
        if not peer.installs:
            return Path(sys.executable)
        folder = self.environments / peer.script.removesuffix(".py")
        done, wanted = folder / "installed.txt", "\n".join(peer.installs)
        if done.exists() and done.read_text() == wanted:
            return folder / "bin" / "python"
        say(f"{peer.label}: installing {' '.join(peer.installs)}")
        venv.create(folder, clear=True, with_pip=True)
        python = folder / "bin" / "python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.installs]
        result = subprocess.run(install, capture_output=True, text=True, check=False)
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
            raise FailedError(f"does not install: {last_line(chr(10).join(errors) or result.stderr)}")
        done.write_text(wanted)
        return python

    def call(self, peer: Peer, job: str, *more: str) -> dict[str, Any]:
        """One process: what it reports, and how long it took as a whole."""
        if peer.framework and self.fence is None:
            raise FailedError("no network namespace here to keep it on the loopback")
        python = self.python(peer)
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            environment = os.environ | QUIET | {"RAY_TMPDIR": work, "FLWR_HOME": work}
            if peer.framework:
                environment["HOME"] = work
            what = job if peer.ours else str(self.folder / f"{job}.npz")
            command = [*(self.fence or []), str(python), str(SCRIPTS / peer.script), what, *peer.arguments, *more]
            begin = time.perf_counter()
            try:
                result = subprocess.run(
                    command, cwd=work, env=environment, capture_output=True, text=True, timeout=self.limit, check=False
                )
            except subprocess.TimeoutExpired:
                raise FailedError(f"took longer than {self.limit:g} s") from None
            whole = time.perf_counter() - begin
        if result.returncode:
            raise FailedError(last_line(result.stderr or result.stdout))
        measured = json.loads(result.stdout.strip().splitlines()[-1])
        if not peer.ours and abs(measured["accuracy"] - LARGER_CLASS) < 1e-4:
            raise FailedError("learned nothing: the model answers the larger class always")
        return {**measured, "whole": whole}

    def measure(self, peer: Peer, job: str) -> Row:
        """Medians over repeats, or why there are none: one process is timed whole, one runs after a warm-up."""
        row = Row(job, peer.name, peer.label)
        cold, warm = [], []
        try:
            self.python(peer)
            begin = time.perf_counter()
            while len(cold) < self.repeats and (not cold or time.perf_counter() - begin < PATIENCE):
                say(f"{peer.label}, {job}: run {len(cold) + 1} of {self.repeats}")
                cold.append(self.call(peer, job))
                warm.append(self.call(peer, job, "--warm"))
        except FailedError as reason:
            say(f"{peer.label}, {job}: skipped: {reason}")
            row.skipped = str(reason)
            return row
        row.seconds, row.whole = median(run["seconds"] for run in warm), median(run["whole"] for run in cold)
        row.accuracy, row.versions, row.repeats = warm[-1]["accuracy"], warm[-1]["versions"], len(warm)
        return row

    def sweep(self, peer: Peer) -> Row:
        """Ours alone: many seeds in one go; others would take so many times one run."""
        row = Row("sweep", peer.name, peer.label)
        say(f"{peer.label}, sweep")
        try:
            runs = [self.call(peer, "paper", "--seeds", str(SEEDS), "--warm") for _ in range(self.repeats)]
        except FailedError as reason:
            row.skipped = str(reason)
            return row
        row.seconds, row.accuracy = median(run["seconds"] for run in runs), runs[-1]["accuracy"]
        row.versions, row.repeats = runs[-1]["versions"], len(runs)
        return row


def met(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every goal about the rows, with the ratio reached; None where one of the two was not measured."""
    verdicts = []
    for job, whom, time_of, goal in GOALS:
        mine = best(rows, job, time_of)
        for row in rows:
            named = row.peer == whom or (whom == "frameworks" and find(row.peer).framework)
            if row.job != job or not named:
                continue
            theirs = getattr(row, time_of)
            ratio = theirs / mine if theirs and mine else None
            what = "without start-up" if time_of == "seconds" else "with start-up"
            text = f"{JOBS[job]}: at least {goal} times faster than {row.label}, {what}"
            verdicts.append({"goal": text, "reached": ratio, "met": None if ratio is None else ratio >= goal})
    single, many = best(rows, "paper", "seconds"), best(rows, "sweep", "seconds")
    ratio = many / single if single and many else None
    text = f"{JOBS['sweep']}: under {SWEEP_GOAL:g} times the cost of one run"
    verdicts.append({"goal": text, "reached": ratio, "met": None if ratio is None else ratio < SWEEP_GOAL})
    return verdicts


def find(name: str) -> Peer:
    """A peer by name."""
    return next(peer for peer in PEERS if peer.name == name)


def best(rows: Sequence[Row], job: str, time_of: str) -> float | None:
    """This project's shortest time in a job."""
    times = [getattr(row, time_of) for row in rows if row.job == job and find(row.peer).ours]
    return min((value for value in times if value is not None), default=None)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The figures, line by line."""

    def cells(value: float | None, mine: float | None) -> str:
        ratio = f"{value / mine:9.1f}x" if value and mine else ""
        return f"{value:10.3f} {ratio:>10}" if value else f"{'':21}"

    for job, text in JOBS.items():
        chosen = [row for row in rows if row.job == job]
        if not chosen:
            continue
        yield f"\n{text}"
        yield f"{'':24} {'alone s':>10} {'ratio':>10} {'whole s':>10} {'ratio':>10} {'accuracy':>9}  versions"
        for row in chosen:
            if row.skipped:
                yield f"{row.label:24} skipped: {row.skipped}"
                continue
            times = [cells(row.seconds, best(rows, job, "seconds")), cells(row.whole, best(rows, job, "whole"))]
            versions = ", ".join(f"{name} {version}" for name, version in row.versions.items())
            yield f"{row.label:24} {' '.join(times)} {row.accuracy or 0:9.4f}  {versions}"
        if job == "sweep":
            yield f"{'the others':24} {SEEDS} times one run; not measured"


@contextmanager
def folders(keep: bool) -> Iterator[tuple[Path, Path]]:
    """A folder for files, and one for environments that outlives it with `keep`."""
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedspd" / "peers"
        environments = cache if keep else Path(name) / "environments"
        environments.mkdir(parents=True, exist_ok=True)
        yield Path(name), environments


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(peer.name for peer in PEERS if not peer.ours)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"these peers, separated by commas: {names}")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs per row, median told (default 3)")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="seconds for one process (default 600)")
    parser.add_argument("--keep", action="store_true", help="keep environments in $XDG_CACHE_HOME/fedspd/peers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    given.only = [name.strip() for name in given.only.split(",") if name.strip()]
    unknown = set(given.only) - {peer.name for peer in PEERS}
    if unknown or given.repeats < 1:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}" if unknown else "--repeats must be at least 1")
    return given


def main() -> None:
    """Measure everything, print it, keep it."""
    given = options()
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"this machine is busy (load {load:.1f}): times will be too long")
    rows: list[Row] = []
    with folders(given.keep) as (folder, environments):
        bench = Bench(folder, environments, fence(), given.limit, given.repeats)
        say("exporting the workloads")
        subprocess.run([sys.executable, SCRIPTS / "export.py", folder], check=True)
        chosen = [peer for peer in PEERS if peer.ours or not given.only or peer.name in given.only]
        for peer in chosen:
            rows.append(bench.measure(peer, "paper"))
            if peer.many:
                rows.append(bench.measure(peer, "many"))
            if peer.ours:
                rows.append(bench.sweep(peer))
    goals = met(rows)
    result = {"machine": machine(), "rows": [asdict(row) for row in rows], "goals": goals}
    if not given.only:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
    if given.json:
        print(json.dumps(result, indent=2))
        return
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    print("\n".join(table(rows)))
    print("\ngoals")
    for goal in goals:
        verdict = {True: "met", False: "missed", None: "not measured"}[goal["met"]]
        print(f"{verdict:12} {'' if goal['reached'] is None else format(goal['reached'], '.1f'):>8}  {goal['goal']}")


if __name__ == "__main__":
    main()
