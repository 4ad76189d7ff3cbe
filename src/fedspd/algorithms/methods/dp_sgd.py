r"""DP-SGD (Abadi et al. 2016, doi 10.1145/2976749.2978318) with one local step, as federated baseline.

Every participant i sends the noised mean of its clipped record gradients, the server steps:

    g_i  = (1/b) Σ_j clip(∇ℓ_j(w), C) + N(0, σ²)                    the only access to the records
    w   <- prox_{ηR}(w - η mean_i g_i),  η = 1/γ_t

Released: $g_i$; no state is carried but the server's.
Claimed, with a fixed C: **proved**, sensitivity $2C/b$. With the median of the batch's own gradient norms for C, as the
FedSPD-DP paper takes it, nothing is (`dp_sgd_published`).
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, length, mean_of_present
from fedspd.algorithms.card import A_TOTAL, ONE_SGD, Card, Printed
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.gradient import gradient_sensitivity, mean_gradient
from fedspd.algorithms.parts.grids import HIGHER_OCTAVES
from fedspd.algorithms.parts.moves import MEAN, moved, resting, sent
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.privacy.rounding import GradientSum, gradient_rounding
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Seen(NamedTuple):
    """What a client remembers: the weights it was last sent."""

    weights: Array


@dataclass(frozen=True)
class DPSGD:
    """Noised gradients, averaged over the participants of a round."""

    objective: Objective  # its clip_norm is C
    schedule: Schedule  # γ = 1/η
    relation: str = "replace-one"
    stretch: float = 1.0  # how much longer than 1/γ steps may grow
    averaging: float = 0.0  # 1: the model is the mean of all rounds, later ones weighing more; 0: the last one

    penalty = 0.0
    local_steps = 1
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1
    stretches_uploads = False

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Seen, Array]:
        """All zero: public."""
        return resting(zeros[0, ...]), Seen(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights, γ, and how much longer the step is."""
        return sent(server, self.schedule.inverse_step(round), momentum=0.0)

    def query(self, told: Told, client: Seen, batches: Batches) -> tuple[Query, None]:
        """The mean of clipped record gradients."""
        return mean_gradient(self.objective, told, client.weights, batches), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most C."""
        return gradient_sensitivity(self.objective, self.relation, batch_sizes)

    def rounding(self, told: Told, client: Seen, batch: GradientSum) -> float:
        """Of a mean gradient at the server's weights."""
        return gradient_rounding(batch, length(told.weights))

    def settle(self, told: Told, client: Seen, release: Release, kept: None) -> tuple[Seen, Array]:
        """The reply is the noised gradient."""
        return Seen(array_namespace(told.weights).zeros_like(client.weights) + told.weights), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """One proximal step along the mean of the participants' gradients."""
        step = told.stretch / told.inverse_step
        weights = self.objective.regularizer.prox(told.weights - step * mean_of_present(replies, present), step)
        return moved(server, weights, told, weights, 0.0, self.stretch, self.averaging)

    def model(self, server: Array) -> Array:
        """The server's weights, or their mean over rounds."""
        return server[MEAN, ...]

    def local_point(self, client: Seen) -> PrimalDual:
        """The weights the gradient was taken at; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)
    averaging: bool | None = shared.averaging()


def work(settings: Settings) -> Work:
    """One step on a batch or on the whole shard."""
    return Work(1, settings.batch_size, settings.sampling)


def make(public: Public, settings: Settings) -> Made:
    """Clipped to a fixed bound, the step size by rule where it is left open."""
    own = work(settings)
    wishes = Wishes(settings.inverse_step, step_scale=settings.step_scale)
    steps = gradient_steps(public, own, wishes, averaging=settings.averaging, stretched=True)
    algorithm = DPSGD(public.bounded, Constant(steps.inverse_step), own.relation, steps.stretch, steps.averaging)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="dp-sgd",
    card=Card(
        title="DP-SGD",
        citation="Abadi et al. 2016, CCS, doi 10.1145/2976749.2978318",
        claimed="(ε, δ)-DP of a round, and (O(q ε sqrt(T)), δ) in total by the moments accountant.",
        proved=A_TOTAL,
        released="the mean of clipped record gradients",
        confidence="high: the method; how it is federated is the FedSPD-DP paper's",
        table_1=1,
        baseline=True,
        printed=Printed(ONE_SGD, "non-convex, smooth", False, ""),
    ),
    guarantee="proved",
    kind=DPSGD,
    settings=Settings,
    make=make,
    work=work,
    grid=HIGHER_OCTAVES,
    deploys=True,
    on_sums=True,
)
