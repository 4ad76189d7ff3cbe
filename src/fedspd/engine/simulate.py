"""Many rounds on one machine, in NumPy: no compile time, cost per round growing with the participants."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedspd.algorithms import Algorithm
from fedspd.data import Shards, Table
from fedspd.engine import draws
from fedspd.engine.books import Books, Gate
from fedspd.engine.diagnostics import Lagrangian, accuracies, objectives
from fedspd.engine.parallel import Each, cores
from fedspd.engine.round import Played, play
from fedspd.engine.rows import gather, joined, scatter, writable
from fedspd.errors import InputError
from fedspd.privacy import POISSON, WITH_REPLACEMENT, WITHOUT_REPLACEMENT, Plan
from fedspd.results import History
from fedspd.typing import Batches

PART = 256  # participants that one thread plays at a time
ALIKE = 0.7  # whole shards played together are at least this much of the longest one


@dataclass(frozen=True)
class Simulation:
    """Everything a simulated run depends on; running it twice gives the same bits."""

    shards: Shards
    test: Table
    algorithm: Algorithm
    plan: Plan
    batch_size: int | None  # None: the whole shard, dealt out to the local steps
    participants: int
    rounds: int
    seed: int
    objective_every: int = 1  # rounds between evaluations of the objective on all records
    spent_every_round: bool = True  # evaluate the privacy spent after every round, not only after the last
    min_participants: int = 1  # the run ends when fewer clients have budget left
    same_participants: bool = False  # the clients of round 1 take part in all rounds, and nobody else

    def batch_sizes(self, clients: np.ndarray) -> np.ndarray:
        """What each client divides a batch's sum by."""
        whole = self.shards.divisors[clients]
        if self.batch_size is None:
            return whole / self.algorithm.local_steps
        return self.batch_size * whole / self.shards.sizes[clients]

    @property
    def expected_participations(self) -> float:
        """Of a client that takes part at all: p T, or T where the same ones always do."""
        return self.rounds if self.same_participants else self.rounds * self.participants / self.shards.clients

    def batches(self, clients: np.ndarray, records: np.ndarray) -> Batches:
        """The named records of each client, gathered from the flat table."""
        flat = self.shards.offsets[clients][:, None, None] + records
        features = self.shards.features[flat]
        if records.min() == draws.NOBODY:
            features[records == draws.NOBODY] = 0.0
        return Batches(features, self.shards.labels[flat], self.batch_sizes(clients))

    def check(self) -> None:
        """Refuse what cannot run, before any work."""
        check_participants(self.participants, self.shards.clients)
        smallest = int(self.shards.sizes.min())
        drawn = self.algorithm.local_steps * (self.batch_size or 1)
        if self.plan.sampling != WITH_REPLACEMENT and drawn > smallest:
            raise InputError(
                f"local_steps x batch_size must be at most the records of the smallest client, {smallest}, "
                f"when sampling without replacement, got {drawn}; lower batch_size, local_steps or partition.clients."
            )


