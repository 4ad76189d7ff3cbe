"""Many rounds on one machine, in NumPy: no compile time, cost per round growing with the participants."""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import draws_shape
from fedspd.engine import draws
from fedspd.engine.arrivals import Arrived, arrive
from fedspd.engine.batches import draw_records, gather_batches, side_by_side, trimmed
from fedspd.engine.client_tables import converted, gather, heard, scatter, writable
from fedspd.engine.keeping import Keeper, Standing
from fedspd.engine.measuring.diagnostics import Lagrangian
from fedspd.engine.measuring.outcome import Trace, outcome_of
from fedspd.engine.parallel import ParallelMap, cores
from fedspd.engine.participation import Course, RoundPlan, plan_rounds
from fedspd.engine.release import Drawn, release
from fedspd.engine.round import Played, play, play_free
from fedspd.engine.simulation import Outcome, Simulation, check_claims
from fedspd.engine.spending import Gate, Spending
from fedspd.typing import Argmin, Batches, Query, Release

NAME = "NumPy"
PART = 512  # participants that one thread plays at a time, at most: between calls threads wait for the interpreter
LARGE = 1 << 17  # numbers of whole shards side by side that are worth a part of their own: 1 MiB
KEPT = 1 << 30  # bytes of features of which no second table is kept
ALIKE = 0.7  # whole shards played together are at least this much of the longest one


class Draws(NamedTuple):
    """Which records each participant uses, and its noise."""

    records: np.ndarray  # (clients, local steps, longest batch), numbers within the shard
    noise: np.ndarray  # of scale 1


class Exchanged(NamedTuple):
    """What the server gets of a round's participants, in their order."""

    replies: Any
    previous: Any  # replies that these replace
    clipped: Any  # diagnostic


