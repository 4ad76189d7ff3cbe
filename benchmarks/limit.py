"""How far a round is from what this machine can do at best: measured time against a roofline measured in the same run.

A round of the paper's method (81 columns, 2 outputs, 5 local steps of 10 records) must at least

  gather    the records of K clients, 50 random rows each, and stream the participants' states and replies,
  multiply  every record by the weights' contrast and back,
  draw      162 standard normals per client.

Each is divided by the best rate that this machine reaches at nothing else: rows gathered at random from the same table,
a copy of large arrays, a large matrix product, and nothing but normals. The sum of the three is the bound where nothing
overlaps, the largest of them the bound where everything does. Not in the bound, but in the time: drawing which records
are used, all arithmetic on the weights, and calls. The products of a round are matrices of 10 x 81 by 81 x 1, one per
client, which no machine multiplies at the rate of large matrices; the bound takes that rate all the same.

On a CPU rates are measured with as many threads as the engine plays a round with. With a GPU, JAX is measured there.

  python benchmarks/limit.py                          everything that is installed, K from 20 to 10,000
  python benchmarks/limit.py --engine numpy           without JAX
  python benchmarks/limit.py --sizes 1000 --json      one size, figures as JSON
  python benchmarks/limit.py --sizes 1000 --profile   where a round's time goes
"""

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.speed import many_clients
from fedspd.algorithms.methods.fedspd_published import FedSPDPublished
from fedspd.engine import Simulation, draws, simulate
from fedspd.engine.jax_engine.session import installed, session
from fedspd.engine.numpy_engine import draw_round, drawn_parts
from fedspd.engine.participation import plan_course
from fedspd.engine.round import Played
from fedspd.engine.spending import Spending
from fedspd.typing import Batches

SIZES = (20, 100, 1000, 10_000)
RECORDS = 325  # of a client
TABLE = 2_200_000_000  # bytes of records at most, as float64
GOAL = 2.0
LARGE = 1000  # participants from which on the goal is set
REPEATS = 5
PIECE = 512  # rows gathered at a time, into a buffer that stays in a core's cache


@dataclass(frozen=True)
class Work:
    """What a round cannot do without."""

    gathered: int  # bytes of records, at random places
    streamed: int  # bytes of states, replies and noise, row by row in increasing order
    flops: int
    normals: int


@dataclass(frozen=True)
class Rates:
    """What the machine does in a second when it does nothing else."""

    gather: float  # bytes of rows
    copy: float  # bytes, read and written
    matmul: float  # flops
    normals: float


