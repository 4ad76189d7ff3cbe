"""From simulations to arrays: what a compiled program takes as input, and what is compiled into it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import draws_shape
from fedspd.data import Table
from fedspd.engine.draws import NOBODY
from fedspd.engine.jax_engine.numbers import take_apart
from fedspd.engine.numpy_engine import GivenDraws
from fedspd.engine.participation import RoundPlan
from fedspd.engine.simulation import Simulation
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WITH_REPLACEMENT
from fedspd.target import Classes

SORTS = 16  # a sort of m keys costs about as much as 16 m comparisons


class ProgramKey(NamedTuple):
    """What is compiled in; simulations of one shape share a program."""

    form: Any  # of the algorithm
    clients: int
    places: int  # participants of a round at most
    rounds: int
    matrix: tuple[int, int]
    drawing: str  # "some" or "all" of a shard shuffled, "with replacement", "whole shard" or "handed in"
    steps: int
    batch: int  # records of a step at most
    width: int  # records of a shard at most
    kind: str  # type of numbers on the clients
    noise: tuple[int, ...]  # shape of a participant's unit draws
    law: str  # of the noise
    points: bool  # whether the participants' points are wanted
    tested: int  # records that models are measured on
    counted: bool  # whether those are counted whose class they predict


class RoundArrays(NamedTuple):
    """All rounds of a lane; but for the first three fields (rounds, places), filled up with empty places."""

    round: Any
    inverse_steps: Any  # (rounds, schedules of the algorithm)
    free: Any  # rounds that use no records
    client: Any
    row: Any  # of the client in the tables of states; beyond the last where nobody is
    begin: Any  # first record of the client in the flat table
    size: Any
    divisor: Any
    scale: Any
    present: Any
    records: Any = None  # (rounds, places, steps, batch) where draws are handed in
    noise: Any = None


class RunInputs(NamedTuple):
    """One simulation's inputs."""

    seed: Any
    numbers: Any
    test: Any  # which of the test tables it is measured on
    turns: RoundArrays


def program_key(simulation: Simulation, kind: Any, handed_in: bool) -> ProgramKey:
    """What has to be compiled for this simulation."""
    algorithm, shards = simulation.algorithm, simulation.shards
    steps, width = algorithm.local_steps, int(shards.sizes.max())
    batch = simulation.batch_size or -(-width // steps)
    drawing = "handed in" if handed_in else _drawing(simulation, steps * batch)
    if drawing in ("some", "with replacement"):
        width = 0  # such draws never look at a whole shard
    return ProgramKey(
        take_apart(algorithm).form, shards.clients, simulation.participants, simulation.rounds, simulation.matrix,
        drawing, steps, batch, width, np.dtype(kind).name, draws_shape(algorithm, simulation.matrix),
        simulation.plan.law, simulation.lagrangian,
        *_tested(simulation.test),
    )  # fmt: skip


def _tested(test: Table | None) -> tuple[int, bool]:
    """How many records models are measured on, and whether those are counted whose class they predict."""
    return (0, False) if test is None else (len(test), isinstance(test.predicted, Classes))


def check_sampling(sampling: str) -> None:
    """Refuse batches whose length no program can be compiled for."""
    if sampling == POISSON:
        raise InputError(
            "the JAX engine draws batches of a fixed size, got Poisson sampling, whose batches have any; run it with "
            "--engine numpy."
        )


def _drawing(simulation: Simulation, count: int) -> str:
    if simulation.batch_size is None:
        return "whole shard"
    check_sampling(simulation.plan.sampling)
    if simulation.plan.sampling == WITH_REPLACEMENT:
        return "with replacement"
    return "some" if count * count <= SORTS * int(simulation.shards.sizes.min()) else "all"


def make_inputs(
    simulation: Simulation,
    played: Sequence[RoundPlan],
    shape: ProgramKey,
    base: int,
    test: int,
    drawn: GivenDraws | None,
) -> RunInputs:
    """The arrays of one simulation whose records begin at row `base` of the flat table."""
    parts = take_apart(simulation.algorithm)
    rounds = np.arange(1, shape.rounds + 1)
    rounds[: len(played)] = [turn.round for turn in played]
    steps = [[schedule.inverse_step(round) for schedule in parts.schedules] for round in rounds.tolist()]
    turns = _turns(simulation, played, shape, base)._replace(round=rounds, inverse_steps=np.array(steps, shape.kind))
    if drawn is not None:
        turns = _handed_in(turns, played, shape, drawn)
    return RunInputs(np.int64(simulation.seed % 2**63), np.array(parts.numbers, shape.kind), np.int64(test), turns)


def _turns(simulation: Simulation, played: Sequence[RoundPlan], shape: ProgramKey, base: int) -> RoundArrays:
    shards, algorithm, size = simulation.shards, simulation.algorithm, (shape.rounds, shape.places)
    taken = np.arange(shape.places) < np.array([len(turn.chosen) for turn in played])[:, None]
    present = np.zeros(size, bool)
    present[: len(played)] = taken
    client = np.zeros(size, np.int32)
    client[present] = np.concatenate([turn.chosen for turn in played])
    scale = np.zeros(size, shape.kind)
    for number, turn in enumerate(played):
        batch_sizes = simulation.batch_sizes(turn.chosen)
        scale[number, : len(turn.chosen)] = simulation.plan.noise_scale(
            turn.chosen, algorithm.sensitivity(turn.round, batch_sizes)
        )
    return RoundArrays(
        round=None,
        inverse_steps=None,
        free=np.array([turn.free for turn in played] + [False] * (shape.rounds - len(played))),
        client=client,
        row=np.where(present, client, shape.clients).astype(np.int32),
        begin=(base + shards.offsets[client]).astype(np.int32),
        size=shards.sizes[client].astype(np.int32),
        divisor=simulation.batch_sizes(client).astype(shape.kind),
        scale=scale,
        present=present,
    )


def _handed_in(turns: RoundArrays, played: Sequence[RoundPlan], shape: ProgramKey, drawn: GivenDraws) -> RoundArrays:
    records = np.full((shape.rounds, shape.places, shape.steps, shape.batch), NOBODY, np.int32)
    noise = np.zeros((shape.rounds, shape.places, *shape.noise), shape.kind)
    for number, turn in enumerate(played):
        given = drawn(turn.round, turn.chosen)
        records[number, : len(turn.chosen), :, : given.records.shape[-1]] = given.records
        noise[number, : len(turn.chosen)] = given.noise
    return turns._replace(records=records, noise=noise)
