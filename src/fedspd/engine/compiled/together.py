"""Simulations on JAX, those of one shape side by side in one program."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedspd.algorithms import PrimalDual
from fedspd.engine.books import Books, Gate
from fedspd.engine.compiled.lanes import Lane, Shape, make_lane, shape_of
from fedspd.engine.compiled.program import Left, run_lanes
from fedspd.engine.compiled.session import session
from fedspd.engine.compiled.sharded import run_sharded
from fedspd.engine.diagnostics import Lagrangian, right, shares
from fedspd.engine.outcome import Trace, conclude
from fedspd.engine.parallel import Each, cores
from fedspd.engine.simulate import Draw
from fedspd.engine.simulation import Outcome, Simulation
from fedspd.engine.turns import Turn, turns

MEMORY = 1 << 30  # bytes of states, batches and scores side by side


class Ready(NamedTuple):
    """A simulation whose participants are known and paid for."""

    number: int
    simulation: Simulation
    books: Books
    played: list[Turn]


def simulate_together(
    simulations: Sequence[Simulation],
    gate: Gate | None = None,
    kind: Any = np.float32,
    drawn: Draw | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes with the numbers of their simulations, group by group.

    Args:
        simulations: what to run.
        gate: a ledger; every round of every simulation is charged before the first is played.
        kind: type of numbers on the clients; the server's are float64.
        drawn: draws handed in, in place of the device's own.
    """
    groups: dict[Shape, list[Ready]] = {}
    for number, simulation in enumerate(simulations):
        simulation.check()
        simulation.check_claims()
        shape = shape_of(simulation, kind, drawn is not None)
        books = Books(simulation.plan, simulation.shards.clients, gate, simulation.spent_every_round)
        ready = Ready(number, simulation, books, list(turns(simulation, books)))
        groups.setdefault(shape, []).append(ready)
    with cores() as each:
        for shape, group in groups.items():
            if jax.device_count() > 1 and len(group) == 1:
                yield _run_over_devices(shape, group[0], drawn, each)
                continue
            for some in _chunks(shape, group):
                yield from _run(shape, some, drawn, each)


def _chunks(shape: Shape, group: list[Ready]) -> Iterator[list[Ready]]:
    """Lanes that fit into memory together."""
    columns, outputs = shape.matrix
    numbers = 6 * shape.clients * columns * outputs + 2 * shape.places * shape.steps * shape.batch * columns
    numbers += shape.rounds * (len(group[0].simulation.test) + 2 * shape.places * shape.steps * shape.batch)
    size = max(1, min(len(group), MEMORY // (4 * numbers)))
    for begin in range(0, len(group), size):
        yield group[begin : begin + size]


def _run(shape: Shape, group: list[Ready], drawn: Draw | None, each: Each) -> Iterator[tuple[int, Outcome]]:
    tables, bases = _tables([ready.simulation for ready in group], shape.kind)
    lanes = [
        make_lane(ready.simulation, ready.played, shape, base, drawn) for ready, base in zip(group, bases, strict=True)
    ]
    found = _played(shape, lanes, tables, each)
    counts = _measure(group, found.models, shape.kind)
    for place, ready in enumerate(group):
        one: Left = jax.tree.map(lambda array, place=place: array[place], found)
        yield ready.number, _outcome(ready, one, lanes[place], counts[place], each)


def _run_over_devices(shape: Shape, ready: Ready, drawn: Draw | None, each: Each) -> tuple[int, Outcome]:
    lane = make_lane(ready.simulation, ready.played, shape, 0, drawn)
    spread, left = run_sharded(shape, lane, ready.simulation.shards)
    return ready.number, _outcome(ready, left, spread, None, each)


def _played(shape: Shape, lanes: list[Lane], tables: tuple[Any, Any], each: Each) -> Left:
    """All lanes; on a CPU one part of them per core, which a single program would leave idle."""
    parts = min(len(lanes), os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1
    size = -(-len(lanes) // parts)
    filled = lanes + lanes[-1:] * (parts * size - len(lanes))  # parts of one size share a program

    def part(begin: int) -> Left:
        stacked: Lane = jax.tree.map(lambda *arrays: np.stack(arrays), *filled[begin : begin + size])
        with session():  # JAX keeps its settings by thread
            return jax.tree.map(np.asarray, run_lanes(shape, stacked, *tables))

    left = list(each(part, range(0, len(filled), size)))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: len(lanes)], *left)


def _tables(simulations: list[Simulation], kind: str) -> tuple[tuple[Any, Any], list[int]]:
    """All distinct tables of records below each other, and the row where each simulation's begins."""
    begins: dict[int, int] = {}
    distinct, rows = [], 0
    for simulation in simulations:
        shards = simulation.shards
        if id(shards) not in begins:
            begins[id(shards)] = rows
            distinct.append(shards)
            rows += len(shards.labels)
    features = np.concatenate([shards.features.astype(kind, copy=False) for shards in distinct])
    labels = np.concatenate([shards.labels for shards in distinct])
    return (jnp.asarray(features), jnp.asarray(labels)), [begins[id(one.shards)] for one in simulations]


def _measure(group: list[Ready], models: np.ndarray, kind: str) -> np.ndarray:
    """(lanes, rounds): test records that each model predicts."""
    loss, rounds = group[0].simulation.algorithm.objective.loss, models.astype(kind)
    tests = {id(ready.simulation.test.features): ready.simulation.test for ready in group}
    counts = np.empty(models.shape[:2], np.int64)
    for name, test in tests.items():
        those = [place for place, ready in enumerate(group) if id(ready.simulation.test.features) == name]
        features, labels = jnp.asarray(test.features.astype(kind, copy=False)), jnp.asarray(test.labels)
        counts[those] = _right(loss, features, labels, rounds[those])
    return counts


@partial(jax.jit, static_argnums=0)
def _right(loss: Any, features: Any, labels: Any, models: Any) -> Any:
    return jax.lax.map(lambda lane: right(loss, features, labels, lane), models)


def _outcome(ready: Ready, left: Left, lane: Lane, counts: np.ndarray | None, each: Each) -> Outcome:
    simulation, played, rounds = ready.simulation, ready.played, len(ready.played)
    models = left.models[:rounds]
    present = lane.turns.present[:rounds]
    scales = (lane.turns.scale[:rounds] * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    steps = np.broadcast_to(left.inverse_step, (len(left.models),))[:rounds]
    trace = Trace(
        models, np.asarray(steps, float), scales.astype(float), np.asarray(left.clipped_share[:rounds], float)
    )
    lagrangian = _follow(simulation, lane, left.points, models, each) if simulation.lagrangian else None
    accuracy = None if counts is None else shares(counts[:rounds], models, len(simulation.test))
    return conclude(simulation, ready.books, played, trace, lagrangian, each, accuracy)


def _follow(simulation: Simulation, lane: Lane, points: PrimalDual, models: np.ndarray, each: Each) -> Lagrangian:
    algorithm, shape = simulation.algorithm, (simulation.shards.clients, *simulation.matrix)
    lagrangian = Lagrangian(
        algorithm.objective, simulation.shards, algorithm.penalty, each, np.zeros(shape), np.zeros(shape)
    )
    for number, model in enumerate(models):
        present = lane.turns.present[number]
        weights, dual = (np.asarray(part[number, present], float) for part in points)
        lagrangian.update(lane.turns.client[number, present], PrimalDual(weights, dual), model, number + 1)
    return lagrangian
