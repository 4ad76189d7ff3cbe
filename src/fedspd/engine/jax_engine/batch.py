"""Simulations on JAX, those of one shape side by side in one program."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import groupby
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedspd.algorithms.base import OnGraph
from fedspd.data import Shards
from fedspd.engine.jax_engine.chunks import Keeping, Program, first_rounds, follow, play_in_chunks, trace_of
from fedspd.engine.jax_engine.hosts import of_the_first
from fedspd.engine.jax_engine.inputs import ProgramKey, RunInputs, drawn_on_host, program_key
from fedspd.engine.jax_engine.lanes import Lane, kin, make_inputs, stacked, stacked_inputs, taken
from fedspd.engine.jax_engine.program import RoundOutputs, counts_of, first_tables_of, rounds_of, run_and_measure
from fedspd.engine.jax_engine.session import session
from fedspd.engine.jax_engine.sharded import over_devices
from fedspd.engine.keeping import Standing
from fedspd.engine.measuring.diagnostics import Lagrangian, shares
from fedspd.engine.measuring.outcome import Trace, outcome_of, require_rounds
from fedspd.engine.numpy_engine import GivenDraws
from fedspd.engine.parallel import ParallelMap, cores
from fedspd.engine.participation import Course, free_rounds, plan_course
from fedspd.engine.simulation import Outcome, Simulation, check_claims
from fedspd.engine.spending import Gate, Spending
from fedspd.errors import InputError

MEMORY = 1 << 30  # bytes of states, batches and scores side by side on a CPU
DEVICE_MEMORY = 16 << 30  # on other devices
WHOLE = Keeping()  # all rounds in one program


class PaidRun(NamedTuple):
    """A simulation whose participants are known and paid for."""

    number: int
    kin: int  # its number
    spending: Spending
    lane: Lane

    @property
    def simulation(self) -> Simulation:
        """What is run."""
        return self.lane.simulation

    @property
    def course(self) -> Course:
        """Who takes part in it."""
        return self.lane.course


def simulate_batch(
    simulations: Sequence[Simulation],
    gate: Gate | None = None,
    kind: Any = np.float32,
    drawn: GivenDraws | None = None,
    keeping: Keeping = WHOLE,
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes with the numbers of their simulations, group by group.

    Args:
        simulations: what to run.
        gate: a ledger; every round of every simulation is charged before the first is played.
        kind: type of numbers on the clients; the server's are float64, and clients' too where a method is exact.
        drawn: draws handed in, in place of the device's own.
        keeping: how a single simulation is kept between chunks of its rounds.
    """
    groups: dict[ProgramKey, list[PaidRun]] = {}
    for number, own in enumerate(kin(simulations)):
        shape, runs = _paid(number, [(place, simulations[place]) for place in own], gate, kind, drawn)
        groups.setdefault(shape, []).extend(runs)
    with cores() as each:
        for shape, group in groups.items():
            if jax.device_count() > 1 and len(group) == 1:
                yield _run_over_devices(shape, group[0], each, keeping)
                continue
            if keeping.length < shape.rounds:
                yield _run_in_chunks(shape, group[0], each, keeping)
                continue
            size = _abreast(shape, len(group))
            for begin in range(0, len(group), size):
                yield from _run(shape, group[begin : begin + size], size, each)


def _paid(
    kin: int, simulations: list[tuple[int, Simulation]], gate: Gate | None, kind: Any, drawn: GivenDraws | None
) -> tuple[ProgramKey, list[PaidRun]]:
    """Kin, each with its participants; what they share is asked for once."""
    first = simulations[0][1]
    check_claims(first.algorithm, first.plan, prod(first.matrix))
    _check_devices(first)
    handed_in = (drawn or drawn_on_host(first)) is not None
    shape = program_key(first, np.float64 if first.algorithm.exact else kind, handed_in)
    unspent = Spending(first.plan, first.shards.clients, gate, first.spent_every_round)
    free, runs = free_rounds(first), []
    for number, simulation in simulations:
        spending = unspent.again()
        course = plan_course(simulation, spending, free)
        require_rounds(course)
        runs.append(PaidRun(number, kin, spending, Lane(simulation, course, drawn or drawn_on_host(simulation))))
    return shape, runs


