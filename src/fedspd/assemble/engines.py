"""Which engine runs what: a rule on sizes alone, with constants measured by `make bench` and `make bench-limit`."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fedspd.config import Config
from fedspd.engine import Outcome, Simulation
from fedspd.engine.jax_engine.inputs import check_sampling
from fedspd.engine.jax_engine.session import installed, require
from fedspd.engine.keeping import Keeper
from fedspd.engine.spending import Gate
from fedspd.privacy import POISSON

ROUND_SECONDS = 1e-3  # of NumPy per round, whatever its size: benchmarks/limit.py, K 20
RECORD_SECONDS = 6e-7  # of NumPy per record of a round: benchmarks/limit.py, K 1000
GAIN = 2.0  # how much faster JAX is on the same CPU, once compiled: benchmarks/speed.py
COMPILE_SECONDS = 8.0  # importing JAX and compiling one shape
STEP_SECONDS = 0.2  # and compiling another local step: 2.8, 6.6 and 13.9 s of a processor for 1, 20 and 60 of them
ACCELERATORS = ("/dev/nvidia0", "/dev/kfd", "/dev/accel0")


def check_engine(config: Config) -> None:
    """Refuse an engine that is not there or cannot run this, by settings alone: before a ledger is opened."""
    work = config.algorithm.work
    if config.run.engine == "jax":
        require()
        if work.batch_size is not None:
            check_sampling(work.sampling)


def pick_engine(config: Config, simulation: Simulation, runs: int, charged: bool) -> str:
    """NumPy for what is over before JAX has compiled, JAX for many runs of one shape or on an accelerator.

    Args:
        config: its `run.engine` decides, unless that is "auto".
        simulation: one of the runs.
        runs: how many of this shape there are.
        charged: whether a ledger is charged: NumPy charges round by round, JAX all rounds before the first.
    """
    if config.run.engine != "auto":
        return config.run.engine
    if not installed() or charged or simulation.plan.sampling == POISSON:
        return "numpy"
    if any(Path(device).exists() for device in ACCELERATORS):
        return "jax"
    if simulation.algorithm.exact:  # as fast in NumPy: the time goes into solving linear systems
        return "numpy"
    saved = (1 - 1 / GAIN) * runs * numpy_seconds(simulation)
    return "jax" if saved > COMPILE_SECONDS + STEP_SECONDS * simulation.algorithm.local_steps else "numpy"


def numpy_seconds(simulation: Simulation) -> float:
    """About what NumPy needs for the rounds of a run."""
    mean_size = len(simulation.shards.labels) / simulation.shards.clients
    records = simulation.algorithm.local_steps * simulation.batch_size if simulation.batch_size else mean_size
    if simulation.members is not None:
        records = simulation.members.divisor
    return simulation.rounds * (ROUND_SECONDS + simulation.participants * records * RECORD_SECONDS)


def compiled(
    simulations: Sequence[Simulation],
    gate: Gate | None = None,
    keeper: Keeper | None = None,
    on_round: Callable[[], Any] = lambda: None,
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes of the JAX engine with the numbers of their simulations, those of one shape together.

    Args:
        gate: a ledger.
        keeper: keeps where a single simulation stands, and knows where it stood when it was cut off.
        on_round: called for every round of a run that is played in chunks.
    """
    require()
    from fedspd.engine.jax_engine.batch import simulate_batch  # imports JAX, which takes a second
    from fedspd.engine.jax_engine.chunks import Keeping

    if keeper is None:
        return simulate_batch(simulations, gate)
    keeping = Keeping(chunk_rounds(simulations[0], keeper.every), keeper, on_round)
    return simulate_batch(simulations, gate, keeping=keeping)


def chunk_rounds(simulation: Simulation, every: float) -> int:
    """Rounds of a chunk between two moments at which a run on JAX may be kept, where that is so many seconds apart.

    As many as NumPy plays in that time, by sizes alone: a run that was cut off has the chunks of one that was not. At
    least two, for a compiler takes a loop of one round apart, and what it makes of it rounds differently.
    """
    return max(2, int(min(simulation.rounds, every * simulation.rounds / numpy_seconds(simulation))))
