"""From simulations to the arrays of a program: those that differ in their seed alone together."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from fedspd.data import Shards
from fedspd.engine.arrivals import Arrived, arrivals
from fedspd.engine.draws import NOBODY
from fedspd.engine.jax_engine.inputs import ProgramKey, RoundArrays, RunInputs
from fedspd.engine.jax_engine.numbers import Parts, take_apart
from fedspd.engine.numpy_engine import GivenDraws
from fedspd.engine.participation import Course, by_round, sensitivities
from fedspd.engine.simulation import Simulation


class Lane(NamedTuple):
    """A simulation whose participants are known, with the draws that are handed to it, if any."""

    simulation: Simulation
    course: Course
    drawn: GivenDraws | None = None


def make_inputs(
    simulation: Simulation, course: Course, shape: ProgramKey, base: int, test: int, drawn: GivenDraws | None
) -> RunInputs:
    """The arrays of one simulation whose records begin at row `base` of the flat table."""
    return taken(stacked_inputs([Lane(simulation, course, drawn)], shape, base, test), 0)


def kin(simulations: Sequence[Simulation]) -> list[list[int]]:
    """Numbers of simulations that are made of the same things but for their seed."""
    found: dict[tuple[int, ...], list[int]] = {}
    for number, simulation in enumerate(simulations):
        things = tuple([id(value) for name, value in vars(simulation).items() if name != "seed"])
        found.setdefault(things, []).append(number)
    return list(found.values())


def stacked(parts: Sequence[RunInputs]) -> RunInputs:
    """Stacks below each other."""
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def taken(lanes: Any, some: int | slice) -> Any:
    """One of a stack, or some of them."""
    return jax.tree.map(lambda array: array[some], lanes)


def stacked_inputs(lanes: Sequence[Lane], shape: ProgramKey, base: int, test: int) -> RunInputs:
    """(lanes, ...): the arrays of kin whose records begin at row `base` of the flat table."""
    first = lanes[0].simulation
    parts, arrived = take_apart(first.algorithm), [arrivals(lane.simulation, lane.course.turns) for lane in lanes]
    courses = tuple([_arrived(lane.course, came) for lane, came in zip(lanes, arrived, strict=True)])
    held = _Held(first.shards.offsets.tobytes(), first.shards.sizes.tobytes())
    places = _stacked_places(courses, held, shape.rounds, shape.places, base)
    divisors, louder = first.batch_sizes(places.client), np.ones(places.client.shape)
    for lane, came in enumerate(arrived):
        if came is not None:
            there = lane, *np.nonzero(places.present[lane])
            divisors[there] = np.concatenate([each.divisors for each in came])
            louder[there] = np.concatenate([each.louder for each in came])
    scale = np.zeros(places.client.shape, shape.kind)
    steps = np.zeros((*places.round.shape, len(parts.schedules)), shape.kind)
    for those, rounds, played in _in_step(places.round, courses):
        bounds = _bounds(first, rounds[:played], divisors[those, :played])
        scale[those, :played] = first.plan.noise_scale(places.client[those, :played], bounds) * louder[those, :played]
        steps[those] = _inverse_steps(parts, rounds)
    turns = places._replace(inverse_steps=steps, divisor=divisors.astype(shape.kind), scale=scale * places.present)
    seeds = np.array([lane.simulation.seed % 2**63 for lane in lanes], np.int64)
    numbers = np.tile(np.array(parts.numbers, shape.kind), (len(lanes), 1))
    found = RunInputs(seeds, numbers, np.full(len(lanes), test, np.int64), turns)
    if not shape.away and lanes[0].drawn is None:
        return found
    each = [
        taken(found, number)._replace(turns=_of_its_own(taken(turns, number), shape, lane, course, came))
        for number, (lane, course, came) in enumerate(zip(lanes, courses, arrived, strict=True))
    ]
    return jax.tree.map(lambda *arrays: np.stack(arrays), *each)


def _arrived(course: Course, came: list[Arrived] | None) -> Course:
    """As if nobody else had been asked; who pays is settled already."""
    if came is None:
        return course
    return Course(tuple(turn._replace(chosen=each.chosen) for turn, each in zip(course.turns, came, strict=True)))


def _in_step(rounds: np.ndarray, courses: Sequence[Course]) -> Iterator[tuple[list[int], np.ndarray, int]]:
    """Lanes that have the same rounds, these, and how many of them are played."""
    found: dict[tuple[bytes, int], list[int]] = {}
    for lane, (own, course) in enumerate(zip(rounds, courses, strict=True)):
        found.setdefault((own.tobytes(), len(course.turns)), []).append(lane)
    for (_, played), those in found.items():
        yield those, rounds[those[0]], played


def _bounds(simulation: Simulation, rounds: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """(lanes, rounds, places): sensitivities of lanes that have the same rounds."""
    by_rounds = np.moveaxis(divisors, 1, 0)
    found = sensitivities(simulation.algorithm, rounds, by_rounds.reshape(len(rounds), -1))
    return np.moveaxis(found.reshape(by_rounds.shape), 0, 1)


def _inverse_steps(parts: Parts, rounds: np.ndarray) -> np.ndarray:
    """(rounds, schedules)."""
    none = np.zeros((len(rounds), 1))
    found = [by_round(lambda round, _, own=one: own.inverse_step(round), rounds, none) for one in parts.schedules]
    return np.hstack([none[:, :0], *found])


class _Held(NamedTuple):
    """Where the records of each client begin and how many it has, as what is remembered by: it keeps no table alive."""

    offsets: bytes
    sizes: bytes


@lru_cache(maxsize=4)  # points of a sweep have the same seeds
def _stacked_places(courses: tuple[Course, ...], held: _Held, rounds: int, places: int, base: int) -> RoundArrays:
    """(lanes, rounds, ...)."""
    return jax.tree.map(
        lambda *arrays: np.stack(arrays), *[_places(each, held, rounds, places, base) for each in courses]
    )


def _of_its_own(
    turns: RoundArrays, shape: ProgramKey, lane: Lane, course: Course, came: list[Arrived] | None
) -> RoundArrays:
    """What stands for a lane alone: who of its cohorts came, and draws that are handed in."""
    if shape.away and came is not None:
        turns = _members(turns, came, lane.simulation, shape)
    if lane.drawn is not None:
        turns = _handed_in(turns, course, shape, lane.simulation.shards, lane.drawn, came)
    return turns


@lru_cache(maxsize=128)  # runs that share a seed and a deal share all of it
def _places(course: Course, held: _Held, rounds: int, places: int, base: int) -> RoundArrays:
    """Who is where in all rounds; what depends on the method is left open."""
    turns, size = course.turns, (rounds, places)
    offsets, sizes = (np.frombuffer(each, np.int64) for each in held)
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
        row=np.where(present, client, len(sizes)).astype(np.int32),
        begin=(base + offsets[client]).astype(np.int32),
        size=sizes[client].astype(np.int32),
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
