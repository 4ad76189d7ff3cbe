"""Who takes part in which round: decided on public counts and paid for, before any record is touched."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms import Algorithm
from fedspd.algorithms.base import HasFreeRounds
from fedspd.engine import draws
from fedspd.engine.simulation import Simulation
from fedspd.engine.spending import Spending
from fedspd.results import COLUMNS


class RoundPlan(NamedTuple):
    """One round's participants, and where budgets stand once they have paid."""

    round: int
    chosen: np.ndarray
    clients_with_budget: int
    epsilon_max: float
    epsilon_mean: float
    free: bool  # no record is used, and nobody charged


@dataclass(frozen=True, eq=False)
class Course:
    """All rounds of a run, planned; runs that share a seed may share it."""

    turns: tuple[RoundPlan, ...]

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What a history says of the rounds' plans."""
        names = [name for name in RoundPlan._fields if name in COLUMNS]
        return {name: np.array([getattr(turn, name) for turn in self.turns]) for name in names}

    @cached_property
    def participants(self) -> np.ndarray:
        """How many take part in each round."""
        return np.array([len(turn.chosen) for turn in self.turns])


def plan_course(simulation: Simulation, spending: Spending, free: np.ndarray | None = None) -> Course:
    """All rounds at once, each charged: where nobody can run out of budget, drawn once for all runs of a seed.

    Args:
        simulation: whose rounds are planned.
        spending: what they are charged to.
        free: its `free_rounds`, where they are known.
    """
    free = free_rounds(simulation) if free is None else free
    if spending.gate is not None or spending.every_round or simulation.most_stale is not None or _may_end(simulation):
        return Course(tuple(plan_rounds(simulation, spending, free)))
    clients, participants, rounds = simulation.shards.clients, simulation.participants, simulation.rounds
    planned = _unlimited(simulation.seed, rounds, clients, participants, simulation.same_participants, free.tobytes())
    spending.participations += planned.participations
    spending.last[:] = planned.last
    return planned.course


def _may_end(simulation: Simulation) -> bool:
    most = simulation.plan.most_participations
    return simulation.min_participants > simulation.participants or (
        most is not None and int(most.min()) <= simulation.rounds
    )


class _Planned(NamedTuple):
    """A course, how often each client takes part in it and when last."""

    course: Course
    participations: np.ndarray
    last: np.ndarray


@lru_cache(maxsize=128)
def _unlimited(seed: int, rounds: int, clients: int, participants: int, same: bool, free: bytes) -> _Planned:
    """Of clients that may always take part."""
    everyone, turns, participations, last = np.ones(clients, bool), [], *np.zeros((2, clients), np.int64)
    for round, is_free in enumerate(np.frombuffer(free, bool).tolist(), 1):
        chosen = choose_among(seed, round, participants, same and not is_free, everyone, clients)
        turns.append(RoundPlan(round, chosen, clients, np.nan, np.nan, is_free))
        if not is_free:
            participations[chosen] += 1
            last[chosen] = round
    assert len(turns) == rounds
    return _Planned(Course(tuple(turns)), participations, last)


def plan_rounds(simulation: Simulation, spending: Spending, known: np.ndarray | None = None) -> Iterator[RoundPlan]:
    """Round after round, as it is asked for: a turn's participants are charged when it is handed out, not before.

    Args:
        simulation: whose rounds are planned.
        spending: what they are charged to.
        known: its `free_rounds`, where they are known.
    """
    everyone, without_records = (
        np.ones(simulation.shards.clients, bool),
        free_rounds(simulation) if known is None else known,
    )
    for round, free in enumerate(without_records.tolist(), 1):
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


def free_rounds(simulation: Simulation) -> np.ndarray:
    """Which rounds do not depend on records: nobody is charged for them. It is so for all clients or for none."""
    algorithm, rounds = simulation.algorithm, np.arange(1, simulation.rounds + 1)
    free = sensitivities(algorithm, rounds, simulation.batch_sizes(np.zeros(1, np.int64)))[:, 0] == 0
    if free.any() and simulation.plan.guarantee == "proved" and not isinstance(algorithm, HasFreeRounds):
        raise RuntimeError(
            f"{type(algorithm).__name__} says that no record moves round {rounds[free][0]} but has no free rounds: its "
            "query would leave without noise and without a charge."
        )
    return free


def sensitivities(algorithm: Algorithm, rounds: np.ndarray, batch_sizes: np.ndarray) -> np.ndarray:
    """(rounds, places): of each round, for batch sizes (places,) or (rounds, places).

    A formula of numbers is one of arrays, too, and asked once. One that takes no arrays, or means something else by
    them, which the first and the last round tell, is asked round by round.
    """
    sizes = np.broadcast_to(batch_sizes, (len(rounds), batch_sizes.shape[-1]))
    return by_round(algorithm.sensitivity, rounds, sizes)


def by_round(formula: Callable[[Any, Any], Any], rounds: np.ndarray, of: np.ndarray) -> np.ndarray:
    """(rounds, ...): a formula of a round and of a row, for all rows; in one call where that gives the same."""

    def alone(number: int) -> Any:
        return np.broadcast_to(formula(int(rounds[number]), of[number]), of[number].shape)

    try:
        together = np.broadcast_to(formula(rounds[:, None], of), of.shape)
        if all(_same(together[end], alone(end)) for end in (0, -1)):
            return together
    except (TypeError, ValueError):  # a formula of one round
        pass
    return np.array([alone(number) for number in range(len(rounds))])


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Up to rounding."""
    with np.errstate(invalid="ignore"):  # infinities are equal, and have no difference
        return bool(((one == other) | (np.abs(one - other) <= 1e-12 * np.abs(other))).all())


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


@lru_cache(maxsize=1 << 14)  # runs of a sweep that share a seed have the same participants
def _drawn(seed: int, round: int, clients: int, count: int) -> np.ndarray:
    chosen = draws.participants(draws.stream(seed, "participation", round), clients, count)
    chosen.flags.writeable = False
    return chosen
