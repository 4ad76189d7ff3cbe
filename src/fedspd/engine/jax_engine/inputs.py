"""From simulations to arrays: what a compiled program takes as input, and what is compiled into it."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import draws_shape
from fedspd.data import Shards, Table
from fedspd.engine.arrivals import Arrived, arrivals
from fedspd.engine.draws import NOBODY
from fedspd.engine.jax_engine.numbers import Parts, take_apart
from fedspd.engine.numpy_engine import GivenDraws, draw_round
from fedspd.engine.participation import Course, by_round, sensitivities
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


def make_inputs(
    simulation: Simulation, course: Course, shape: ProgramKey, base: int, test: int, drawn: GivenDraws | None
) -> RunInputs:
    """The arrays of one simulation whose records begin at row `base` of the flat table."""
    parts, arrived = take_apart(simulation.algorithm), arrivals(simulation, course.turns)
    if arrived is not None:  # as if nobody else had been asked; who pays is settled already
        turns = zip(course.turns, arrived, strict=True)
        course = Course(tuple(turn._replace(chosen=each.chosen) for turn, each in turns))
    places = _places(course, simulation.shards, shape.rounds, shape.places, base)
    divisors, louder = simulation.batch_sizes(places.client), np.ones(places.client.shape)
    if arrived is not None:
        divisors[places.present] = np.concatenate([each.divisors for each in arrived])
        louder[places.present] = np.concatenate([each.louder for each in arrived])
    played = len(course.turns)
    bounds = sensitivities(simulation.algorithm, places.round[:played], divisors[:played])
    scale = np.zeros(places.client.shape, shape.kind)
    scale[:played] = simulation.plan.noise_scale(places.client[:played], bounds) * louder[:played]
    turns = places._replace(
        inverse_steps=_inverse_steps(parts, places.round).astype(shape.kind),
        divisor=divisors.astype(shape.kind),
        scale=scale * places.present,
    )
    if shape.away and arrived is not None:
        turns = _members(turns, arrived, simulation, shape)
    if drawn is not None:
        turns = _handed_in(turns, course, shape, simulation.shards, drawn, arrived)
    return RunInputs(np.int64(simulation.seed % 2**63), np.array(parts.numbers, shape.kind), np.int64(test), turns)


def _inverse_steps(parts: Parts, rounds: np.ndarray) -> np.ndarray:
    """(rounds, schedules)."""
    none = np.zeros((len(rounds), 1))
    found = [by_round(lambda round, _, own=one: own.inverse_step(round), rounds, none) for one in parts.schedules]
    return np.hstack([none[:, :0], *found])


@lru_cache(maxsize=128)  # runs that share a seed and a deal share all of it
def _places(course: Course, shards: Shards, rounds: int, places: int, base: int) -> RoundArrays:
    """Who is where in all rounds; what depends on the method is left open."""
    turns, size = course.turns, (rounds, places)
    numbers = np.arange(1, rounds + 1)
    numbers[: len(turns)] = [turn.round for turn in turns]
    present = np.zeros(size, bool)
    present[: len(turns)] = np.arange(places) < course.participants[:, None]
    client = np.zeros(size, np.int32)
    client[present] = np.concatenate([turn.chosen for turn in turns])
    return RoundArrays(
        round=numbers,
        inverse_steps=None,
        free=np.array([turn.free for turn in turns] + [False] * (rounds - len(turns))),
        client=client,
        row=np.where(present, client, shards.clients).astype(np.int32),
        begin=(base + shards.offsets[client]).astype(np.int32),
        size=shards.sizes[client].astype(np.int32),
        divisor=None,
        scale=None,
        present=present,
    )


def _members(turns: RoundArrays, arrived: list[Arrived], simulation: Simulation, shape: ProgramKey) -> RoundArrays:
    """Who of each cohort came, and how many records each has, in the order of their rows."""
    assert simulation.members is not None
    records = simulation.members.records
    came = np.zeros((shape.rounds, shape.places, shape.away), bool)
    held = np.zeros(came.shape, np.int32)
    for number, each in enumerate(arrived):
        for place, cohort in enumerate(each.chosen.tolist()):
            held[number, place, : len(records[cohort])] = records[cohort]
            came[number, place, : len(records[cohort])] = each.came[place]
    return turns._replace(came=came, held=held)


def _handed_in(
    turns: RoundArrays,
    course: Course,
    shape: ProgramKey,
    shards: Shards,
    drawn: GivenDraws,
    arrived: list[Arrived] | None,
) -> RoundArrays:
    records = np.full((shape.rounds, shape.places, shape.steps, shape.batch), NOBODY, np.int32)
    shares = None if shards.units is None else np.zeros(records.shape, shape.kind)
    noise = np.zeros((shape.rounds, shape.places, *shape.noise), shape.kind)
    for number, turn in enumerate(course.turns):
        if not len(turn.chosen):  # nobody's part has arrived
            continue
        given = drawn(turn.round, turn.chosen)
        found = given.records if arrived is None else arrived[number].of(given.records)
        if shards.units is not None and shares is not None:
            rows = shards.units.spread(turn.chosen, found)
            shares[number, : len(rows), :, : rows.shape[-1]] = np.where(rows == NOBODY, 0.0, shards.units.shares[rows])
            found = np.where(rows == NOBODY, NOBODY, rows - shards.offsets[turn.chosen][:, None, None])
        records[number, : len(turn.chosen), :, : found.shape[-1]] = found
        noise[number, : len(turn.chosen)] = given.noise
    return turns._replace(records=records, noise=noise, shares=shares)
