"""Who takes part in which round: decided on public counts and paid for, before any record is touched."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedspd.algorithms.base import HasFreeRounds
from fedspd.engine import draws
from fedspd.engine.simulation import Simulation
from fedspd.engine.spending import Spending


class RoundPlan(NamedTuple):
    """One round's participants, and where budgets stand once they have paid."""

    round: int
    chosen: np.ndarray
    clients_with_budget: int
    epsilon_max: float
    epsilon_mean: float
    free: bool  # no record is used, and nobody charged


def plan_rounds(simulation: Simulation, spending: Spending) -> Iterator[RoundPlan]:
    """Round after round, as it is asked for: a turn's participants are charged when it is handed out, not before."""
    everyone = np.ones(simulation.shards.clients, bool)
    for round in range(1, simulation.rounds + 1):
        free = is_free(simulation, round)
        if free:
            chosen = choose_among(simulation.seed, round, simulation.participants, False, everyone, len(everyone))
        elif spending.with_budget < simulation.min_participants:
            return
        else:
            chosen = spending.charge(round, choose(simulation, round, spending))
            if len(chosen) < min(simulation.min_participants, simulation.participants):
                return
        if len(chosen):
            spent = (
                (spending.largest, spending.total / len(spending.epsilon)) if spending.every_round else (np.nan, np.nan)
            )
            yield RoundPlan(round, chosen, spending.with_budget, *spent, free)


def is_free(simulation: Simulation, round: int) -> bool:
    """Whether a round does not depend on records: nobody is charged for it. It is so for all clients or for none."""
    algorithm, first = simulation.algorithm, simulation.batch_sizes(np.zeros(1, np.int64))
    free = not np.any(algorithm.sensitivity(round, first))
    if free and simulation.plan.guarantee == "proved" and not isinstance(algorithm, HasFreeRounds):
        raise RuntimeError(
            f"{type(algorithm).__name__} says that no record moves round {round} but has no free rounds: its query "
            "would leave without noise and without a charge."
        )
    return free


def choose(simulation: Simulation, round: int, spending: Spending) -> np.ndarray:
    """Who is asked to take part: uniformly among those with budget left, all of them if they are few.

    Where staleness is bounded, first come those who could not be served in time otherwise.
    """
    same = simulation.same_participants
    if simulation.most_stale is not None:
        deadlines = np.where(
            spending.may_take_part, spending.last + simulation.most_stale - round, np.iinfo(np.int64).max
        )
        order = draws.stream(simulation.seed, "participation", round).permutation(len(deadlines))
        first = order[_pressing(deadlines[order], simulation.participants)]  # of equals, whoever chance names
        rest = order[spending.may_take_part[order] & ~np.isin(order, first)]
        return np.sort(np.concatenate([first, rest[: simulation.participants - len(first)]]))
    return choose_among(
        simulation.seed, round, simulation.participants, same, spending.may_take_part, spending.with_budget
    )


def _pressing(slack: np.ndarray, participants: int) -> np.ndarray:
    """Those with the least slack, as many as must come now so that nobody's slack falls below zero later.

    Within j more rounds there is room for j times the participants; whoever is due by then and has no room comes now.
    """
    order = np.argsort(slack, kind="stable")
    places = np.arange(1, len(order) + 1) - participants * np.minimum(slack[order], len(order))
    return order[: min(participants, max(0, int(places.max())))]


def choose_among(
    seed: int, round: int, participants: int, same: bool, may_take_part: np.ndarray, left: int
) -> np.ndarray:
    """The same for a server of real clients, which knows no simulation.

    Args:
        seed: of the run.
        round: from 1.
        participants: asked in a round.
        same: whether the clients of round 1 are asked in all rounds.
        may_take_part: for each client.
        left: how many of them may.
    """
    clients = len(may_take_part)
    if same:
        chosen = _drawn(seed, 1, clients, participants)
        return chosen[may_take_part[chosen]]
    chosen = _drawn(seed, round, left, min(participants, left))
    return chosen if left == clients else np.flatnonzero(may_take_part)[chosen]


@lru_cache(maxsize=2048)  # runs of a sweep that share a seed have the same participants
def _drawn(seed: int, round: int, clients: int, count: int) -> np.ndarray:
    chosen = draws.participants(draws.stream(seed, "participation", round), clients, count)
    chosen.flags.writeable = False
    return chosen
