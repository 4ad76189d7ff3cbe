"""Many rounds on one machine, in NumPy: no compile time, cost per round growing with the participants."""

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms.base import draws_shape
from fedspd.engine import draws
from fedspd.engine.arrivals import Arrived, arrive
from fedspd.engine.batches import draw_records, gather_batches, trimmed
from fedspd.engine.client_tables import converted, gather, heard, joined, scatter, writable
from fedspd.engine.diagnostics import Lagrangian
from fedspd.engine.outcome import Trace, outcome_of
from fedspd.engine.parallel import ParallelMap, cores
from fedspd.engine.participation import RoundPlan, plan_rounds
from fedspd.engine.release import Drawn, release
from fedspd.engine.round import Played, play, play_free
from fedspd.engine.simulation import Outcome, Simulation, check_claims
from fedspd.engine.spending import Gate, Spending
from fedspd.typing import Argmin, Query, Release

PART = 512  # participants that one thread plays at a time
ALIKE = 0.7  # whole shards played together are at least this much of the longest one


class Draws(NamedTuple):
    """Which records each participant uses, and its noise."""

    records: np.ndarray  # (clients, local steps, longest batch), numbers within the shard
    noise: np.ndarray  # of scale 1


GivenDraws = Callable[[int, np.ndarray], Draws]
"""Gives the draws of some clients in a round."""


def simulate(
    simulation: Simulation,
    on_round: Callable[[], Any] = lambda: None,
    gate: Gate | None = None,
    drawn: GivenDraws | None = None,
) -> Outcome:
    """Run all rounds, then evaluate the models of all rounds.

    Args:
        simulation: what to run.
        on_round: called after every round.
        gate: the ledger that is charged before a round's records are touched.
        drawn: draws handed in, in place of the simulation's own streams.
    """
    check_claims(simulation.algorithm, simulation.plan, prod(simulation.matrix))
    with cores() as each:
        return _simulate(simulation, on_round, gate, drawn or (lambda *turn: draw_round(simulation, *turn)), each)


def _simulate(
    simulation: Simulation, on_round: Callable[[], Any], gate: Gate | None, drawn: GivenDraws, each: ParallelMap
) -> Outcome:
    shards, algorithm, plan = simulation.shards, simulation.algorithm, simulation.plan
    kind = shards.features.dtype
    start = algorithm.start(np.zeros((shards.clients, *simulation.matrix), kind))
    server, clients, replies = converted(start[0], np.float64), *writable(start[1:])
    lagrangian = _follow(simulation, clients, each) if simulation.lagrangian else None
    spending = Spending(plan, shards.clients, gate, simulation.spent_every_round)
    played: list[RoundPlan] = []
    models, rows = [], []
    for turn in plan_rounds(simulation, spending):
        round, arrived = turn.round, arrive(simulation, turn)
        chosen = arrived.chosen
        told = algorithm.broadcast(server, round)
        scale = plan.noise_scale(chosen, algorithm.sensitivity(round, arrived.divisors)) * arrived.louder
        clipped = np.zeros(1)
        if len(chosen):
            result = _play(simulation, turn, arrived, converted(told, kind), clients, drawn(round, chosen), scale, each)
            server = algorithm.merge(server, told, result.replies, replies[chosen], np.ones(len(chosen)))
            scatter(clients, chosen, result.client)
            scatter(replies, chosen, result.replies)
            clipped = result.clipped
        models.append(np.asarray(algorithm.model(server)))
        if lagrangian is not None:
            lagrangian.update(chosen, algorithm.local_point(gather(clients, chosen)), models[-1], len(models))
        rows.append((float(told.inverse_step), float(np.mean(scale)) if len(chosen) else 0.0, float(np.mean(clipped))))
        played.append(turn)
        on_round()
    trace = Trace(np.array(models), *np.array(rows).reshape(-1, 3).T)
    return outcome_of(simulation, spending, played, trace, lagrangian, each)


def _follow(simulation: Simulation, clients: Any, each: ParallelMap) -> Lagrangian:
    algorithm = simulation.algorithm
    point = writable(algorithm.local_point(clients))
    return Lagrangian(algorithm.objective, simulation.shards, algorithm.penalty, each, point.weights, point.dual)


def _play(
    simulation: Simulation,
    turn: RoundPlan,
    arrived: Arrived,
    told: Any,
    clients: Any,
    drawn: Draws,
    scale: Any,
    each: ParallelMap,
) -> Played:
    """One round of the participants; many of them, or ones of unequal size, are split into parts over the cores."""
    kind, chosen, algorithm = simulation.shards.features.dtype, arrived.chosen, simulation.algorithm
    free = play_free(algorithm, told, gather(clients, chosen)) if turn.free else None
    if free is not None:
        return free
    records = arrived.of(drawn.records)
    scales = np.broadcast_to(np.asarray(scale, kind).reshape(-1, 1, 1), (len(chosen), 1, 1))

    def part(rows: Any) -> Played:
        batches = gather_batches(simulation.shards, chosen[rows], trimmed(records[rows]), arrived.divisors[rows])
        states = gather(clients, chosen[rows])

        def perturb(query: Query | Argmin, draws: np.ndarray) -> Release:
            return release(query, Drawn(simulation.plan.law, scales[rows], draws))

        return play(algorithm, heard(told, rows), states, batches, perturb, drawn.noise[rows])

    if simulation.batch_size is None and _unequal(simulation.shards.sizes[chosen]):
        parts = alike(simulation.shards.sizes[chosen])
        return gather(joined(list(each(part, parts))), np.argsort(np.concatenate(parts)))
    if len(chosen) <= PART:
        return part(slice(None))
    slices = [slice(begin, begin + PART) for begin in range(0, len(chosen), PART)]
    return joined(list(each(part, slices)))


def _unequal(sizes: np.ndarray) -> bool:
    return bool(sizes.min() < ALIKE * sizes.max())


def alike(sizes: np.ndarray) -> list[np.ndarray]:
    """Numbers of participants in parts of similar size, since all in a part are filled up to its longest."""
    order = np.argsort(-sizes, kind="stable")
    parts, begin = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or end - begin == PART or sizes[order[end]] < ALIKE * sizes[order[begin]]:
            parts.append(order[begin:end])
            begin = end
    return parts


def draw_round(simulation: Simulation, round: int, chosen: np.ndarray) -> Draws:
    """Records and noise; streams are keyed by the round, so any round can be drawn again alone."""
    records = draw_records(
        draws.stream(simulation.seed, "records", round), simulation.shards.sizes[chosen], simulation.plan.sampling,
        simulation.batch_size, simulation.algorithm.local_steps,
    )  # fmt: skip
    shape = (len(chosen), *draws_shape(simulation.algorithm, simulation.matrix))
    rng, kind = draws.stream(simulation.seed, "noise", round), simulation.shards.features.dtype
    return Draws(records, draws.unit_noise(rng, simulation.plan.law, shape, kind))
