"""What a simulated run depends on, and what it ends with, whatever engine runs it."""

from dataclasses import dataclass

import numpy as np

from fedspd.algorithms import Algorithm
from fedspd.algorithms.base import AveragesSteps, PerturbsObjective, SolvesExactly, TakesTurns
from fedspd.algorithms.parts.rules import check_participants
from fedspd.data import Holdings, Shards, Table
from fedspd.engine.arrivals import Members
from fedspd.engine.batches import check_batches, nominal_sizes
from fedspd.engine.measuring.diagnostics import Lagrangian
from fedspd.errors import InputError
from fedspd.privacy import Plan, ProvedPlan
from fedspd.privacy.accounting.minimizers import longest_noise
from fedspd.results import History


@dataclass(frozen=True)
class Simulation:
    """Everything a simulated run depends on; running it twice gives the same bits.

    Client states have the type of the features, float64 or float32; the server's is float64 always.
    """

    shards: Shards
    test: Table | None  # None: models are not measured
    algorithm: Algorithm
    plan: Plan
    batch_size: int | None  # None: the whole shard, dealt out to the local steps; of cohorts: of a member on average
    participants: int
    rounds: int
    seed: int
    objective_every: int = 1  # rounds between evaluations of the objective on all records; 0: never
    spent_every_round: bool = True  # evaluate the privacy spent after every round, not only after the last
    lagrangian: bool = True  # follow the augmented Lagrangian, which reads all records of every participant
    min_participants: int = 1  # the run ends when fewer clients have budget left
    same_participants: bool = False  # the clients of round 1 take part in all rounds, and nobody else
    most_stale: int | None = None  # every client takes part at least once in so many rounds
    members: Members | None = None  # where cohorts stand in the clients' place

    def batch_sizes(self, clients: np.ndarray) -> np.ndarray:
        """What each client divides a batch's sum by."""
        if self.members is not None:
            return np.full(np.shape(clients), self.members.divisor)
        return nominal_sizes(self.shards.holdings, clients, self.batch_size, self.algorithm.local_steps)

    @property
    def expected_participations(self) -> float:
        """Of a client that takes part at all: p T, or T where the same ones always do."""
        return self.rounds if self.same_participants else self.rounds * self.participants / self.shards.clients

    @property
    def tested(self) -> Table:
        """What models are measured on, of a run that measures them."""
        assert self.test is not None, "there is no test set"
        return self.test

    @property
    def matrix(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.shards.features.shape[1], self.algorithm.objective.loss.outputs

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        if self.plan.guarantee != "none" and self.shards.unit != self.plan.unit:
            raise RuntimeError(f"the records are counted by {self.shards.unit}, its plan counts by {self.plan.unit}.")
        check_run(
            self.shards.holdings, self.matrix[0], self.algorithm, self.plan, self.batch_size, self.participants,
            self.most_stale,
        )  # fmt: skip


def check_run(
    holdings: Holdings, columns: int, algorithm: Algorithm, plan: Plan, batch_size: int | None, participants: int,
    most_stale: int | None,
) -> None:  # fmt: skip
    """Refuse what cannot run, by public numbers: before a ledger is opened or a record touched."""
    check_participants(participants, holdings.clients)
    if most_stale is not None and participants * most_stale < holdings.clients:
        summed = isinstance(plan, ProvedPlan) and plan.draws.sharing is not None
        asked, all_of = ("cohorts of a round", "cohorts") if summed else ("run.participants", "clients")
        raise InputError(
            f"run.most_stale x {asked} must be at least the number of {all_of}, {holdings.clients}, so that each can "
            f"take its turn, got {most_stale} x {participants}; raise one of them."
        )
    if isinstance(plan, ProvedPlan):
        _check_counted(algorithm, plan, holdings.divisors)
        if isinstance(algorithm, SolvesExactly):
            algorithm.check_solvable(int(holdings.sizes.max()), holdings.divisors, columns)
        if isinstance(algorithm, PerturbsObjective):
            scales = plan.noise_scale(np.arange(holdings.clients), algorithm.sensitivity(1, holdings.divisors))
            longest = float(np.max(scales)) * longest_noise(columns * algorithm.objective.loss.outputs)
            algorithm.check_noise(longest, int(holdings.sizes.max()), holdings.divisors, columns)
    check_batches(holdings, plan.sampling, batch_size, algorithm.local_steps)


def _check_counted(algorithm: Algorithm, plan: ProvedPlan, divisors: np.ndarray) -> None:
    """A plan counts all that its method costs: otherwise an error of whoever built them."""
    if isinstance(algorithm, PerturbsObjective):
        needed, counted = algorithm.jacobian(divisors), plan.draws.jacobian
        if needed > counted:
            raise RuntimeError(f"the method's determinant costs {needed:g}, of which its plan counts {counted:g}.")
        if (plan.draws.directions or 0) < algorithm.directions:
            raise RuntimeError("a record moves the method's gradient in more directions than its plan counts on.")
    if plan.draws.contraction > 0:
        known = algorithm.contraction if isinstance(algorithm, AveragesSteps) else 0.0
        if plan.draws.contraction > known * (1 + 1e-12) or plan.draws.local_steps != algorithm.local_steps:
            raise RuntimeError(
                f"{algorithm.local_steps} local steps shrink a record's part to {known:g}, its plan counts on "
                f"{plan.draws.local_steps} and {plan.draws.contraction:g}."
            )
    turns = algorithm.blocks if isinstance(algorithm, TakesTurns) else 1
    if plan.draws.blocks > turns:
        raise RuntimeError(f"records come in turns of {turns}, its plan charges in turns of {plan.draws.blocks}.")


def check_claims(algorithm: Algorithm, plan: Plan, weights: int | None = None) -> None:
    """A plan may not claim more than its method, nor speak of other neighbors: an error of whoever built them.

    Args:
        algorithm: the method.
        plan: what is claimed.
        weights: how many there are, where they are known; noise in fewer dimensions leaks more.
    """
    name = type(algorithm).__name__
    if isinstance(plan, ProvedPlan) and weights is not None and (plan.draws.dimension or 0) > weights:
        raise RuntimeError(f"there are {weights} weights, its plan counts on noise on {plan.draws.dimension}.")
    if plan.guarantee == "proved" and algorithm.guarantee != "proved":
        raise RuntimeError(f"{name}'s guarantee is {algorithm.guarantee!r}, so its plan cannot be 'proved'.")
    if plan.guarantee != "none" and algorithm.guarantee == "none":
        raise RuntimeError(f"{name} bounds nothing, so its plan cannot be {plan.guarantee!r}.")
    if plan.guarantee != "none" and algorithm.law != plan.law:
        raise RuntimeError(f"{name}'s noise is {algorithm.law}, that of its plan {plan.law}.")
    if plan.guarantee != "none" and algorithm.relation != plan.relation:
        raise RuntimeError(f"{name} speaks of {algorithm.relation} neighbors, its plan of {plan.relation} ones.")


@dataclass(frozen=True)
class Outcome:
    """What a simulation ends with."""

    models: np.ndarray  # the global weights after every round
    history: History
    followed: Lagrangian | None  # None where the simulation does not follow it
    participations: np.ndarray  # rounds each client took part in

    @property
    def lagrangian(self) -> Lagrangian:
        """The augmented Lagrangian of the run."""
        if self.followed is None:
            raise RuntimeError("this simulation did not follow its augmented Lagrangian: set its `lagrangian`.")
        return self.followed

    @property
    def weights(self) -> np.ndarray:
        """The global weights after the last round."""
        return self.models[-1]

    def average(self, last: int | None = None) -> np.ndarray:
        """The mean of the last models, of a quarter of all rounds by default: free post-processing."""
        return self.models[-(last or max(1, len(self.models) // 4)) :].mean(axis=0)
