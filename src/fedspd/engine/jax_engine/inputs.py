"""What a compiled program takes as input, and what is compiled into it."""

from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import draws_shape
from fedspd.data import Table
from fedspd.engine.jax_engine.numbers import take_apart
from fedspd.engine.numpy_engine import GivenDraws, draw_round
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
    drawing: str  # "some" or "all" of a shard shuffled, "with replacement", "whole shard", or handed in
    steps: int
    batch: int  # records of a step at most
    width: int  # records of a shard at most
    kind: str  # type of numbers on the clients
    noise: tuple[int, ...]  # shape of a participant's unit draws
    law: str  # of the noise
    points: bool  # whether the participants' points are wanted
    away: int  # members of a cohort at most, where a program leaves out records of those that stay away; else 0
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
    shares: Any = None  # of these records, where persons are protected
    noise: Any = None
    came: Any = None  # (rounds, places, members) where members of cohorts may stay away
    held: Any = None  # records of each


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
    batch = _longest_batch(simulation) or -(-width // steps)
    batch = batch if shards.units is None else shards.units.most_rows(batch)
    handing = "handed in" if shards.units is None else "persons handed in"
    drawing = handing if handed_in else _drawing(simulation, steps * batch)
    if drawing in ("some", "with replacement"):
        width = 0  # such draws never look at a whole shard
    return ProgramKey(
        take_apart(algorithm).form, shards.clients, simulation.participants, simulation.rounds, simulation.matrix,
        drawing, steps, batch, width, np.dtype(kind).name, draws_shape(algorithm, simulation.matrix),
        simulation.plan.law, simulation.lagrangian, 0 if handed_in else _away(simulation),
        *_tested(simulation.test),
    )  # fmt: skip


def _tested(test: Table | None) -> tuple[int, bool]:
    """How many records models are measured on, and whether those are counted whose class they predict."""
    return (0, False) if test is None else (len(test), isinstance(test.predicted, Classes))


def _away(simulation: Simulation) -> int:
    """Members of the largest cohort, where some may stay away."""
    members = simulation.members
    return 0 if members is None or members.absence == 0 else int(members.counts.max())


def drawn_on_host(simulation: Simulation) -> GivenDraws | None:
    """The NumPy engine's draws: of persons, and of cohorts whose members take batches.

    A program draws rows from one shard.
    """
    if simulation.shards.units is None and (simulation.members is None or simulation.batch_size is None):
        return None
    check_sampling(simulation.plan.sampling)
    return lambda *turn: draw_round(simulation, *turn)


def _longest_batch(simulation: Simulation) -> int | None:
    """Of a client, or of all members of a cohort; None: as long as its shard."""
    members = simulation.members
    if members is None or members.batches is None:
        return simulation.batch_size
    return int(max(each.sum() for each in members.batches))


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
