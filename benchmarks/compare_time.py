"""How long `fedspd compare` takes in full, estimated from a sample of its runs: processor seconds, and what for.

Its runs are put in the order in which workers get them, in parts, and every n-th part is played. What a worker still
remembers is there: the parts that it had before are prepared, and not timed. A method counts by how many runs it has.

Examples:
    OPENBLAS_NUM_THREADS=1 python benchmarks/compare_time.py
    OPENBLAS_NUM_THREADS=1 python benchmarks/compare_time.py --every 20
"""

import argparse
import os
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fedspd.assemble.build import prepare_experiment
from fedspd.assemble.many import in_parts
from fedspd.assemble.records.scaling import Memory, memory
from fedspd.assemble.run import conclude, on_engine
from fedspd.config import Config, changed
from fedspd.engine import simulate
from fedspd.engine.parallel import stay_on_one_core
from fedspd.errors import InputError
from fedspd.studies import compare, jobs
from fedspd.studies.compare.plan import configuration
from fedspd.studies.lineup import UNTUNED
from fedspd.studies.tuning import FINALISTS, POINTS, SEEDS, grid_of, trials

CORES, RUNS = 2, 10
BEFORE = 5  # parts that were a worker's before
LEGS = ("preparing", "rounds", "measuring", "keeping")
TWO_DEALS = ("iid", "dirichlet")
GROUNDS = tuple(
    compare.Ground(name, (("data.name", name),), deals=compare.ADULT.deals if name == "adult" else TWO_DEALS)
    for name in compare.DATA
)


class Clock:
    """Processor seconds by kind of run and by what they went for."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self.runs: Counter[str] = Counter()

    @contextmanager
    def on(self, kind: str, leg: str) -> Iterator[None]:
        """Time a leg of a run of this kind."""
        begin = time.process_time()
        yield
        self.seconds[kind, leg] += time.process_time() - begin

    def mean(self, kind: str, leg: str) -> float:
        """Of a run of this kind, or of any if none was played."""
        if self.runs[kind]:
            return self.seconds[kind, leg] / self.runs[kind]
        return sum(seconds for (_, own), seconds in self.seconds.items() if own == leg) / self.runs.total()


def kind_of(config: Config) -> str:
    """A method; by rule with as many rounds as it wants it takes ten times as long."""
    return config.algorithm.name + (", rounds by rule" if config.run.rounds is None else "")


def listed(cells: list[compare.Cell]) -> list[list[Config]]:
    """What is run one after another: points with one seed, the finalists with others (here the first), every seed."""
    whole = [configuration(cell) for cell in cells]
    points = [grid_of(one.algorithm.method, board=True) for one in whole]
    tuned = [number for number, cell in enumerate(cells) if cell.method not in UNTUNED]
    chosen = [changed(one, points[number][POINTS // 2] if number in tuned else {}) for number, one in enumerate(whole)]
    return [
        [trial for number in tuned for trial in trials(whole[number], points[number], SEEDS[:1])],
        [trial for number in tuned for trial in trials(whole[number], points[number][:FINALISTS], SEEDS[1:])],
        [changed(one, {"run.seed": seed}) for one in chosen for seed in range(RUNS)],
    ]


def play(config: Config, clock: Clock, known: Memory) -> None:
    """One run, each leg on its clock."""
    kind, ends = kind_of(config), [0.0]
    config = on_engine(config, "numpy")
    clock.runs[kind] += 1
    with clock.on(kind, "preparing"):
        try:
            experiment = prepare_experiment(config, known=known)
        except InputError:  # a deal may have a client that is too small for a method
            return
    begin = time.process_time()
    outcome = simulate(experiment.simulation, lambda: ends.append(time.process_time()))
    clock.seconds[kind, "rounds"] += ends[-1] - begin
    run = conclude(experiment, outcome, "numpy", 0.0)
    clock.seconds[kind, "measuring"] += time.process_time() - ends[-1]
    with clock.on(kind, "keeping"):
        jobs.keep(jobs.run_key(config), jobs.kept(jobs.Result(run.summary, run.history)))


def sample(phases: list[list[Config]], every: int) -> Clock:
    """Every n-th part, played."""
    clock, known = Clock(), memory()
    for phase in phases:
        parts = in_parts(list(enumerate(phase)), CORES)
        for number in range(every // 2, len(parts), every):
            before = parts[max(0, number - BEFORE * CORES) : number : CORES]
            for config in [config for part in before for _, config in part]:
                with suppress(InputError):
                    prepare_experiment(on_engine(config, "numpy"), known=known)
            for _, config in parts[number]:
                play(config, clock, known)
    return clock


def main() -> None:
    """Print seconds by kind of run and by leg, and the estimate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=60, help="of so many parts, one is played")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # a run that diverged says so itself
    stay_on_one_core()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        begin = time.process_time()
        cells, _ = compare.only_possible(compare.cells(grounds=GROUNDS))
        phases = listed(cells)
        listing = time.process_time() - begin
        clock = sample(phases, options.every)
    count = Counter(kind_of(config) for phase in phases for config in phase)
    legs = {leg: sum(clock.mean(kind, leg) * count[kind] for kind in count) for leg in LEGS} | {"listing": listing}
    whole = sum(legs.values())
    print(f"{'':24}{'runs':>7}{'played':>8}{'s a run':>10}{'share':>8}")
    for kind in sorted(count):
        mean = sum(clock.mean(kind, leg) for leg in LEGS)
        print(f"{kind:24}{count[kind]:7}{clock.runs[kind]:8}{mean:10.3f}{mean * count[kind] / whole:8.1%}")
    print(", ".join(f"{leg} {seconds / whole:.1%}" for leg, seconds in legs.items()))
    minutes = whole / 60
    print(f"{count.total()} runs, {clock.runs.total()} played: {minutes:.1f} minutes of a core, half of it on two")


if __name__ == "__main__":
    main()
