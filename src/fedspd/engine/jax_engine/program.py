"""All rounds of a simulation as one compiled program: the algorithms' own legs under `scan` and `vmap`."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedspd.engine.draws import NOBODY
from fedspd.engine.jax_engine import draws
from fedspd.engine.jax_engine.inputs import ProgramKey, RoundArrays, RunInputs
from fedspd.engine.jax_engine.numbers import put_together
from fedspd.engine.measuring.diagnostics import right
from fedspd.engine.release import Drawn, release
from fedspd.engine.round import play, play_free
from fedspd.typing import Argmin, Batches, Query, Release

BLOCK = 256  # participants whose draws are made together on a CPU
AHEAD = 1 << 23  # normals of a lane that are drawn before its first round, 32 MiB
ABREAST = 3  # lanes side by side on a CPU, whose caches hold no more
MEASURED = 32  # lanes whose models are measured together on other devices


class RoundOutputs(NamedTuple):
    """What the rounds of a lane leave behind."""

    models: Any  # (rounds, columns, outputs), float64
    inverse_step: Any
    clipped_share: Any
    points: Any  # (rounds, places, ...) where they are wanted


def all_rounds(
    shape: ProgramKey, lane: RunInputs, features: Any, labels: Any, collect: Callable[[Any], Any] = lambda x: x
) -> RoundOutputs:
    """One lane.

    Args:
        shape: what is compiled in.
        lane: its inputs.
        features: the flat table of records.
        labels: of the records.
        collect: puts the participants of all devices into one stack, where there are several.
    """
    return some_rounds(shape, lane, first_tables(shape, lane), features, labels, collect)[1]


def first_tables(shape: ProgramKey, lane: RunInputs) -> Any:
    """The server's state, the clients' and their last replies, before the first round."""
    start = put_together(shape.form, lane.numbers, lane.turns.inverse_steps[0]).start(
        jnp.zeros((shape.clients, *shape.matrix), shape.kind)
    )
    return (jax.tree.map(lambda array: array.astype(jnp.float64), start[0]), *start[1:])


def some_rounds(
    shape: ProgramKey,
    lane: RunInputs,
    tables: Any,
    features: Any,
    labels: Any,
    collect: Callable[[Any], Any] = lambda x: x,
) -> tuple[Any, RoundOutputs]:
    """The rounds of a lane from where the tables stand, and where they stand then; arguments as of `all_rounds`."""
    turns = lane.turns
    if turns.records is None and shape.drawing != "whole shard":
        turns = turns._replace(records=_ahead(shape, lane.seed, turns, _records))
    if turns.noise is None and shape.rounds * shape.places * prod(shape.noise) <= AHEAD:
        turns = turns._replace(noise=_ahead(shape, lane.seed, turns, _noise))
    return jax.lax.scan(partial(_round, shape, lane, features, labels, collect), tables, turns)


def _round(
    shape: ProgramKey,
    lane: RunInputs,
    features: Any,
    labels: Any,
    collect: Callable[[Any], Any],
    tables: Any,
    turn: RoundArrays,
) -> tuple[Any, RoundOutputs]:
    server, clients, replies = tables
    algorithm = put_together(shape.form, lane.numbers, turn.inverse_steps)
    told = algorithm.broadcast(server, turn.round)
    heard = jax.tree.map(lambda value: jnp.asarray(value, shape.kind), told)
    states, previous = jax.tree.map(lambda table: table[turn.row], (clients, replies))
    keys = jax.vmap(partial(draws.key, lane.seed, turn.round))(turn.client)
    noise = turn.noise
    if noise is None:
        noise = _noise(shape, keys, turn.size)
    batches = _batches(shape, turn, keys, features, labels)

    def perturb(query: Query | Argmin, drawn: Any) -> Release:
        return release(query, Drawn(shape.law, turn.scale[:, None, None], drawn))

    # a compiler would otherwise compute what was played anew for each of its uses
    played = jax.lax.optimization_barrier(play(algorithm, heard, states, batches, perturb, noise))
    free = play_free(algorithm, heard, states)
    if free is not None:
        played = jax.tree.map(partial(jnp.where, turn.free), free, played)
    present = collect(turn.present).astype(jnp.float64)
    precise = (collect(stack).astype(jnp.float64) for stack in (played.replies, previous))
    merged = algorithm.merge(server, told, *precise, present)
    anybody = jnp.sum(present) > 0
    server = jax.tree.map(lambda new, old: jnp.where(anybody, new, old), merged, server)
    clients, replies = jax.tree.map(
        lambda table, rows: table.at[turn.row].set(rows.astype(table.dtype), mode="drop"),
        (clients, replies),
        (played.client, played.replies),
    )
    clipped = jnp.sum(collect(played.clipped) * present) / jnp.maximum(jnp.sum(present), 1)
    points = jax.tree.map(collect, algorithm.local_point(played.client)) if shape.points else None
    return (server, clients, replies), RoundOutputs(algorithm.model(server), told.inverse_step, clipped, points)


def _ahead(shape: ProgramKey, seed: Any, turns: RoundArrays, drawn: Callable[[ProgramKey, Any, Any], Any]) -> Any:
    """(rounds, places, ...): draws of all rounds, in blocks that fit a cache: faster than round by round."""

    def block(part: Any) -> Any:
        rounds, clients, sizes = part
        return drawn(shape, jax.vmap(partial(draws.key, seed))(rounds, clients), sizes)

    rows = shape.rounds * shape.places
    size = min(rows, BLOCK if jax.default_backend() == "cpu" else rows)
    flat = (jnp.broadcast_to(turns.round[:, None], turns.client.shape), turns.client, turns.size)
    found = jax.lax.map(block, jax.tree.map(lambda array: jnp.resize(array, (-(-rows // size), size)), flat))
    return found.reshape(-1, *found.shape[2:])[:rows].reshape(shape.rounds, shape.places, *found.shape[2:])


def _records(shape: ProgramKey, keys: Any, sizes: Any) -> Any:
    """(participants, steps, batch)."""
    count = shape.steps * shape.batch
    match shape.drawing:
        case "some":
            drawn = draws.without_replacement(keys, sizes, count)
        case "all":
            drawn = jax.vmap(lambda key, size: draws.shuffled(key, size, shape.width)[:count])(keys, sizes)
        case _:
            drawn = jax.vmap(partial(draws.with_replacement, count=count))(keys, sizes)
    return drawn.reshape(-1, shape.steps, shape.batch)


def _noise(shape: ProgramKey, keys: Any, sizes: Any) -> Any:
    """(participants, ..., columns, outputs), of scale 1."""
    return jax.vmap(lambda key: draws.unit_noise(key, shape.law, shape.noise, shape.kind))(keys)


def _batches(shape: ProgramKey, turn: RoundArrays, keys: Any, features: Any, labels: Any) -> Batches:
    records = turn.records
    if records is None:
        records = jax.vmap(lambda key, size: draws.whole_shard(key, size, shape.width, shape.steps))(keys, turn.size)
    if shape.away:
        rows = jax.vmap(partial(jnp.repeat, total_repeat_length=shape.width))(turn.came, turn.held)
        records = jax.vmap(lambda own, here: jnp.where(here[own], own, NOBODY))(records, rows)
    rows = turn.begin[:, None, None] + records
    found = features[rows]
    if shape.drawing in ("whole shard", "handed in", "persons handed in"):
        found = jnp.where((records == NOBODY)[..., None], 0, found)
    return Batches(found, labels[rows], turn.divisor, turn.shares)


@partial(jax.jit, static_argnums=0)
def run_and_measure(
    shape: ProgramKey, lanes: RunInputs, features: Any, labels: Any, test_features: Any, test_labels: Any
) -> tuple[RoundOutputs, Any]:
    """Stacked lanes, side by side as far as the device gains by it, and how many test records their models predict.

    None where these have no classes.
    """
    on_cpu, count = jax.default_backend() == "cpu", len(lanes.seed)
    if count == 1:  # what was made for several would be slower
        alone = all_rounds(shape, jax.tree.map(lambda array: array[0], lanes), features, labels)
        left = jax.tree.map(lambda array: jnp.asarray(array)[None], alone)
    else:
        abreast = min(count, ABREAST) if on_cpu else count
        left = jax.lax.map(lambda lane: all_rounds(shape, lane, features, labels), lanes, batch_size=abreast)
    return left, measured(shape, lanes, left.models, test_features, test_labels)


def measured(shape: ProgramKey, lanes: RunInputs, models: Any, test_features: Any, test_labels: Any) -> Any:
    """How many test records the models of stacked lanes predict; None where these have no classes."""
    if not shape.counted:
        return None
    loss = put_together(shape.form, lanes.numbers[0], lanes.turns.inverse_steps[0, 0]).objective.loss

    def one(lane: Any) -> Any:
        models, test = lane
        return right(loss, test_features[test], test_labels[test], models)

    abreast = 1 if jax.default_backend() == "cpu" else MEASURED
    return jax.lax.map(one, (models.astype(shape.kind), lanes.test), batch_size=abreast)


first_tables_of = jax.jit(first_tables, static_argnums=0)
rounds_of = jax.jit(some_rounds, static_argnums=0, donate_argnums=2)
counts_of = jax.jit(measured, static_argnums=0)