@dataclass(frozen=True)
class Row:
    """One engine at one size; times in milliseconds per round."""

    participants: int
    clients: int
    engine: str
    kind: str
    threads: int | None  # None: a GPU
    measured: float
    memory: float
    products: float
    noise: float
    rates: Rates

    @property
    def total(self) -> float:
        """The bound where nothing overlaps."""
        return self.memory + self.products + self.noise

    @property
    def largest(self) -> float:
        """The bound where everything overlaps."""
        return max(self.memory, self.products, self.noise)

    @property
    def binding(self) -> str:
        """What the largest is."""
        return max(("memory", "products", "noise"), key=lambda name: getattr(self, name))

    @property
    def figures(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {
            "sum": self.total,
            "max": self.largest,
            "ratio_to_sum": self.measured / self.total,
            "ratio_to_max": self.measured / self.largest,
            "binding": self.binding,
        }


def problem(participants: int, kind: Any) -> Simulation | None:
    """Ten times as many clients as take part, or as many as fit; rounds alone matter, so next to nothing is evaluated.

    None: the participants' records do not fit.
    """
    most = TABLE // (RECORDS * 81 * 8)  # the same number of clients for both types of numbers
    if most < participants:
        return None
    simulation = many_clients(min(10 * participants, most), RECORDS, kind)
    return replace(
        simulation,
        test=simulation.tested.rows(np.arange(1)),
        participants=participants,
        rounds=rounds(participants)[1],
        objective_every=0,
        spent_every_round=False,
        lagrangian=False,
    )


def rounds(participants: int) -> tuple[int, int]:
    """Few and many rounds, whose difference is timed."""
    few = max(2, 2000 // participants)
    return few, few + max(6, 20 * 400 // participants)


def work(simulation: Simulation) -> Work:
    """Counted from the method: see the first lines of this file."""
    columns, outputs = simulation.matrix
    assert simulation.batch_size is not None
    number = simulation.shards.features.dtype.itemsize
    records = simulation.participants * simulation.algorithm.local_steps * simulation.batch_size
    weights = simulation.participants * columns * outputs
    # read: two of the three state fields, the previous reply, the noise; written: three fields and the reply
    return Work(
        gathered=records * (columns * number + simulation.shards.labels.itemsize),
        streamed=8 * weights * number,
        flops=records * 2 * 2 * columns * (outputs - 1),
        normals=weights,
    )


def best(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The least seconds of several calls, after one that is not timed."""
    function()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def numpy_threads(participants: int) -> int:
    """On how many threads the NumPy engine plays a round."""
    return min(os.cpu_count() or 1, len(drawn_parts(participants)))


def random_rows(simulation: Simulation, least: int) -> Iterator[np.ndarray]:
    """Rows of records in the order in which rounds need them; of as many rounds as it takes to have `least` rows."""
    shards, round = simulation.shards, 0
    rng = np.random.default_rng(0)
    while True:
        some = []
        while sum(len(rows) for rows in some) < least:
            round += 1
            chosen = np.sort(rng.choice(shards.clients, simulation.participants, replace=False))
            records = draw_round(simulation, round, chosen).records
            some.append((shards.offsets[chosen][:, None, None] + records).ravel())
        yield np.concatenate(some)


def numpy_rates(simulation: Simulation, threads: int) -> Rates:
    """Of this machine's processor and memory, by NumPy on so many threads."""
    table = simulation.shards.features
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:

        def each(function: Callable[[int], Any]) -> None:
            list(pool.map(function, range(threads)))

        buffers = [np.empty((PIECE, table.shape[1]), table.dtype) for _ in range(threads)]
        fresh = random_rows(simulation, 20_000)
        gathers = []
        for _ in range(2 * REPEATS):
            rows = next(fresh)
            parts = [part[: len(part) // PIECE * PIECE] for part in np.array_split(rows, threads)]

            def gather(thread: int, parts: list[np.ndarray] = parts) -> None:
                for begin in range(0, len(parts[thread]), PIECE):
                    np.take(table, parts[thread][begin : begin + PIECE], 0, buffers[thread], "clip")

            begin = time.perf_counter()
            each(gather)
            taken = sum(len(part) for part in parts)
            gathers.append(taken * table.shape[1] * table.itemsize / (time.perf_counter() - begin))
    copy, matmul, normals = numpy_constants(table.dtype.name, threads)
    return Rates(max(gathers), copy, matmul, normals)


@cache
def numpy_constants(kind: str, threads: int) -> tuple[float, float, float]:
    """Rates that do not depend on the table: copy, matrix product, normals."""
    with ThreadPoolExecutor(threads) as pool:

        def each(function: Callable[[int], Any]) -> None:
            list(pool.map(function, range(threads)))

        length = (1 << 28) // np.dtype(kind).itemsize // threads
        source, target = (np.ones((threads, length), kind) for _ in range(2))
        copy = 2 * source.nbytes / best(lambda: each(lambda thread: np.copyto(target[thread], source[thread])))
        generators, count = [np.random.default_rng(thread) for thread in range(threads)], 1 << 20
        drawn = np.empty((threads, count), kind)

        def fill(thread: int) -> None:
            generators[thread].standard_normal(dtype=drawn.dtype.type, out=drawn[thread])

        normals = drawn.size / best(lambda: each(fill))
    side = 2048
    matrix = np.random.default_rng(0).standard_normal((side, side)).astype(kind)
    with threadpool_limits(threads, "blas"):
        matmul = 2 * side**3 / best(lambda: matrix @ matrix)
    return copy, matmul, normals


def numpy_seconds(simulation: Simulation) -> float:
    """Seconds per round, without start and evaluation: from the end of the first round to that of the last."""
    found = []
    for _ in range(3):
        ends: list[float] = []
        simulate(simulation, on_round=lambda ends=ends: ends.append(time.perf_counter()))
        found.append((ends[-1] - ends[0]) / (len(ends) - 1))
    return min(found)


def on_gpu() -> bool:
    """Whether JAX has something else than the processor."""
    import jax

    return jax.default_backend() != "cpu"


def jax_rates(simulation: Simulation) -> Rates:
    """Normals by JAX; the rest by JAX on a GPU, and by NumPy on all cores of a CPU, which JAX uses too."""
    import jax
    import jax.numpy as jnp

    kind, gpu = simulation.shards.features.dtype, on_gpu()
    count = 1 << (26 if gpu else 22)
    normal = jax.jit(lambda key: jax.random.normal(key, (count,), kind))
    normals = count / best(lambda: normal(jax.random.key(0)).block_until_ready())
    if not gpu:
        return replace(numpy_rates(simulation, os.cpu_count() or 1), normals=normals)
    table = jnp.asarray(simulation.shards.features)
    rows = jnp.asarray(next(random_rows(simulation, 1_000_000)), jnp.int32)
    taken, summed = jax.jit(lambda table, rows: table[rows]), jax.jit(lambda table, rows: table[rows].sum(axis=1))
    gather = min(best(lambda way=way: way(table, rows).block_until_ready()) for way in (taken, summed))
    copied, large = jax.jit(lambda array: array + 1), jnp.ones(1 << 29, kind)
    copy = best(lambda: copied(large).block_until_ready())
    side = 8192
    product, matrix = jax.jit(jnp.matmul), normal(jax.random.key(1))[: side * side].reshape(side, side)
    matmul = best(lambda: product(matrix, matrix).block_until_ready())
    row_bytes = table.shape[1] * table.dtype.itemsize
    return Rates(len(rows) * row_bytes / gather, 2 * large.nbytes / copy, 2 * side**3 / matmul, normals)


def jax_seconds(simulation: Simulation) -> float:
    """Seconds per round of the compiled program: of many rounds less those of few, over the difference."""
    few, many = rounds(simulation.participants)
    if on_gpu():
        many = few + 10 * (many - few)  # a round takes microseconds there
    seconds = [best(compiled(replace(simulation, rounds=count))) for count in (few, many)]
    return (seconds[1] - seconds[0]) / (many - few)


def compiled(simulation: Simulation) -> Callable[[], Any]:
    """All rounds as one program, with nothing measured; its inputs are on the device already."""
    import jax
    import jax.numpy as jnp

    from fedspd.engine.jax_engine.inputs import program_key
    from fedspd.engine.jax_engine.lanes import make_inputs
    from fedspd.engine.jax_engine.program import all_rounds

    shards = simulation.shards
    shape = program_key(simulation, shards.features.dtype, False)
    played = plan_course(simulation, Spending(simulation.plan, shards.clients, None, False))
    lane = jax.tree.map(jnp.asarray, make_inputs(simulation, played, shape, base=0, test=0, drawn=None))
    inputs = lane, jnp.asarray(shards.features), jnp.asarray(shards.labels)
    program = jax.jit(partial(all_rounds, shape)).lower(*inputs).compile()
    return lambda: jax.block_until_ready(program(*inputs))


def watched(name: str, function: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    """The same, whose processor seconds are added up."""

    def call(*given: Any) -> Any:
        begin = time.process_time()
        result = function(*given)
        spent[name] = spent.get(name, 0.0) + time.process_time() - begin
        return result

    return call


def numpy_profile(simulation: Simulation) -> Iterator[tuple[str, float]]:
    """Milliseconds of a processor per round of its parts, on one thread; the last line is all of it."""
    spent: dict[str, float] = {}

    @contextmanager
    def one_thread() -> Iterator[Any]:
        with threadpool_limits(1, "blas"):
            yield map

    engine, method = (sys.modules[name] for name in (draw_round.__module__, FedSPDPublished.__module__))
    places = [(engine, name) for name in ("_records", "gather_batches", "play", "gather", "scatter")]
    places += [(draws, "unit_noise"), (method, "proximal_steps"), (FedSPDPublished, "merge")]
    with ExitStack() as patches:
        patches.enter_context(patch.object(engine, "cores", one_thread))
        for place, name in places:
            patches.enter_context(patch.object(place, name, watched(name, getattr(place, name), spent)))
        runs = []
        for _ in range(3):
            spent.clear()
            begin = time.process_time()
            ends: list[float] = []
            simulate(simulation, on_round=lambda ends=ends: ends.append(time.process_time()))
            runs.append((ends[-1] - begin, dict(spent)))
    total, found = min(runs, key=lambda run: run[0])
    found = {name: 1e3 * seconds / simulation.rounds for name, seconds in found.items()}
    whole, steps = 1e3 * total / simulation.rounds, found.pop("proximal_steps")
    yield "draw which records", found["_records"]
    yield "draw noise", found["unit_noise"]
    yield "labels, and where records lie", found["gather_batches"]
    yield "local steps, which read the records", steps
    yield "dual and noise", found["play"] - steps
    yield "states and replies from and to tables", found["gather"] + found["scatter"]
    yield "merge", found["merge"]
    yield "participants, spending, start", whole - sum(found.values())
    yield "all", whole


def jax_profile(simulation: Simulation) -> Iterator[tuple[str, float]]:
    """Milliseconds per round that go away when a part is left out; the last line is all of it.

    The compiler fuses parts with each other, so these do not add up.
    """
    import jax
    import jax.numpy as jnp

    from fedspd.engine.jax_engine import draws, program

    def first_records(keys: Any, sizes: Any, count: int) -> Any:
        return jnp.broadcast_to(jnp.arange(count, dtype=jnp.int32), (len(sizes), count))

    def no_noise(key: Any, matrix: Any, kind: Any) -> Any:
        return jnp.zeros(matrix, kind)

    def always_the_same(shape: Any, turn: Any, keys: Any, features: Any, labels: Any) -> Any:
        size = shape.places * shape.steps * shape.batch
        rows = shape.places, shape.steps, shape.batch
        used = turn.records.sum() * 0  # records are still drawn
        return Batches(features[:size].reshape(*rows, -1), labels[:size].reshape(rows) + used, turn.divisor)

    def no_steps(algorithm: Any, told: Any, client: Any, batches: Any, scale: Any, noise: Any) -> Any:
        first = batches.features[:, 0, 0, :, None].sum() * 0  # records are still gathered
        return Played(client, noise + first, noise[:, 0, 0])

    parts = {
        "draw which records": (draws, "without_replacement", first_records),
        "draw noise": (draws, "normals", no_noise),
        "gather records": (program, "_batches", always_the_same),
        "everything a client computes": (program, "play", no_steps),
        "put each round's replies into the mean": (FedSPDPublished, "merge", lambda self, server, *given: server),
    }
    whole = 1e3 * jax_seconds(simulation)
    for name, (place, attribute, instead) in parts.items():
        with patch.object(place, attribute, instead):
            jax.clear_caches()
            yield name, whole - 1e3 * jax_seconds(simulation)
    yield "all", whole


def profile(participants: int, engine: str, kind: Any) -> Iterator[str]:
    """Where a round's time goes, as text."""
    simulation = problem(participants, kind)
    assert simulation is not None
    clock = "milliseconds of a processor" if engine == "numpy" else "milliseconds"
    yield f"\nK {participants}, {engine}, {np.dtype(kind).name}: {clock} per round"
    with session() if engine == "jax" else nullcontext():
        for name, spent in (jax_profile if engine == "jax" else numpy_profile)(simulation):
            yield f"  {name:44} {spent:9.3f}"


def measured(participants: int, engine: str, kind: Any) -> Row | None:
    """One row of the table."""
    simulation = problem(participants, kind)
    if simulation is None:
        return None
    if engine == "numpy":
        threads = numpy_threads(participants)
        rates, seconds = numpy_rates(simulation, threads), numpy_seconds(simulation)
    else:
        with session():
            threads = None if on_gpu() else os.cpu_count() or 1
            rates, seconds = jax_rates(simulation), jax_seconds(simulation)
    job = work(simulation)
    return Row(
        participants,
        simulation.shards.clients,
        engine,
        np.dtype(kind).name,
        threads,
        1e3 * seconds,
        1e3 * (job.gathered / rates.gather + job.streamed / rates.copy),
        1e3 * job.flops / rates.matmul,
        1e3 * job.normals / rates.normals,
        rates,
    )


def machine(engines: list[str]) -> dict[str, Any]:
    """What the figures were measured on."""
    packages = ["numpy", *(["jax"] if "jax" in engines else [])]
    found: dict[str, Any] = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
    if "jax" in engines:
        import jax

        found["device"] = jax.devices()[0].device_kind
    return found


def processor() -> str:
    """Its name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


HEAD = (
    f"{'K':>6} {'N':>7} {'engine':6} {'numbers':8} {'threads':>7} {'measured':>9} {'memory':>8} {'products':>8} "
    f"{'noise':>8} {'sum':>8} {'max':>8} {'/ sum':>6} {'/ max':>6}  binds"
)


def line(row: Row) -> str:
    """A row as text."""
    return (
        f"{row.participants:6d} {row.clients:7d} {row.engine:6} {row.kind:8} {row.threads or 'GPU':>7} "
        f"{row.measured:9.3f} {row.memory:8.3f} {row.products:8.3f} {row.noise:8.3f} {row.total:8.3f} "
        f"{row.largest:8.3f} {row.measured / row.total:6.2f} {row.measured / row.largest:6.2f}  {row.binding}"
    )


def rates_table(rows: list[Row]) -> Iterator[str]:
    """The rates behind the bounds."""
    yield (
        f"{'K':>6} {'engine':6} {'numbers':8} {'gather GB/s':>12} {'copy GB/s':>10} {'matmul GFLOP/s':>15} "
        f"{'normals M/s':>12}"
    )
    for row in rows:
        rates = row.rates
        yield (
            f"{row.participants:6d} {row.engine:6} {row.kind:8} {rates.gather / 1e9:12.2f} {rates.copy / 1e9:10.2f} "
            f"{rates.matmul / 1e9:15.1f} {rates.normals / 1e6:12.1f}"
        )


def verdicts(rows: list[Row]) -> Iterator[str]:
    """Whether the goal is met, row by row."""
    for row in rows:
        if row.participants >= LARGE:
            by_sum, by_max = ("met" if row.measured <= GOAL * bound else "missed" for bound in (row.total, row.largest))
            yield (
                f"K {row.participants}, {row.engine}, {row.kind}: within {GOAL:g}x of the sum {by_sum} "
                f"({row.measured / row.total:.2f}x), of the largest {by_max} ({row.measured / row.largest:.2f}x)"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="numpy,jax" if installed() else "numpy", help="numpy, jax or both")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="participants K, with commas")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of tables")
    parser.add_argument("--profile", action="store_true", help="where a round's time goes, instead of the bounds")
    options = parser.parse_args()
    engines = options.engine.split(",")
    if unknown := set(engines) - {"numpy", "jax"}:
        parser.error(f"--engine must be numpy, jax or both, got {', '.join(sorted(unknown))}.")
    if "jax" in engines and not installed():
        parser.error("--engine jax needs JAX, got none; install fedspd[jax], or use --engine numpy.")
    if options.profile and options.json:
        parser.error("--profile prints text; leave out --json.")
    cases = [("numpy", np.float64), ("numpy", np.float32), ("jax", np.float32)]
    about, rows = machine(engines), []
    if options.profile:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
        for participants in map(int, options.sizes.split(",")):
            for engine, kind in (case for case in cases if case[0] in engines):
                for text in profile(participants, engine, kind):
                    print(text, flush=True)
        return
    if not options.json:
        print(", ".join(f"{name} {value}" for name, value in about.items()))
        print("milliseconds per round\n" + HEAD)
    for participants in map(int, options.sizes.split(",")):
        for engine, kind in (case for case in cases if case[0] in engines):
            row = measured(participants, engine, kind)
            gc.collect()
            if row is not None:
                rows.append(row)
            if not options.json:
                print(
                    line(row) if row else f"{participants:6d} {engine}: records do not fit into {TABLE} bytes",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"machine": about, "rows": [row.figures for row in rows]}, indent=2))
        return
    print("\nrates of this machine at nothing else", *rates_table(rows), sep="\n")
    print("", *verdicts(rows), sep="\n")


if __name__ == "__main__":
    main()
