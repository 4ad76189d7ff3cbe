"""Many rounds on one machine, in NumPy: no compile time, cost per round growing with the participants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms import Algorithm
from fedspd.data import Shards, Table
from fedspd.engine import draws
from fedspd.engine.diagnostics import Lagrangian, accuracies, objectives
from fedspd.engine.round import play
from fedspd.engine.rows import gather, scatter, writable
from fedspd.errors import InputError
from fedspd.privacy import WITHOUT_REPLACEMENT, Plan
from fedspd.results import History
from fedspd.typing import Batches, Private


@dataclass(frozen=True)
class Simulation:
    """Everything a simulated run depends on; running it twice gives the same bits."""

    shards: Shards
    test: Table
    algorithm: Algorithm
    plan: Plan
    batch_size: int
    participants: int
    rounds: int
    seed: int
    objective_every: int = 1  # rounds between evaluations of the objective on all records

    def check(self) -> None:
        """Refuse what cannot run, before any work."""
        clients, count = self.shards.clients, self.participants
        if not 1 <= count <= clients:
            raise InputError(
                f"participants must be between 1 and the number of clients, {clients}, got {count}; "
                "lower run.participants or raise partition.clients."
            )
        drawn = self.algorithm.local_steps * self.batch_size
        smallest = int(self.shards.sizes.min())
        if self.plan.sampling == WITHOUT_REPLACEMENT and drawn > smallest:
            raise InputError(
                f"local_steps x batch_size must be at most the records of the smallest client, {smallest}, "
                f"when sampling without replacement, got {drawn}; lower batch_size, local_steps or partition.clients."
            )


@dataclass(frozen=True)
class Outcome:
    """What a simulation ends with."""

    models: np.ndarray  # the global weights after every round
    history: History
    lagrangian: Lagrangian
    participations: np.ndarray  # rounds each client took part in

    @property
    def weights(self) -> np.ndarray:
        """The global weights after the last round."""
        return self.models[-1]


def simulate(simulation: Simulation, on_round: Callable[[], Any] = lambda: None) -> Outcome:
    """Run all rounds, then evaluate the models of all rounds in few large matrix products."""
    simulation.check()
    shards, algorithm, plan = simulation.shards, simulation.algorithm, simulation.plan
    shape = (shards.clients, shards.features.shape[1], algorithm.objective.loss.outputs)
    server, clients, replies = writable(algorithm.start(np.zeros(shape)))
    if isinstance(clients, Private) and plan.guarantee == "proved":
        raise RuntimeError(f"{type(algorithm).__name__} keeps un-noised state, so its plan cannot be 'proved'.")
    point = writable(algorithm.local_point(clients))
    lagrangian = Lagrangian(algorithm.objective, shards, algorithm.penalty, point.weights, point.dual)
    spending = Spending(plan, shards.sizes)
    models = np.empty((simulation.rounds, *shape[1:]))
    rows: list[dict[str, float]] = []
    for round in range(1, simulation.rounds + 1):
        chosen, batches, normals = draw_round(simulation, round)
        told = algorithm.broadcast(server, round)
        scale = plan.noise_scale(algorithm.sensitivity(round))
        played = play(algorithm, told, gather(clients, chosen), batches, scale, normals)
        server = algorithm.merge(server, played.replies, replies[chosen])
        scatter(clients, chosen, played.client)
        scatter(replies, chosen, played.replies)
        spending.charge(chosen)
        model = models[round - 1] = np.asarray(algorithm.model(server))
        lagrangian.update(chosen, algorithm.local_point(played.client), model, round)
        rows.append(
            {
                "round": round,
                "weights_norm": float(np.linalg.norm(model)),
                "inverse_step": told.inverse_step,
                "noise_scale": scale,
                "participants": len(chosen),
                "epsilon_max": spending.largest,
                "epsilon_mean": spending.total / shards.clients,
                "clipped_share": float(np.mean(played.clipped)),
            }
        )
        on_round()
    history = _history(simulation, rows, models, lagrangian)
    return Outcome(models, history, lagrangian, spending.participations)


@dataclass
class Spending:
    """Epsilon of every client by its realized participations, kept up to date for participants only."""

    plan: Plan
    sizes: np.ndarray

    def __post_init__(self) -> None:
        self.participations = np.zeros(len(self.sizes), np.int64)
        self.epsilon = np.zeros(len(self.sizes))
        self.largest = self.total = 0.0

    def charge(self, participants: np.ndarray) -> None:
        """One more participation for each of these clients."""
        self.participations[participants] += 1
        spent = self.plan.spent(self.participations[participants], self.sizes[participants])
        before = self.epsilon[participants]
        # a client without a bound stays at infinity, which cannot be subtracted from itself
        self.total += float(np.subtract(spent, before, where=spent != before, out=np.zeros_like(spent)).sum())
        self.epsilon[participants] = spent
        self.largest = max(self.largest, float(spent.max()))


class Drawn(NamedTuple):
    """All randomness of a round: who takes part, with which records, under which noise."""

    participants: np.ndarray
    batches: Batches
    normals: np.ndarray


def draw_round(simulation: Simulation, round: int) -> Drawn:
    """Draw a round; its streams are keyed by the round, so any round can be drawn again alone."""
    shards, seed, steps = simulation.shards, simulation.seed, simulation.algorithm.local_steps
    shape = (simulation.participants, shards.features.shape[1], simulation.algorithm.objective.loss.outputs)
    chosen = draws.participants(draws.stream(seed, "participation", round), shards.clients, simulation.participants)
    draw = (
        draws.records_without_replacement
        if simulation.plan.sampling == WITHOUT_REPLACEMENT
        else draws.records_with_replacement
    )
    local = draw(draws.stream(seed, "records", round), shards.sizes[chosen], steps * simulation.batch_size)
    flat = (shards.offsets[chosen][:, None] + local).reshape(len(chosen), steps, simulation.batch_size)
    normals = draws.stream(seed, "noise", round).standard_normal(shape)
    return Drawn(chosen, Batches(shards.features[flat], shards.labels[flat]), normals)


def _history(
    simulation: Simulation, rows: list[dict[str, float]], models: np.ndarray, lagrangian: Lagrangian
) -> History:
    columns = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    problem, shards = simulation.algorithm.objective, simulation.shards
    objective = np.full(simulation.rounds, np.nan)
    evaluated = np.arange(simulation.rounds - 1, -1, -simulation.objective_every)
    objective[evaluated] = objectives(problem, shards, models[evaluated])
    alfv = lagrangian.values()
    return History(
        columns
        | {
            "alfv": alfv,
            "alfv_per_client": alfv / shards.clients,
            "consensus_error": np.asarray(lagrangian.consensus),
            "objective": objective,
            "test_accuracy": accuracies(problem.loss, simulation.test, models),
        }
    )