def check_participants(count: int, clients: int) -> None:
    """Refuse a number of participants that the clients cannot give."""
    if not 1 <= count <= clients:
        raise InputError(
            f"participants must be between 1 and the number of clients, {clients}, got {count}; "
            "lower run.participants or raise partition.clients."
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

    def average(self, last: int | None = None) -> np.ndarray:
        """The mean of the last models, of a quarter of all rounds by default: free post-processing."""
        return self.models[-(last or max(1, len(self.models) // 4)) :].mean(axis=0)


def simulate(simulation: Simulation, on_round: Callable[[], Any] = lambda: None, gate: Gate | None = None) -> Outcome:
    """Run all rounds, then evaluate the models of all rounds in few large matrix products."""
    simulation.check()
    _check_claims(simulation.algorithm, simulation.plan)
    with cores() as each:
        return _simulate(simulation, on_round, gate, each)


def _check_claims(algorithm: Algorithm, plan: Plan) -> None:
    """A plan may not claim more than its method, nor speak of other neighbors: an error of whoever built them."""
    name = type(algorithm).__name__
    if plan.guarantee == "proved" and algorithm.guarantee != "proved":
        raise RuntimeError(f"{name}'s guarantee is {algorithm.guarantee!r}, so its plan cannot be 'proved'.")
    if plan.guarantee != "none" and algorithm.guarantee == "none":
        raise RuntimeError(f"{name} bounds nothing, so its plan cannot be {plan.guarantee!r}.")
    if plan.guarantee != "none" and algorithm.relation != plan.relation:
        raise RuntimeError(f"{name} speaks of {algorithm.relation} neighbors, its plan of {plan.relation} ones.")


def _simulate(simulation: Simulation, on_round: Callable[[], Any], gate: Gate | None, each: Each) -> Outcome:
    shards, algorithm, plan = simulation.shards, simulation.algorithm, simulation.plan
    shape = (shards.clients, shards.features.shape[1], algorithm.objective.loss.outputs)
    server, clients, replies = writable(algorithm.start(np.zeros(shape)))
    point = writable(algorithm.local_point(clients))
    lagrangian = Lagrangian(algorithm.objective, shards, algorithm.penalty, each, point.weights, point.dual)
    books = Books(plan, shards.clients, gate, simulation.spent_every_round)
    models: list[np.ndarray] = []
    rows: list[dict[str, float]] = []
    for round in range(1, simulation.rounds + 1):
        if books.with_budget < simulation.min_participants:
            break
        chosen = books.charge(round, choose(simulation, round, books))
        if not len(chosen):
            continue
        told = algorithm.broadcast(server, round)
        scale = plan.noise_scale(chosen, algorithm.sensitivity(round, simulation.batch_sizes(chosen)))
        played = _play(simulation, told, clients, chosen, draw(simulation, round, chosen), scale, each)
        server = algorithm.merge(server, told, played.replies, replies[chosen])
        scatter(clients, chosen, played.client)
        scatter(replies, chosen, played.replies)
        models.append(np.asarray(algorithm.model(server)))
        lagrangian.update(chosen, algorithm.local_point(played.client), models[-1], len(models))
        rows.append(
            {
                "round": round,
                "weights_norm": float(np.linalg.norm(models[-1])),
                "inverse_step": told.inverse_step,
                "noise_scale": float(np.mean(scale)),
                "participants": len(chosen),
                "clients_with_budget": books.with_budget,
                "epsilon_max": books.largest if simulation.spent_every_round else np.nan,
                "epsilon_mean": books.total / shards.clients if simulation.spent_every_round else np.nan,
                "clipped_share": float(np.mean(played.clipped)),
            }
        )
        on_round()
    if not rows:
        raise InputError(
            "no client had budget for a single round; raise the budget, or name a new ledger with --ledger."
        )
    books.close()
    rows[-1] |= {"epsilon_max": books.largest, "epsilon_mean": books.total / shards.clients}
    trajectory = np.array(models)
    history = _history(simulation, rows, trajectory, lagrangian, each)
    return Outcome(trajectory, history, lagrangian, books.participations)


def _play(
    simulation: Simulation, told: Any, clients: Any, chosen: np.ndarray, drawn: "Drawn", scale: Any, each: Each
) -> Played:
    """One round of the participants; many of them, or ones of unequal size, are split into parts over the cores."""
    scales = np.broadcast_to(np.asarray(scale, float).reshape(-1, 1, 1), (len(chosen), 1, 1))

    def part(rows: Any) -> Played:
        batches = simulation.batches(chosen[rows], _trimmed(drawn.records[rows]))
        states = gather(clients, chosen[rows])
        return play(simulation.algorithm, told, states, batches, scales[rows], drawn.normals[rows])

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


def _trimmed(records: np.ndarray) -> np.ndarray:
    """Without the places at the end that nobody in the stack fills."""
    filled = np.flatnonzero((records != draws.NOBODY).any(axis=(0, 1)))
    return records[:, :, : 1 + int(filled[-1])] if len(filled) else records[:, :, :1]


class Drawn(NamedTuple):
    """Which records each participant uses, and its noise."""

    records: np.ndarray  # (clients, local steps, longest batch), numbers within the shard
    normals: np.ndarray


def choose(simulation: Simulation, round: int, books: Books) -> np.ndarray:
    """Who is asked to take part: uniformly among those with budget left, all of them if they are few."""
    rng = draws.stream(simulation.seed, "participation", 1 if simulation.same_participants else round)
    count = min(simulation.participants, books.with_budget)
    if simulation.same_participants:
        chosen = draws.participants(rng, len(books.may_take_part), simulation.participants)
        return chosen[books.may_take_part[chosen]]
    if books.with_budget == len(books.may_take_part):
        return draws.participants(rng, books.with_budget, count)
    return np.flatnonzero(books.may_take_part)[draws.participants(rng, books.with_budget, count)]


def draw(simulation: Simulation, round: int, chosen: np.ndarray) -> Drawn:
    """Records and noise; streams are keyed by the round, so any round can be drawn again alone."""
    records = _records(simulation, draws.stream(simulation.seed, "records", round), chosen)
    columns, outputs = simulation.shards.features.shape[1], simulation.algorithm.objective.loss.outputs
    rng = draws.stream(simulation.seed, "noise", round)
    return Drawn(records, rng.standard_normal((len(chosen), columns, outputs)))


def _records(simulation: Simulation, rng: np.random.Generator, chosen: np.ndarray) -> np.ndarray:
    """(clients, local steps, longest batch): numbers of records within each client's shard."""
    sizes, steps = simulation.shards.sizes[chosen], simulation.algorithm.local_steps
    if simulation.batch_size is None:
        return draws.whole_shards(rng, sizes, steps)
    count = steps * simulation.batch_size
    if simulation.plan.sampling == POISSON:
        return draws.poisson(rng, sizes, count / sizes, steps)
    without = simulation.plan.sampling == WITHOUT_REPLACEMENT
    drawn = (draws.records_without_replacement if without else draws.records_with_replacement)(rng, sizes, count)
    return drawn.reshape(len(chosen), steps, simulation.batch_size)


def _history(
    simulation: Simulation, rows: list[dict[str, float]], models: np.ndarray, lagrangian: Lagrangian, each: Each
) -> History:
    columns = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}
    problem, shards = simulation.algorithm.objective, simulation.shards
    objective = np.full(len(models), np.nan)
    evaluated = np.arange(len(models) - 1, -1, -simulation.objective_every)
    objective[evaluated] = objectives(problem, shards, models[evaluated], each)
    alfv = lagrangian.values()
    return History(
        columns
        | {
            "alfv": alfv,
            "alfv_per_client": alfv / shards.clients,
            "consensus_error": np.asarray(lagrangian.consensus),
            "objective": objective,
            "test_accuracy": accuracies(problem.loss, simulation.test, models, each),
        }
    )