def _check_devices(simulation: Simulation) -> None:
    """Refuse what clients of one device would have to hear from clients of another."""
    algorithm = simulation.algorithm
    topology = algorithm.network.topology if isinstance(algorithm, OnGraph) else None
    if jax.device_count() > 1 and topology is not None:
        raise InputError(
            f"a topology other than star runs on one device, got {topology.name} and {jax.device_count()} "
            "devices; show JAX one of them only, or use --engine numpy."
        )


def _abreast(shape: ProgramKey, count: int) -> int:
    """How many of so many lanes go into one call: as many as fit into memory, and every call about as many."""
    columns, outputs = shape.matrix
    drawn = shape.places * (shape.steps * shape.batch + shape.away)
    numbers = 6 * shape.clients * columns * outputs + 2 * drawn * columns + shape.rounds * (shape.tested + 2 * drawn)
    fit = max(1, (MEMORY if jax.default_backend() == "cpu" else DEVICE_MEMORY) // (4 * numbers))
    return -(-count // -(-count // fit))


def _run(shape: ProgramKey, group: list[PaidRun], size: int, each: ParallelMap) -> Iterator[tuple[int, Outcome]]:
    simulations = [ready.simulation for ready in group]
    with session():
        records, bases = _tables(simulations, shape.kind)
        tests, numbers = _test_tables(simulations, shape.kind)
        parts = []
        for _, places in groupby(range(len(group)), key=lambda place: group[place].kin):
            own = list(places)
            parts.append(stacked_inputs([group[one].lane for one in own], shape, bases[own[0]], numbers[own[0]]))
        lanes = stacked(parts)
        found, counts = _played(shape, lanes, size, (*records, *tests), each)
    trace = trace_of(lanes, found)
    accuracy = None if counts is None else shares(counts, trace.models, shape.tested)
    for place, ready in enumerate(group):
        own = first_rounds(Trace(*(column[place] for column in trace)), len(ready.course.turns))
        lagrangian = _lagrangian(ready.simulation, each)
        if lagrangian is not None:
            follow(lagrangian, taken(lanes, place), taken(found.points, place), own.models)
        reached = None if accuracy is None else accuracy[place, : len(own.models)]
        yield ready.number, outcome_of(ready.simulation, ready.spending, ready.course, own, lagrangian, each, reached)


def _run_over_devices(shape: ProgramKey, ready: PaidRun, each: ParallelMap, keeping: Keeping) -> tuple[int, Outcome]:
    lane = make_inputs(*ready.lane[:2], shape, 0, 0, ready.lane.drawn)
    standing = _standing(ready.simulation, each)
    with session():
        keeping = keeping._replace(length=of_the_first(min(keeping.length, shape.rounds)))
        spread, program = over_devices(shape, lane, ready.simulation.shards, keeping.length)
        play_in_chunks(program, spread, len(ready.course.turns), standing, keeping)
    return ready.number, _concluded(ready, standing, None, each)


def _run_in_chunks(shape: ProgramKey, ready: PaidRun, each: ParallelMap, keeping: Keeping) -> tuple[int, Outcome]:
    standing, part = _standing(ready.simulation, each), shape._replace(rounds=keeping.length)
    with session():
        records, _ = _tables([ready.simulation], shape.kind)
        tests, (test,) = _test_tables([ready.simulation], shape.kind)
        lane = make_inputs(*ready.lane[:2], shape, 0, test, ready.lane.drawn)
        program = Program(
            shape.clients,
            partial(first_tables_of, part),
            lambda piece, tables: rounds_of(part, piece, tables, *records),
            partial(jax.tree.map, jnp.array),
        )
        play_in_chunks(program, lane, len(ready.course.turns), standing, keeping)
        models = np.array(standing.models)[None]
        counts = counts_of(shape, jax.tree.map(lambda array: array[None], lane), models, *tests)
    return ready.number, _concluded(ready, standing, None if counts is None else np.asarray(counts[0]), each)


def _played(
    shape: ProgramKey, lanes: RunInputs, size: int, tables: tuple[Any, ...], each: ParallelMap
) -> tuple[RoundOutputs, np.ndarray | None]:
    """All lanes; on a CPU one part of them per core, which a single program would leave idle."""
    count, parts = len(lanes.seed), min(size, os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1
    size = -(-size // parts)
    if missing := parts * size - count:  # parts of one size share a program
        lanes = stacked([lanes, *[taken(lanes, slice(-1, None))] * missing])

    def part(begin: int) -> tuple[RoundOutputs, np.ndarray | None]:
        with session():  # JAX keeps its settings by thread
            return jax.tree.map(np.asarray, run_and_measure(shape, taken(lanes, slice(begin, begin + size)), *tables))

    left = list(each(part, range(0, parts * size, size)))
    whole = left[0] if parts == 1 else jax.tree.map(lambda *arrays: np.concatenate(arrays), *left)
    return jax.tree.map(lambda array: array[:count], whole)


def _tables(simulations: list[Simulation], kind: str) -> tuple[tuple[Any, Any], list[int]]:
    """All distinct tables of records below each other, and the row where each simulation's begins."""
    begins: dict[Shards, int] = {}
    rows = 0
    for simulation in simulations:
        if simulation.shards not in begins:
            begins[simulation.shards] = rows
            rows += len(simulation.shards.labels)
    return _on_device(tuple(begins), kind), [begins[one.shards] for one in simulations]


@lru_cache(maxsize=1)  # lots of a sweep, and runs in turn, mostly use the same records
def _on_device(tables: tuple[Shards, ...], kind: str) -> tuple[Any, Any]:
    features = np.concatenate([shards.features.astype(kind, copy=False) for shards in tables])
    return jnp.asarray(features), jnp.asarray(np.concatenate([shards.labels for shards in tables]))


def _test_tables(simulations: list[Simulation], kind: str) -> tuple[tuple[Any, Any], list[int]]:
    """All distinct test tables in a stack, and each simulation's number in it."""
    distinct = {id(one.test): one.test for one in simulations if one.test is not None}
    if not distinct:
        return (None, None), [0] * len(simulations)
    numbers = {name: number for number, name in enumerate(distinct)}
    features = jnp.asarray(np.stack([table.features.astype(kind, copy=False) for table in distinct.values()]))
    labels = jnp.asarray(np.stack([table.labels for table in distinct.values()]))
    return (features, labels), [numbers[id(simulation.test)] for simulation in simulations]


def _concluded(ready: PaidRun, standing: Standing, counts: np.ndarray | None, each: ParallelMap) -> Outcome:
    trace, simulation = Trace(np.array(standing.models), *np.array(standing.rows).reshape(-1, 3).T), ready.simulation
    tested = 0 if simulation.test is None else len(simulation.test)
    accuracy = None if counts is None else shares(counts[: len(trace.models)], trace.models, tested)
    return outcome_of(simulation, ready.spending, ready.course, trace, standing.lagrangian, each, accuracy)


def _standing(simulation: Simulation, each: ParallelMap) -> Standing:
    return Standing(None, None, None, _lagrangian(simulation, each))


def _lagrangian(simulation: Simulation, each: ParallelMap) -> Lagrangian | None:
    if not simulation.lagrangian:
        return None
    algorithm, shape = simulation.algorithm, (simulation.shards.clients, *simulation.matrix)
    zero = np.zeros(shape), np.zeros(shape)
    return Lagrangian(algorithm.objective, simulation.shards, algorithm.penalty, each, *zero)
