r"""DDP-ADMM with dual variable perturbation, DVP (Zhang and Zhu 2017, doi 10.1109/TIFS.2016.2607691).

ADMM on a graph with exact sub-problems; the noise enters through the dual variable. All clients, every round:

    λ_i <- λ_i + η/2 Σ_j (f_i - f_j)                                     over the neighbors j, of the last f
    f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (f_i + f_j)/2‖² + b·f,   b of density ∝ exp(-‖b‖/s)
                                                                      the only access to the records

The published noise is $\mu_p = \lambda_p + \frac{1}{2m}\epsilon$, which is $b = \epsilon/m$. On a star the neighbors
are all others. Needs a smooth objective.

Released: $f_i$ with a small Gaussian on what is computed; duals are functions of it and of what was heard.
Claimed as published: α-DP of one round, $\alpha = 2G/(ms) + 2\ln(1 + a)$, $a = L/(m(\mu + 2\eta V_i))$; where the
second term alone exceeds α, more curvature Φ is added. No total.
Claimed here: **proved**, with $\ln(1 + a)$ and the Gaussian beside it (`objective_noise`). Too small a budget
for the curvature is refused, with the advice to raise the penalty, in place of Φ.
"""

from dataclasses import dataclass
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released
from fedspd.algorithms.card import MINIMIZERS, ONE_GD, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import OCTAVES
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import NoisedMinimizer, ObjectiveNoise, perturbed_minimum
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.problem import Objective
from fedspd.typing import Argmin, Array, Batches, Release


@dataclass(frozen=True)
class DDPADMMDual(NoisedMinimizer):
    """Exact ADMM with noise on the dual variable; what is carried is what was released."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    row_norm: float  # every feature row is at most this long

    keeps_replies = True

    @property
    def noise(self) -> ObjectiveNoise:
        """What the noise in the objective may claim."""
        return ObjectiveNoise(self.objective, self.row_norm, self.penalty * self.network.least_share)

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public."""
        return self.network.start(zeros), Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Released, batches: Batches) -> tuple[Argmin, None]:
        """The client's augmented Lagrangian, waiting for its noise."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        problem = self.objective, self.row_norm, client.weights, sub.curvature, sub.pull, batches
        return perturbed_minimum(*problem, least=self.penalty * self.network.least_share), None

    def settle(self, told: Neighbors, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The dual step with what was heard; the reply is the release."""
        return Released(
            release.value, self.network.sub_problem(told, client.weights, client.dual, self.penalty).dual
        ), release.value

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Released) -> PrimalDual:
        """The released weights and the dual."""
        return point_of(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty("penalty 2 eta V of the augmented Lagrangian; absent: by rule")
    step_scale: float = shared.step_scale(shared.NO_PENALTY)
    topology: str = shared.topology()
    edge_probability: float = shared.edge_probability()


def make(public: Public, settings: Settings) -> Made:
    """The penalty by rule where it is left open."""
    wishes = Wishes(penalty=settings.penalty, step_scale=settings.step_scale)
    steps = exact_steps(public, wishes, pure=True)
    network = make_network(public, settings.topology, settings.edge_probability)
    algorithm = DDPADMMDual(public.bounded, network, steps.penalty, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="ddp-admm-dvp",
    card=Card(
        title="DDP-ADMM (DVP)",
        citation="Zhang, Zhu 2017, TIFS 12(1), doi 10.1109/TIFS.2016.2607691",
        claimed="Pure DP of a round, without a total.",
        proved=MINIMIZERS,
        released="the local minimizer with a small Gaussian, of an objective with noise; duals follow from it",
        confidence="medium: its structure is well known, its constants are from memory",
        table_1=4,
        printed=Printed(ONE_GD, "strongly convex, smooth", False, ""),
    ),
    guarantee="proved",
    kind=DDPADMMDual,
    settings=Settings,
    make=make,
    grid=OCTAVES,
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)
