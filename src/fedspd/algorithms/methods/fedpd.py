r"""FedPD (Zhang, Hong, Dhople, Yin, Liu 2021, doi 10.1109/TSP.2021.3115952), without privacy.

All clients take part in every round. Client i, from its own weights, with Q local steps as solver of
its augmented Lagrangian:

    x    <- prox_{R/(γ+ρ)}((γ x + ρ x_0 + λ_i - ∇f_i(x; B_r)) / (γ+ρ))      r = 1..Q
    λ_i  <- λ_i + ρ (x_0 - x)
    x_0   = mean of x - λ_i/ρ over all clients

The sign of λ is that of the FedSPD-DP paper, opposite to the published one, and the published random
skipping of averages is left out. Weights and duals are carried un-noised, hence `Private`: no claim.
"""

from dataclasses import dataclass
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.card import Card
from fedspd.algorithms.method import Made, Method, Needs, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import square
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Private, Query, Release


@dataclass(frozen=True)
class FedPD:
    """Primal-dual local training with full participation."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ = 1/η of the publication
    local_steps: int  # Q
    schedule: Schedule  # γ

    guarantee = "none"
    relation = "replace-one"
    keeps_replies = True
    law = "gaussian"
    exact = False
    releases = 1

    def start(self, zeros: Array) -> tuple[Array, Private[PrimalDual], Array]:
        """All zero."""
        return zeros[0, ...], Private(PrimalDual(zeros, zeros)), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The average and γ."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Private[PrimalDual], batches: Batches) -> tuple[Query, Private[PrimalDual]]:
        """Q local steps, the dual step, the upload."""
        weights, dual = client.value
        steps = proximal_steps(self.objective, weights, told.weights, dual, told.inverse_step, self.penalty, batches)
        dual = dual + self.penalty * (told.weights - steps.last)
        return Query(steps.last - dual / self.penalty, steps.clipped), Private(PrimalDual(steps.last, dual))

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Nothing is claimed, so nothing bounds it."""
        return float("inf")

    def settle(
        self, told: Told, client: Private[PrimalDual], release: Release, kept: Private[PrimalDual]
    ) -> tuple[Private[PrimalDual], Array]:
        """The state goes on un-noised; the reply is the upload."""
        return kept, release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """$x_0$ of the next round."""
        return server

    def local_point(self, client: Private[PrimalDual]) -> PrimalDual:
        """Local weights and dual."""
        return client.value


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size", needed=True)
    penalty: float = shared.penalty("penalty rho of the augmented Lagrangian", needed=True)
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


def work(settings: Settings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling)


def make(public: Public, settings: Settings) -> Made:
    """Without privacy."""
    step = Constant(settings.inverse_step)
    algorithm = FedPD(public.objective, public.holdings.clients, settings.penalty, settings.local_steps, step)
    return Made(algorithm, needed_rounds(public))


METHOD = Method(
    name="fedpd",
    card=Card(
        title="FedPD",
        citation="Zhang, Hong, Dhople, Yin, Liu 2021, TSP, doi 10.1109/TSP.2021.3115952",
        claimed="No privacy.",
        released="the last local iterate less the scaled dual",
        private_state="last local iterate and dual",
        confidence="high: widely used public code",
        rate="O(1/T) to a stationary point, smooth",
    ),
    guarantee="none",
    kind=FedPD,
    settings=Settings,
    make=make,
    work=work,
    grid=square("algorithm.inverse_step", (0.1, 1.0, 10.0), "algorithm.penalty", (0.01, 0.1, 1.0)),
    needs=Needs(everybody=True),
    compared={"algorithm.local_steps": 5},
    deploys=True,
)
