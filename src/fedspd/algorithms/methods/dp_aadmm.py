r"""DP-AADMM: asynchronous ADMM under a secure sum (Guo and Gong 2018, "Practical collaborative learning for
crowdsensing in the internet of things with differential privacy", CNS). Known here by its abstract: a
**reconstruction**.

Some clients arrive in a round, none stays away for more than a given number of rounds (`run.most_stale`). Client i,
with the server's z:

    w_i  = argmin f_i(w) + λ_i·(w - z) + ρ/2 ‖w - z‖²                       the only access to the records
    λ_i <- λ_i + ρ (w_i - z)
    u_i  = w_i + λ_i/ρ + N(0, σ²/K)                                    one of K shares of the noise
    z    = prox_{R/ρ}(mean of the latest u_i of all clients)

Released: the sum of $u_i$ over the K clients of a round, by a secure sum that is assumed and not part of this file: a
weaker adversary than that of the other methods, who see every upload. Kept un-noised: $w_i$ and $\lambda_i$, hence
`Private`.
Claimed: (ε, δ)-DP of one round for the sum, with sensitivity $4G/(m\rho)$; **as published**. Shared noise with
un-noised duals has no proof: they carry a record into all later rounds, and whoever knows some shares has less noise
to face.
"""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.card import NON_SMOOTH, ONE_GD, Card, Printed
from fedspd.algorithms.method import Made, Method, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import influence
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.problem import Objective, Unregularized, check_exact, minimize
from fedspd.typing import Array, Batches, Private, Query, Release, array_namespace


@dataclass(frozen=True)
class DPAADMM:
    """Consensus ADMM with partial arrivals and shared noise."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    shares: int  # K, over which the noise is shared

    guarantee = "as published"
    relation = "replace-one"
    law = "gaussian"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True

    def __post_init__(self) -> None:
        """Check that sub-problems, which have no regularizer, are solved exactly."""
        check_exact(self._loss_alone)

    @property
    def _loss_alone(self) -> Objective:
        return replace(self.objective, regularizer=Unregularized())

    def start(self, zeros: Array) -> tuple[Array, Private[PrimalDual], Array]:
        """All zero."""
        return zeros[0, ...], Private(PrimalDual(zeros, zeros)), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """z."""
        return Told(self.model(server), self.penalty)

    def query(self, told: Told, client: Private[PrimalDual], batches: Batches) -> tuple[Query, Private[PrimalDual]]:
        """The exact primal step, the dual step, the upload."""
        xp = array_namespace(told.weights)
        weights, dual = client.value
        center = xp.zeros_like(weights) + told.weights
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
        goal = influence(self.objective, None, batches.divisors)
        least = minimize(self._loss_alone, weights, self.penalty, self.penalty * center - dual, *records, goal)
        dual = dual + self.penalty * (least.weights - center)
        return Query(least.weights + dual / self.penalty, least.clipped), Private(PrimalDual(least.weights, dual))

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of an upload, over the root of the shares: K of them make up the noise of the sum."""
        return 4 * self.objective.clip_norm / (batch_sizes * self.penalty * sqrt(self.shares))

    def settle(
        self, told: Told, client: Private[PrimalDual], release: Release, kept: Private[PrimalDual]
    ) -> tuple[Private[PrimalDual], Array]:
        """The state goes on un-noised; the reply is the release."""
        return kept, release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """The mean of the latest uploads of all clients."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """z, which the regularizer has pulled on."""
        return self.objective.regularizer.prox(server, 1 / self.penalty)

    def local_point(self, client: Private[PrimalDual]) -> PrimalDual:
        """Local weights and the dual, in the sign of the FedSPD-DP paper."""
        return PrimalDual(client.value.weights, -client.value.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float = shared.penalty("penalty rho of the augmented Lagrangian", needed=True)


def make(public: Public, settings: Settings) -> Made:
    """The noise of a round shared by its participants."""
    algorithm = DPAADMM(public.objective, public.clients, settings.penalty, public.participants)
    return Made(algorithm, needed_rounds(public))


METHOD = Method(
    name="dp-aadmm",
    card=Card(
        title="DP-AADMM",
        reconstruction=True,
        citation='Guo, Gong 2018, "Practical collaborative learning for crowdsensing in the internet of things with '
        'differential privacy", CNS',
        caveat="un-noised duals are carried, and the noise of a round is shared under a secure sum",
        claimed="(ε, δ)-DP of a round's sum of uploads, against whoever sees no single upload.",
        released="the sum of a round's uploads, by a secure sum",
        private_state="local minimizer and dual",
        adversary="anyone who sees the sum of a round's uploads, never one of them",
        confidence="low: its abstract only",
        table_1=8,
        printed=Printed(ONE_GD, NON_SMOOTH, True, ""),
    ),
    guarantee="as published",
    kind=DPAADMM,
    settings=Settings,
    make=make,
    grid=tuple({"algorithm.penalty": 10.0 ** (power / 2)} for power in range(-6, 3)),
)
