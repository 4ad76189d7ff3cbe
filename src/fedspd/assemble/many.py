"""Many runs: those of one shape in one compiled program, or each on a core of its own."""

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from fedspd.assemble.alike import Numbered, alike, lots
from fedspd.assemble.build import Experiment, prepare_experiment
from fedspd.assemble.engines import compiled, pick_engine
from fedspd.assemble.extensions import Brought, bring, brought
from fedspd.assemble.records.deal import deal_seed
from fedspd.assemble.records.scaling import memory
from fedspd.assemble.run import Run, conclude, execute, on_engine
from fedspd.config import Config
from fedspd.engine import Outcome
from fedspd.engine.measuring.measures import measures_of_many
from fedspd.engine.parallel import ParallelMap, cores, stay_on_one_core
from fedspd.errors import InputError

Ended = TypeVar("Ended")
CHUNK = 8  # runs handed to a process at a time
CONCLUDED = 256  # compiled runs summed up side by side
_KNOWN = memory()  # of a process that runs one after another


def run_or_refuse(configs: Sequence[Config]) -> Iterator[tuple[int, Run | InputError]]:
    """Runs on NumPy with their numbers in `configs`, as they come; in place of one that cannot be, why not."""
    return _run_apart(list(enumerate(configs)), _run_or_refuse)


def run_many(configs: Sequence[Config], engine: str = "auto") -> Iterator[tuple[int, Run]]:
    """Finished runs with their numbers in `configs`, as they come.

    Args:
        configs: what to run.
        engine: for those whose `run.engine` is "auto".
    """
    numbered = [
        (number, on_engine(config, engine) if config.run.engine == "auto" else config)
        for number, config in enumerate(configs)
    ]
    alone: list[tuple[int, Config]] = []
    for group in alike(numbered):
        if _engine(group) == "jax":
            yield from _run_together(group)
        else:
            alone += group
    if alone:
        yield from _run_apart(alone, _run_one)


def _engine(group: Numbered) -> str:
    """What runs a group; only where it is left open is one of its runs prepared to see."""
    config = group[0][1]
    if config.run.engine != "auto":
        return config.run.engine
    return pick_engine(config, prepare_experiment(config).simulation, len(group), charged=False)


def _run_together(group: Numbered) -> Iterator[tuple[int, Run]]:
    """In lots whose tables fit into memory."""
    started = time.perf_counter()
    for lot in lots(group):
        prepared = [experiment for _, experiment in lot]
        outcomes = compiled([experiment.simulation for experiment in prepared])
        with cores() as threads:
            while some := list(islice(outcomes, CONCLUDED)):
                seconds = (time.perf_counter() - started) / len(lot)
                measures = _measured(prepared, some, threads)
                for place, outcome in some:
                    run = conclude(prepared[place], outcome, "jax", seconds, measures[place])
                    yield lot[place][0], run
        started = time.perf_counter()


def _measured(
    prepared: Sequence[Experiment], some: Sequence[tuple[int, Outcome]], each: ParallelMap
) -> dict[int, dict[str, Any]]:
    """What runs reach on the test set: those that share one together."""
    together: dict[Any, list[tuple[int, Outcome]]] = {}
    for place, outcome in some:
        simulation = prepared[place].simulation
        together.setdefault((id(simulation.test), simulation.algorithm.objective.loss), []).append((place, outcome))
    found: dict[int, dict[str, Any]] = {}
    for (_, loss), own in together.items():
        weights = np.array([outcome.weights for _, outcome in own])
        averages = np.array([outcome.average(prepared[place].config.run.average_last) for place, outcome in own])
        measures = measures_of_many(prepared[own[0][0]].simulation.test, loss, weights, averages, each)
        found |= {place: measured for (place, _), measured in zip(own, measures, strict=True)}
    return found


def _run_apart(numbered: list[tuple[int, Config]], run: Callable[[Config], Ended]) -> Iterator[tuple[int, Ended]]:
    """On all cores, each run in one process."""
    workers = min(len(numbered), os.cpu_count() or 1)
    parts = in_parts(numbered, workers)
    # Started afresh rather than forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(brought(),)) as pool:
        try:
            jobs = [pool.submit(_run_some, part, run) for part in parts]
            for job in as_completed(jobs):
                yield from job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def in_parts(numbered: Numbered, workers: int) -> list[list[tuple[int, Config]]]:
    """What a worker is handed at a time, in the order in which it is handed out."""
    ordered = sorted(numbered, key=lambda one: _costly_first(one[1]))
    size = max(1, min(CHUNK, len(ordered) // (2 * workers)))
    return [ordered[begin : begin + size] for begin in range(0, len(ordered), size)]


def _costly_first(config: Config) -> tuple[Any, ...]:
    """What takes long comes first, so that no core is left with it in the end; then runs that share their records.

    Deals and scaled records follow from the data, the partition, the budget and the seed, and a worker remembers them.
    """
    shared = (repr(config.data), repr(config.partition), config.problem.counts)
    return not config.algorithm.method.kind.exact, *shared, config.privacy.epsilon, deal_seed(config)


def _begin(things: Brought) -> None:
    """What the parent has registered is known here, too."""
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # a run that diverged says so itself
    bring(things)
    stay_on_one_core()
    end_with_parent()


def end_with_parent() -> None:
    """A killed parent cannot tell its workers; each watches it instead."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_some(numbered: list[tuple[int, Config]], run: Callable[[Config], Ended]) -> list[tuple[int, Ended]]:
    return [(number, run(on_engine(config, "numpy"))) for number, config in numbered]


def _run_one(config: Config) -> Run:
    return execute(prepare_experiment(config, known=_KNOWN))


def _run_or_refuse(config: Config) -> Run | InputError:
    try:
        return _run_one(config)
    except InputError as error:
        return error
