r"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020); with noise on the uploads, DP-FedAvg.

Participant i takes Q proximal SGD steps from the server's weights w on $F_i + \frac\mu2\|x - w\|^2$:

    x   <- prox_{R/(γ+μ)}((γ x + μ w - ∇f_i(x; B_r)) / (γ+μ))       r = 1..Q, from x = w
    x̃_i  = x + N(0, σ²)                                      the only access to the records
    w    = mean of x̃_i over the participants

With μ = 0 this is FedAvg with step size 1/γ, with μ > 0 FedProx. DP-FedAvg (Li, Chang and Chi 2020,
"Secure federated averaging with differential privacy") is known here by its abstract: the noise on
the uploads is its, the rest of the method is a **reconstruction**.

Released: $\tilde x_i$; no other state is carried.
Claimed with the sensitivity $2QG/\gamma$, a record in every batch, and the total of the FedSPD-DP paper's Theorem 1:
**as published**. With a proof: `dp_fedavg`.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_present
from fedspd.algorithms.card import Card
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import DECADES, square
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Local(NamedTuple):
    """What a client remembers: the weights it last released."""

    weights: Array


@dataclass(frozen=True)
class FedAvg:
    """Local proximal SGD, averaged over the participants of a round."""

    objective: Objective
    local_steps: int  # Q
    schedule: Schedule  # γ
    penalty: float = 0.0  # μ of FedProx

    relation = "replace-one"
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    @property
    def guarantee(self) -> str:
        """As published at most; without any bound on gradients, none."""
        return "as published" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Local, Array]:
        """All zero: public."""
        return zeros[0, ...], Local(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Local, batches: Batches) -> tuple[Query, None]:
        """Where Q steps from the server's weights lead."""
        xp = array_namespace(told.weights)
        start = xp.zeros_like(client.weights) + told.weights
        steps = proximal_steps(self.objective, start, told.weights, 0.0, told.inverse_step, self.penalty, batches)
        return Query(steps.last, steps.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of the last local iterate, as if a record were alone in every batch."""
        return 2 * self.local_steps * self.objective.clip_norm / (self.schedule.inverse_step(round) + self.penalty)

    def settle(self, told: Told, client: Local, release: Release, kept: None) -> tuple[Local, Array]:
        """The reply is the release."""
        return Local(release.value), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the participants."""
        return mean_of_present(replies, present)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Local) -> PrimalDual:
        """The released weights; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class OpenSettings:
    """What a user may set of FedAvg."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size", needed=True)
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


@dataclass(frozen=True)
class ProximalSettings:
    """What a user may set of FedProx."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size", needed=True)
    penalty: float = shared.penalty("mu, by which local steps are held at the server's weights", needed=True)
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


def plain_work(settings: OpenSettings | ProximalSettings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling)


def make_open(public: Public, settings: OpenSettings) -> Made:
    """Without privacy."""
    algorithm = FedAvg(public.objective, settings.local_steps, Constant(settings.inverse_step))
    return Made(algorithm, needed_rounds(public))


def make_proximal(public: Public, settings: ProximalSettings) -> Made:
    """Without privacy, held at the server's weights."""
    algorithm = FedAvg(public.objective, settings.local_steps, Constant(settings.inverse_step), settings.penalty)
    return Made(algorithm, needed_rounds(public))


OPEN = Method(
    name="fedavg",
    card=Card(
        title="FedAvg",
        citation="McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017, AISTATS, arXiv 1602.05629",
        claimed="No privacy.",
        released="the last local iterate",
        confidence="high: widely used public code",
        rate="O(1/(TQ)) if strongly convex and smooth",
    ),
    guarantee="none",
    kind=FedAvg,
    settings=OpenSettings,
    make=make_open,
    work=plain_work,
    grid=DECADES,
    compared={"algorithm.local_steps": 5},
    deploys=True,
)

PROXIMAL = Method(
    name="fedprox",
    card=replace(
        OPEN.card,
        title="FedProx",
        citation="Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith 2020, MLSys, arXiv 1812.06127",
        rate="O(1/T) to a stationary point, bounded dissimilarity",
    ),
    guarantee="none",
    kind=FedAvg,
    settings=ProximalSettings,
    make=make_proximal,
    work=plain_work,
    grid=square("algorithm.inverse_step", (0.1, 1.0, 10.0), "algorithm.penalty", (0.01, 0.1, 1.0)),
    compared={"algorithm.local_steps": 5},
    deploys=True,
)
