r"""DP-MADMM: ADMM with increasing penalties (Zhang, Khalili and Liu, ICML 2018, arXiv 1806.02246).

The penalty $\eta_t$ of the primal step grows from round to round, the dual's step size θ does not. All clients:

    λ_i <- λ_i + θ/2 Σ_j (f_i - f_j)                                 over the neighbors j, of the last f
    f_i  = argmin F_i(f) + 2 λ_i·f + η_t Σ_j ‖f - (f_i + f_j)/2 - ε_i‖²,   θ ≤ η_1 ≤ η_2 ≤ ...
                                                                      the only access to the records

with $\epsilon_i$ of density $\propto e^{-\alpha_t\|\epsilon\|}$: a linear term $b = -2\eta_t V_i\epsilon_i$ of
density $\propto e^{-\|b\|/s}$, $s = 2\eta_t V_i/\alpha_t$. Noise of the same size in the objective moves the
minimizer less and less. On a star the neighbors are all others. Needs a smooth objective.

Released: $f_i$ with a small Gaussian on what is computed; duals are functions of it and of what was heard.
Claimed as published: pure DP over all rounds, $\sum_t (1.4 L + \alpha_t)/(\eta_t V_i m)$ for gradients of norm 1, if
$2L < m(\mu + 2\eta_1 V_i)$.
Claimed here: **proved** without that condition, $2G/(ms) + \ln(1 + L/(m(\mu + 2\eta_1 V_i)))$ for each round,
and the Gaussian beside it (`objective_noise`).
"""

from dataclasses import dataclass
from math import log
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released
from fedspd.algorithms.card import MINIMIZERS, ONE_GD, SMOOTH, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import AROUND, scale_and
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import NoisedMinimizer, ObjectiveNoise, perturbed_minimum
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.algorithms.parts.step_sizes import Geometric
from fedspd.errors import InputError
from fedspd.problem import Objective
from fedspd.reading import setting
from fedspd.typing import Argmin, Array, Batches, Release

LARGEST = 1e100
"""Penalty of the last round: beyond it sensitivities vanish in rounding."""


@dataclass(frozen=True)
class DPMADMM(NoisedMinimizer):
    """Exact ADMM whose penalty grows, with noise in the penalty."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄, of the dual; that of the primal grows
    schedule: Geometric  # 2 η_t V̄; the penalty, 2 θ V̄, is that of the dual
    row_norm: float  # every feature row is at most this long

    keeps_replies = True

    @property
    def noise(self) -> ObjectiveNoise:
        """What the noise in the objective may claim, by the least penalty, that of round 1."""
        return ObjectiveNoise(self.objective, self.row_norm, self.schedule.inverse_step(1) * self.network.least_share)

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public."""
        return self.network.start(zeros), Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it, and the round's penalty."""
        return self.network.tell(server, self.schedule.inverse_step(round))

    def query(self, told: Neighbors, client: Released, batches: Batches) -> tuple[Argmin, None]:
        """The client's augmented Lagrangian with the round's penalty, waiting for its noise."""
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
    growth: float = setting(1.02, "what the penalty is multiplied by from round to round", at_least=1)


def make(public: Public, settings: Settings) -> Made:
    """The first penalty by rule where it is left open."""
    wishes = Wishes(penalty=settings.penalty, step_scale=settings.step_scale)
    steps = exact_steps(public, wishes, pure=True)
    network = make_network(public, settings.topology, settings.edge_probability)
    grown = Geometric(steps.penalty, settings.growth)
    if log(steps.penalty) + log(settings.growth) * (steps.rounds - 1) > log(LARGEST):
        raise InputError(
            f"algorithm.growth must leave the penalty below {LARGEST:g} in {steps.rounds} rounds, from "
            f"{steps.penalty:.3g} on, got {settings.growth:g}; lower it."
        )
    algorithm = DPMADMM(public.bounded, network, steps.penalty, grown, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="dp-madmm",
    card=Card(
        title="DP-MADMM",
        citation="Zhang, Khalili, Liu 2018, ICML, arXiv 1806.02246",
        claimed="Pure DP over all rounds, a sum over them that needs m (μ + 2ηV) > 2L.",
        proved=MINIMIZERS,
        released="the local minimizer with a small Gaussian, of an objective with noise; duals follow from it",
        confidence="medium: its structure is from its text, its settings are from memory",
        table_1=6,
        printed=Printed(ONE_GD, SMOOTH, False, "O(1/sqrt(T))"),
    ),
    guarantee="proved",
    kind=DPMADMM,
    settings=Settings,
    make=make,
    grid=scale_and("growth", (1.02, 1.2, 1.5), AROUND),
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)