class WholeShards:
    """The parts of a round in which clients use all their records, and their batches.

    Where the same clients do so in every round, what is gathered once serves in all of them.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.shards, everybody = simulation.shards, simulation.participants == simulation.shards.clients
        same = simulation.algorithm.local_steps == 1 and (everybody or simulation.same_participants)
        self.again = same and self.shards.features.nbytes <= KEPT
        self.asked: tuple[np.ndarray, np.ndarray] | None = None
        self.parts: list[np.ndarray] = []
        self.kept: dict[int, Batches] = {}

    def ask(self, chosen: np.ndarray, records: np.ndarray) -> list[np.ndarray]:
        """Parts of a round, by the numbers of its participants."""
        before = self.asked
        if before is None or records is not before[1] or not np.array_equal(chosen, before[0]):
            self.parts = whole_parts(chosen, self.shards.rows[chosen], self.shards.features.shape[1])
            self.kept, self.asked = {}, (chosen, records) if self.again else None
        return self.parts

    def batches(self, number: int, gathered: Callable[[], Batches]) -> Batches:
        """Of a part: those of the round before, or gathered now."""
        found = self.kept.get(number)
        if found is None:
            found = gathered()
            if self.again:
                features = np.asarray(found.features)  # side by side: they are read in every round
                features.flags.writeable = False
                found = self.kept[number] = found._replace(rows=features)
        return found


GivenDraws = Callable[[int, np.ndarray], Draws]
"""Gives the draws of some clients in a round."""


def simulate(
    simulation: Simulation,
    on_round: Callable[[], Any] = lambda: None,
    gate: Gate | None = None,
    drawn: GivenDraws | None = None,
    keeper: Keeper | None = None,
) -> Outcome:
    """Run all rounds, then evaluate the models of all rounds.

    Args:
        simulation: what to run.
        on_round: called after every round.
        gate: the ledger that is charged before a round's records are touched.
        drawn: draws handed in, in place of the simulation's own streams.
        keeper: keeps where the run stands, and knows where it stood when it was cut off; None: nothing is kept.
    """
    check_claims(simulation.algorithm, simulation.plan, prod(simulation.matrix))
    with cores() as each:
        given = drawn or partial(draw_round, simulation, each=each)
        return _simulate(simulation, on_round, gate, given, each, keeper)


def _simulate(
    simulation: Simulation,
    on_round: Callable[[], Any],
    gate: Gate | None,
    drawn: GivenDraws,
    each: ParallelMap,
    keeper: Keeper | None,
) -> Outcome:
    standing = _begin(simulation, each)
    done = 0 if keeper is None else keeper.take_up(standing, NAME)
    spending = Spending(simulation.plan, simulation.shards.clients, gate, simulation.spent_every_round)
    played, whole = list[RoundPlan](), WholeShards(simulation)
    for turn in plan_rounds(simulation, spending):
        if len(played) >= done:
            _play_round(simulation, turn, standing, drawn, each, whole)
            if keeper is not None:
                keeper.after_round(standing, NAME)
        played.append(turn)
        on_round()
    trace = Trace(np.array(standing.models), *np.array(standing.rows).reshape(-1, 3).T)
    return outcome_of(simulation, spending, Course(tuple(played)), trace, standing.lagrangian, each)


def _begin(simulation: Simulation, each: ParallelMap) -> Standing:
    """Before the first round."""
    shards = simulation.shards
    start = simulation.algorithm.start(np.zeros((shards.clients, *simulation.matrix), shards.features.dtype))
    clients, replies = writable(start[1:])
    lagrangian = _follow(simulation, clients, each) if simulation.lagrangian else None
    return Standing(converted(start[0], np.float64), clients, replies, lagrangian)


def _play_round(
    simulation: Simulation,
    turn: RoundPlan,
    standing: Standing,
    drawn: GivenDraws,
    each: ParallelMap,
    whole: WholeShards,
) -> None:
    """One round, whose participants are known and paid for."""
    algorithm, round = simulation.algorithm, turn.round
    arrived = arrive(simulation, turn)
    chosen = arrived.chosen
    told = algorithm.broadcast(standing.server, round)
    scale = simulation.plan.noise_scale(chosen, algorithm.sensitivity(round, arrived.divisors)) * arrived.louder
    clipped = np.zeros(1)
    if len(chosen):
        heard_by_all = converted(told, simulation.shards.features.dtype)
        replies, previous, clipped = _play(
            simulation, turn, arrived, heard_by_all, standing, drawn(round, chosen), scale, each, whole
        )
        standing.server = algorithm.merge(standing.server, told, replies, previous, np.ones(len(chosen)))
    standing.models.append(model := np.asarray(algorithm.model(standing.server)))
    if standing.lagrangian is not None:
        point = algorithm.local_point(gather(standing.clients, chosen))
        standing.lagrangian.update(chosen, point, model, len(standing.models))
    noise = float(np.mean(scale)) if len(chosen) else 0.0
    standing.rows.append((float(told.inverse_step), noise, float(np.mean(clipped))))


def _follow(simulation: Simulation, clients: Any, each: ParallelMap) -> Lagrangian:
    algorithm = simulation.algorithm
    point = writable(algorithm.local_point(clients))
    return Lagrangian(algorithm.objective, simulation.shards, algorithm.penalty, each, point.weights, point.dual)


def _play(
    simulation: Simulation, turn: RoundPlan, arrived: Arrived, told: Any, standing: Standing, drawn: Draws, scale: Any,
    each: ParallelMap,
    whole: WholeShards,
) -> Exchanged:  # fmt: skip
    """One round of the participants, who leave states and replies in the tables: many, or unequal ones, in parts."""
    kind, chosen, algorithm = simulation.shards.features.dtype, arrived.chosen, simulation.algorithm
    if turn.free:
        free = play_free(algorithm, told, gather(standing.clients, chosen))
        if free is not None:
            return _exchange(standing, chosen, free)
    records = arrived.of(drawn.records)
    scales = np.broadcast_to(np.asarray(scale, kind).reshape(-1, 1, 1), (len(chosen), 1, 1))

    def gathered(rows: Any) -> Batches:
        return gather_batches(simulation.shards, chosen[rows], trimmed(records[rows]), arrived.divisors[rows])

    def part(number: int, rows: Any) -> Exchanged:
        own = chosen[rows]
        batches = whole.batches(number, partial(gathered, rows)) if simulation.batch_size is None else gathered(rows)
        states = gather(standing.clients, own)

        def perturb(query: Query | Argmin, draws: np.ndarray) -> Release:
            return release(query, Drawn(simulation.plan.law, scales[rows], draws))

        return _exchange(standing, own, play(algorithm, heard(told, rows), states, batches, perturb, drawn.noise[rows]))

    parts = drawn_parts(len(chosen)) if simulation.batch_size is not None else whole.ask(chosen, records)
    if len(parts) == 1:
        return part(0, slice(None))
    replies, previous = np.empty((2, len(chosen), *standing.replies.shape[1:]), standing.replies.dtype)
    together = Exchanged(replies, previous, np.empty(len(chosen), kind))

    def put(number: int, rows: Any) -> None:
        for all_of_them, own in zip(together, part(number, rows), strict=True):
            all_of_them[rows] = own

    list(each(lambda one: put(*one), list(enumerate(parts))))
    return together


def _exchange(standing: Standing, own: np.ndarray, played: Played) -> Exchanged:
    """Clients keep their next states, and the server their replies in place of the previous ones."""
    previous = gather(standing.replies, own)
    scatter(standing.clients, own, played.client)
    scatter(standing.replies, own, played.replies)
    return Exchanged(played.replies, previous, played.clipped)


def drawn_parts(participants: int) -> list[slice]:
    """Parts of participants that draw batches, as few and as even as can be."""
    parts = -(-participants // PART)
    size = -(-participants // parts)
    return [slice(begin, begin + size) for begin in range(0, participants, size)] if parts > 1 else [slice(None)]


def whole_parts(chosen: np.ndarray, sizes: np.ndarray, columns: int) -> list[np.ndarray]:
    """Numbers of participants in parts: large neighbors of one size, which need no copy, and the others by size."""
    begins = np.flatnonzero((np.diff(chosen, prepend=-2) != 1) | (np.diff(sizes, prepend=-1) != 0))
    lengths = np.diff(begins, append=len(chosen))
    large = lengths * sizes[begins] * columns >= LARGE
    parts, left = [], np.ones(len(chosen), bool)
    for begin, length in zip(begins[large].tolist(), lengths[large].tolist(), strict=True):
        left[begin : begin + length] = False
        parts += [np.arange(at, min(at + PART, begin + length)) for at in range(begin, begin + length, PART)]
    others = np.flatnonzero(left)
    return parts + [others[one] for one in alike(sizes[others])]


def alike(sizes: np.ndarray) -> list[np.ndarray]:
    """Numbers of participants in parts of similar size, since all in a part are filled up to its longest."""
    order = np.argsort(-sizes, kind="stable")
    parts, begin = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or end - begin == PART or sizes[order[end]] < ALIKE * sizes[order[begin]]:
            parts.append(order[begin:end])
            begin = end
    return parts


def draw_round(simulation: Simulation, round: int, chosen: np.ndarray, each: ParallelMap = map) -> Draws:
    """Records and noise of scale 1; streams are keyed by round and block, so any round can be drawn again alone."""
    kind = simulation.shards.features.dtype
    noise = np.empty((len(chosen), *draws_shape(simulation.algorithm, simulation.matrix)), kind)

    def draw_records() -> np.ndarray:
        """On one thread: of calls so short several threads would wait for each other longer than they take."""
        streams = [(block.stream(simulation.seed, "records", round), chosen[block.places]) for block in blocks]
        return side_by_side([_records(simulation, *each_of) for each_of in streams])

    def draw_noise_of(block: draws.Block) -> None:
        own, rng = noise[block.places], block.stream(simulation.seed, "noise", round)
        own[...] = draws.unit_noise(rng, simulation.plan.law, own.shape, kind)

    blocks = draws.blocks(len(chosen))
    jobs = [draw_records, *(partial(draw_noise_of, block) for block in blocks)]
    records, *_ = (each if len(blocks) > 1 else map)(lambda job: job(), jobs)
    return Draws(records, noise)


def _records(simulation: Simulation, rng: np.random.Generator, chosen: np.ndarray) -> np.ndarray:
    sampling = simulation.plan.sampling
    if simulation.members is not None and simulation.batch_size is not None:
        return simulation.members.draw(rng, chosen, sampling)
    sizes, steps = simulation.shards.sizes[chosen], simulation.algorithm.local_steps
    return draw_records(rng, sizes, sampling, simulation.batch_size, steps)
