r"""DDP-ADMM with primal variable perturbation, PVP, exactly as published (Zhang and Zhu 2017, doi
10.1109/TIFS.2016.2607691).

As `ddp_admm_pvp`, but a client puts its own un-noised minimizer in the middle:

    f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (f_i + V_j)/2‖²       the only access to the records
    V_i  = f_i + b,   b of density ∝ exp(-‖b‖/s)

Released: $V_i$. Kept un-noised: $f_i$, hence `Private`.
Claimed: α-DP of one round, $s = 2G/(m\mu\alpha)$ with μ the regularizer's strength; **as published**, since the hidden
$f_i$ feeds all later rounds. No total.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual
from fedspd.algorithms.card import HIDDEN
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.methods import ddp_admm_pvp
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import influence
from fedspd.algorithms.parts.grids import square
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import strength
from fedspd.errors import InputError
from fedspd.problem import Objective, check_exact, minimize
from fedspd.typing import Array, Batches, Private, Query, Release


class Hiding(NamedTuple):
    """What a client carries."""

    weights: Array  # V_i
    dual: Array  # λ_i
    own: Private[Array]  # f_i


@dataclass(frozen=True)
class DDPADMMPrimalPublished:
    """Exact ADMM with noise on the minimizer, and the minimizer itself carried on."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄

    guarantee = "as published"
    relation = "replace-one"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True
    law = "laplace"

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly, and that the published sensitivity is finite."""
        check_exact(self.objective)
        if strength(self.objective) == 0:
            raise InputError(
                "ddp-admm-pvp-published divides its noise by the regularizer's strength, got none; set "
                "problem.regularizer = squared-l2."
            )

    def start(self, zeros: Array) -> tuple[Array, Hiding, Array]:
        """All zero: public."""
        return self.network.start(zeros), Hiding(zeros, zeros, Private(zeros)), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Hiding, batches: Batches) -> tuple[Query, Private[Array]]:
        """The minimizer of the client's augmented Lagrangian."""
        own = client.own.value
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty, own)
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
        goal = influence(self.objective, None, batches.divisors)
        least = minimize(self.objective, own, sub.curvature, sub.pull, *records, goal)
        return Query(least.weights, least.clipped), Private(least.weights)

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """How far one record moves the minimizer, as if only the regularizer held it."""
        return 2 * self.objective.clip_norm / (batch_sizes * strength(self.objective))

    def settle(self, told: Neighbors, client: Hiding, release: Release, kept: Private[Array]) -> tuple[Hiding, Array]:
        """The dual step with what was heard; the reply is the release."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        return Hiding(release.value, sub.dual, kept), release.value

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Hiding) -> PrimalDual:
        """The released weights and the dual."""
        return point_of(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float = shared.penalty("penalty 2 eta V of the augmented Lagrangian", needed=True)
    topology: str = shared.topology()
    edge_probability: float = shared.edge_probability()


def make(public: Public, settings: Settings) -> Made:
    """With the minimizer carried un-noised."""
    network = make_network(public, settings.topology, settings.edge_probability)
    return Made(DDPADMMPrimalPublished(public.objective, network, settings.penalty), needed_rounds(public))


METHOD = Method(
    name="ddp-admm-pvp-published",
    card=replace(
        ddp_admm_pvp.METHOD.card,
        title="DDP-ADMM (PVP) as published",
        proved="",
        caveat=HIDDEN,
        private_state="the local minimizer",
    ),
    guarantee="as published",
    kind=DDPADMMPrimalPublished,
    settings=Settings,
    make=make,
    grid=square("algorithm.penalty", (0.1, 1.0, 10.0), "problem.strength", (1.0, 10.0, 100.0)),
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2", "problem.per_client": "share"},
)
