r"""DP-RADMM: recycled ADMM (Zhang, Khalili and Liu, Allerton 2018, arXiv 1810.03197).

Every second round reuses what the round before revealed of the records. All clients, round t:

    λ_i <- λ_i + η/2 Σ_j (f_i - f_j)                                    over the neighbors j, of the last f
    odd:   f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (f_i + f_j)/2‖² + b·f,  b of density ∝ exp(-‖b‖/s)
           g_i  = ∇F_i(f_i) + b, read off from the condition that f_i is minimal
                                                                      the only access to the records
    even:  f_i <- f_i - (g_i + 2 λ_i + η Σ_j (f_i - f_j)) / (2 η V_i + γ)

On a star the neighbors are all others. Needs a smooth objective.

Released: $f_i$ of odd rounds, with a small Gaussian on what is computed; $g_i$, which is read off there, duals and even
rounds are functions of it and of what was heard. The sensitivity of an even round is zero, so it is free and has no
noise.
Claimed as published: pure DP over all odd rounds, if $2L < m(\mu + 2\eta V_i)$.
Claimed here: **proved** without that condition, $2G/(ms) + \ln(1 + L/(m(\mu + 2\eta V_i)))$ for each odd round,
and the Gaussian beside it (`objective_noise`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual
from fedspd.algorithms.card import MINIMIZERS, ONE_GD, SMOOTH, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import OCTAVES
from fedspd.algorithms.parts.network import Neighbors, Network, SubProblem, make_network, point_of
from fedspd.algorithms.parts.objective_noise import NoisedMinimizer, ObjectiveNoise, perturbed_minimum
from fedspd.algorithms.parts.rules import Wishes, counts, exact_steps
from fedspd.problem import Objective
from fedspd.typing import Argmin, Array, Batches, Release


class Recycled(NamedTuple):
    """What a client carries: functions of its releases, hence public."""

    weights: Array  # f_i
    dual: Array  # λ_i
    slope: Array  # g_i


@dataclass(frozen=True)
class DPRADMM(NoisedMinimizer):
    """Exact ADMM every odd round, a step that reuses it every even one."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    inverse_step: float  # γ
    row_norm: float  # every feature row is at most this long

    keeps_replies = True

    @property
    def noise(self) -> ObjectiveNoise:
        """What the noise in the objective may claim."""
        return ObjectiveNoise(self.objective, self.row_norm, self.penalty * self.network.least_share)

    def start(self, zeros: Array) -> tuple[Array, Recycled, Array]:
        """All zero: public."""
        return self.network.start(zeros), Recycled(zeros, zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Recycled, batches: Batches) -> tuple[Argmin, None]:
        """The client's augmented Lagrangian, waiting for its noise."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        problem = self.objective, self.row_norm, client.weights, sub.curvature, sub.pull, batches
        return perturbed_minimum(*problem, least=self.penalty * self.network.least_share), None

    def recycle(self, told: Neighbors, client: Recycled) -> tuple[Recycled, Array]:
        """An even round: one step along the slope that the round before has revealed."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        slope = client.slope + 2 * sub.dual + sub.apart
        return _carried(sub, client.weights - slope / (sub.curvature + self.inverse_step))

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """That of noise in the objective, and zero in even rounds."""
        return round % 2 * super().sensitivity(round, batch_sizes)

    def settle(self, told: Neighbors, client: Recycled, release: Release, kept: None) -> tuple[Recycled, Array]:
        """The dual step with what was heard, and the slope; the reply is the release."""
        return _carried(self.network.sub_problem(told, client.weights, client.dual, self.penalty), release.value)

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Recycled) -> PrimalDual:
        """The released weights and the dual."""
        return point_of(client.weights, client.dual)


def _carried(sub: SubProblem, weights: Array) -> tuple[Recycled, Array]:
    """What a client carries on from new weights, and its reply."""
    return Recycled(weights, sub.dual, sub.pull - sub.curvature * weights), weights


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty("penalty 2 eta V of the augmented Lagrangian; absent: by rule")
    step_scale: float = shared.step_scale(shared.NO_PENALTY)
    topology: str = shared.topology()
    edge_probability: float = shared.edge_probability()
    inverse_step: float | None = shared.inverse_step("gamma of even rounds; absent: the smoothness of a record's loss")


def make(public: Public, settings: Settings) -> Made:
    """Penalty and step by rule where they are left open; every second round is paid for."""
    wishes = Wishes(settings.inverse_step, settings.penalty, settings.step_scale)
    steps = exact_steps(public, wishes, pure=True, count=counts(public, paid=2))
    network = make_network(public, settings.topology, settings.edge_probability)
    algorithm = DPRADMM(public.bounded, network, steps.penalty, steps.inverse_step, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="dp-radmm",
    card=Card(
        title="DP-RADMM",
        citation="Zhang, Khalili, Liu 2018, Allerton, arXiv 1810.03197",
        claimed="Pure DP over all odd rounds, a sum over them that needs m (μ + 2ηV) > 2L.",
        proved=MINIMIZERS,
        released="local minimizers of odd rounds with a small Gaussian, of an objective with noise; all else follows",
        confidence="medium: its structure is from its text, its settings are from memory",
        table_1=7,
        printed=Printed(ONE_GD, SMOOTH, False, ""),
    ),
    guarantee="proved",
    kind=DPRADMM,
    settings=Settings,
    make=make,
    grid=OCTAVES,
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)
