"""Who takes part in which round: decided on public counts and paid for, before any record is touched."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fedspd.engine import draws
from fedspd.engine.books import Books
from fedspd.engine.simulation import Simulation


class Turn(NamedTuple):
    """One round's participants, and where budgets stand once they have paid."""

    round: int
    chosen: np.ndarray
    clients_with_budget: int
    epsilon_max: float
    epsilon_mean: float


def turns(simulation: Simulation, books: Books) -> Iterator[Turn]:
    """Round after round, as it is asked for: a turn's participants are charged when it is handed out, not before."""
    for round in range(1, simulation.rounds + 1):
        if books.with_budget < simulation.min_participants:
            return
        chosen = books.charge(round, choose(simulation, round, books))
        if len(chosen):
            spent = (books.largest, books.total / len(books.epsilon)) if books.every_round else (np.nan, np.nan)
            yield Turn(round, chosen, books.with_budget, *spent)


def choose(simulation: Simulation, round: int, books: Books) -> np.ndarray:
    """Who is asked to take part: uniformly among those with budget left, all of them if they are few."""
    same = simulation.same_participants
    return choose_among(simulation.seed, round, simulation.participants, same, books.may_take_part, books.with_budget)


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
