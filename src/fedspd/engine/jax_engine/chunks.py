"""A long run on JAX in chunks of rounds, each the same program: between two of them it can be kept.

How many rounds a chunk has follows from public numbers alone, and a clock decides only whether something is written.
So a run that was cut off plays the chunks that it would have played.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from fedspd.algorithms import PrimalDual
from fedspd.engine.jax_engine.hosts import kept_by_the_first, of_the_first, whole
from fedspd.engine.jax_engine.inputs import RoundArrays, RunInputs
from fedspd.engine.jax_engine.program import RoundOutputs
from fedspd.engine.keeping import Keeper, Standing
from fedspd.engine.measuring.diagnostics import Lagrangian
from fedspd.engine.measuring.outcome import Trace


class Program(NamedTuple):
    """Some rounds of a run, on one device or on several."""

    nobody: int  # row of the clients' tables on a device where nobody is
    begin: Callable[[RunInputs], Any]  # tables before the first round
    play: Callable[[RunInputs, Any], tuple[Any, RoundOutputs]]  # tables after some rounds
    place: Callable[[Any], Any]  # tables of this host, on the devices


class Keeping(NamedTuple):
    """How a run is kept between its rounds."""

    length: int = 1 << 62  # rounds of a chunk; all, where there are no more
    keeper: Keeper | None = None  # of several processes, the first keeps
    on_round: Callable[[], Any] = lambda: None  # called for every round, after its chunk


def play_in_chunks(
    program: Program,
    lane: RunInputs,
    rounds: int,
    standing: Standing,
    keeping: Keeping,
) -> None:
    """Play a run from its begin or from where it was cut off; in the end all its rounds are in `standing`.

    Args:
        program: of so many rounds as a chunk has.
        lane: all rounds of the run.
        rounds: that are to be played.
        standing: what rounds leave behind; its tables are filled only when they are kept.
        keeping: how long chunks are, and where they are kept.
    """
    length, keeper, on_round = keeping.length, keeping.keeper, keeping.on_round
    tables = program.begin(_piece(lane, 0, length, program.nobody))
    shapes = jax.tree.map(lambda table: jax.ShapeDtypeStruct(table.shape, table.dtype), tables)
    standing.server, standing.clients, standing.replies = shapes
    kept = kept_by_the_first(None if keeper is None else keeper.read(played_by()))
    if kept is not None:
        del tables
        standing.restore(kept)
        tables = program.place((standing.server, standing.clients, standing.replies))
        standing.server, standing.clients, standing.replies = shapes
        del kept
    for _ in standing.models:
        on_round()
    while (done := len(standing.models)) < rounds:
        piece = _piece(lane, done, length, program.nobody)
        tables, left = program.play(piece, tables)
        left = jax.tree.map(np.asarray, left)
        add_rounds(standing, piece, left, min(length, rounds - done))
        if of_the_first(keeper is not None and keeper.is_due()):
            standing.server, standing.clients, standing.replies = whole(tables)
            if keeper is not None:
                keeper.keep(standing, played_by())
            standing.server, standing.clients, standing.replies = shapes
        for _ in standing.models[done:]:
            on_round()


def played_by() -> str:
    """The means by which rounds are played: others round differently."""
    return (
        f"JAX {jax.__version__} with {jax.device_count()} {jax.default_backend()} device(s) in {jax.process_count()} "
        "process(es)"
    )


def add_rounds(standing: Standing, lane: RunInputs, left: RoundOutputs, rounds: int) -> None:
    """Note what the first rounds of a lane left behind."""
    trace, before = first_rounds(trace_of(lane, left), rounds), len(standing.models)
    standing.models.extend(trace.models)
    standing.rows.extend(zip(*(column.tolist() for column in trace[1:]), strict=True))
    if standing.lagrangian is not None:
        follow(standing.lagrangian, lane, left.points, trace.models, before)


def trace_of(lane: RunInputs, left: RoundOutputs) -> Trace:
    """What the rounds of a lane left behind, in columns; or those of stacked lanes."""
    present = lane.turns.present
    scales = (lane.turns.scale * present).sum(axis=-1) / np.maximum(present.sum(axis=-1), 1)
    steps = np.broadcast_to(left.inverse_step, scales.shape)
    return Trace(left.models, np.asarray(steps, float), scales.astype(float), np.asarray(left.clipped_share, float))


def first_rounds(trace: Trace, rounds: int) -> Trace:
    """Of a program's rounds those that were played."""
    return Trace(*(column[:rounds] for column in trace))


def follow(lagrangian: Lagrangian, lane: RunInputs, points: PrimalDual, models: np.ndarray, before: int = 0) -> None:
    """Bring an augmented Lagrangian up to date, after so many rounds before."""
    for number, model in enumerate(models):
        present = lane.turns.present[number]
        weights, dual = (np.asarray(part[number, present], float) for part in points)
        lagrangian.update(lane.turns.client[number, present], PrimalDual(weights, dual), model, before + number + 1)


def _piece(lane: RunInputs, first: int, length: int, nobody: int) -> RunInputs:
    """Some rounds of a lane; nobody is in those beyond its last."""
    numbers, last = np.arange(first, first + length), len(lane.turns.round) - 1
    turns = RoundArrays(*(None if each is None else each[np.minimum(numbers, last)] for each in lane.turns))
    present = turns.present & (numbers <= last)[:, None]
    row = np.where(present, turns.row, nobody).astype(turns.row.dtype)
    return lane._replace(turns=turns._replace(present=present, row=row))
