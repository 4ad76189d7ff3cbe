"""One simulation over several devices, of one host or of many: each holds a block of clients with their records.

A device plays those participants of a round that it holds; what they reply is gathered by all devices,
and each merges it, so that the server's state is the same everywhere and no device waits for another but
once a round. Draws are keyed by client, so the result is that of one device up to rounding.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fedspd.data import Shards
from fedspd.engine.jax_engine.chunks import Program
from fedspd.engine.jax_engine.inputs import ProgramKey, RoundArrays, RunInputs
from fedspd.engine.jax_engine.program import first_tables, some_rounds

AXIS = "clients"
PER_ROUND = ("round", "inverse_steps", "free")  # the same on all devices
EVERYWHERE, BY_PLACE, BY_ROW = PartitionSpec(), PartitionSpec(None, AXIS), PartitionSpec(AXIS)
TABLES = (EVERYWHERE, BY_ROW, BY_ROW)  # of the server, of clients and of their replies


def over_devices(shape: ProgramKey, lane: RunInputs, shards: Shards, length: int) -> tuple[RunInputs, Program]:
    """The lane as it is dealt out to all devices there are, and so many of its rounds as a program."""
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    block = -(-shards.clients // mesh.size)
    spread = _spread(lane.turns, shards, block, mesh.size)
    local = shape._replace(clients=block, places=spread.client.shape[1] // mesh.size, rounds=length)
    specs = RoundArrays(*(EVERYWHERE if name in PER_ROUND else BY_PLACE for name in RoundArrays._fields))
    specs = RoundArrays(*(None if value is None else spec for value, spec in zip(spread, specs, strict=True)))
    inputs = RunInputs(EVERYWHERE, EVERYWHERE, EVERYWHERE, specs)
    over = partial(jax.shard_map, mesh=mesh, check_vma=False)  # the compiler cannot see that all have gathered the same
    collect = partial(jax.lax.all_gather, axis_name=AXIS, tiled=True)
    begin = jax.jit(over(partial(first_tables, local), in_specs=(inputs,), out_specs=TABLES))
    play = jax.jit(
        over(
            partial(some_rounds, local, collect=collect),
            in_specs=(inputs, TABLES, BY_ROW, BY_ROW),
            out_specs=(TABLES, EVERYWHERE),
        ),
        donate_argnums=1,
    )
    records = _tables(shards, shape.kind, mesh, block)

    def dealt(piece: RunInputs) -> RunInputs:
        return piece._replace(turns=jax.tree.map(lambda array, spec: _placed(array, mesh, spec), piece.turns, specs))

    def place(tables: Any) -> Any:
        parts = zip(tables, TABLES, strict=True)
        return tuple(jax.tree.map(lambda array, spec=spec: _placed(array, mesh, spec), part) for part, spec in parts)

    program = Program(
        block, lambda piece: begin(dealt(piece)), lambda piece, tables: play(dealt(piece), tables, *records), place
    )
    return lane._replace(turns=spread), program


def _spread(turns: RoundArrays, shards: Shards, block: int, devices: int) -> RoundArrays:
    """Every participant in a place of the device that holds it; as many places on each as the fullest needs."""
    present = np.asarray(turns.present)
    rounds, places = present.shape
    device = np.where(present, turns.client // block, devices)  # nobody stands behind all devices
    order = np.argsort(device, axis=1, kind="stable")
    sorted_device = np.take_along_axis(device, order, axis=1)
    counts = (device[:, :, None] == np.arange(devices)).sum(axis=1)
    most = int(counts.max(initial=1))
    before = np.concatenate([np.zeros((rounds, 1), int), np.cumsum(counts, axis=1)], axis=1)
    rank = np.arange(places) - np.take_along_axis(before, sorted_device, axis=1)
    there = sorted_device < devices
    target = np.where(there, sorted_device * most + rank, -1)

    def moved(array: Any, empty: Any = 0) -> Any:
        if array is None:
            return None
        array = np.asarray(array)
        index = order.reshape(order.shape + (1,) * (array.ndim - 2))
        values = np.take_along_axis(array, np.broadcast_to(index, array.shape), axis=1)
        result = np.full((rounds, devices * most, *array.shape[2:]), empty, array.dtype)
        row, place = np.nonzero(there)
        result[row, target[row, place]] = values[row, place]
        return result

    first = shards.offsets[np.minimum(turns.client // block * block, shards.clients)]
    local = turns._replace(row=turns.client % block, begin=(turns.begin - first).astype(np.int32))
    named = {
        name: moved(getattr(local, name), block if name == "row" else 1 if name in ("size", "divisor") else 0)
        for name in RoundArrays._fields
        if name not in PER_ROUND
    }
    return local._replace(**named)


def _placed(array: Any, mesh: Mesh, spec: PartitionSpec) -> Any:
    """An array laid out over the mesh; a host hands over its own part only."""
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda part: array[part])


def _tables(shards: Shards, kind: str, mesh: Mesh, block: int) -> tuple[Any, Any]:
    """Features and labels, each device's clients in a stretch of the same length."""
    bounds = shards.offsets[np.minimum(np.arange(mesh.size + 1) * block, shards.clients)]
    length = max(1, int(np.diff(bounds).max()))

    def stretch(table: np.ndarray, to: Any) -> Any:
        def one(part: Any) -> np.ndarray:
            device = (part[0].start or 0) // length
            rows = table[bounds[device] : bounds[device + 1]].astype(to)
            return np.concatenate([rows, np.zeros((length - len(rows), *rows.shape[1:]), rows.dtype)])

        shape = (mesh.size * length, *table.shape[1:])
        return jax.make_array_from_callback(shape, NamedSharding(mesh, BY_ROW), one)

    return stretch(shards.features, jnp.dtype(kind)), stretch(shards.labels, shards.labels.dtype)
