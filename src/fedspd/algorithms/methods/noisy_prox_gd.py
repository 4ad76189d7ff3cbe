r"""Noisy proximal gradient on whole shards, the baseline of inter-silo record-level privacy (Lowy and Razaviyayn,
ICLR 2023, arXiv 2106.09779), with momentum.

Every participant i sends the noised gradient of its whole shard, the server steps:

    v    = w + β (w - w_before)
    g_i  = ∇f_i(v) + N(0, σ²)                                           the only access to the records
    w   <- prox_{R/γ}(v - mean_i g_i/γ)

With β = 0 it is DP-SGD on whole shards. The published method draws batches with replacement and, in its accelerated
form, has its own sequence of weights; whole shards make the noise smallest, and one β is a plainer momentum.

Released: $g_i$; no state is carried but the server's.
Claimed as published: (ε, δ)-DP of every record against everybody but its own client, with optimal rates.
Claimed here: **proved**, the same, with the sensitivity $2G/m$ and exact composition.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, length, mean_of_present
from fedspd.algorithms.card import A_TOTAL, Card
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.methods.dp_sgd import Seen
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.gradient import gradient_sensitivity, mean_gradient
from fedspd.algorithms.parts.grids import scale_and
from fedspd.algorithms.parts.moves import MEAN, moved, resting, sent
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.privacy.rounding import GradientSum, gradient_rounding
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


@dataclass(frozen=True)
class NoisyProximalGradient:
    """Whole-shard gradients with noise, averaged over the participants, and a proximal step with momentum."""

    objective: Objective
    schedule: Schedule  # γ
    momentum: float = 0.0  # β
    relation: str = "replace-one"
    stretch: float = 1.0  # how much longer than 1/γ steps may grow
    averaging: float = 0.0  # 1: the model is the mean of all rounds, later ones weighing more; 0: the last one

    penalty = 0.0
    law = "gaussian"
    exact = False
    releases = 1
    stretches_uploads = False
    local_steps = 1
    keeps_replies = False

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Seen, Array]:
        """All zero: public."""
        return resting(zeros[0, ...]), Seen(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """v, γ, and how much longer the step is."""
        return sent(server, self.schedule.inverse_step(round), self.momentum)

    def query(self, told: Told, client: Seen, batches: Batches) -> tuple[Query, None]:
        """The gradient of the whole shard."""
        return mean_gradient(self.objective, told, client.weights, batches), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most G."""
        return gradient_sensitivity(self.objective, self.relation, batch_sizes)

    def rounding(self, told: Told, client: Seen, batch: GradientSum) -> float:
        """Of a mean gradient at the weights that were sent."""
        return gradient_rounding(batch, length(told.weights))

    def settle(self, told: Told, client: Seen, release: Release, kept: None) -> tuple[Seen, Array]:
        """The reply is the release."""
        return Seen(array_namespace(told.weights).zeros_like(client.weights) + told.weights), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """One proximal step along the mean of the participants' gradients."""
        step = told.stretch / told.inverse_step
        weights = self.objective.regularizer.prox(told.weights - step * mean_of_present(replies, present), step)
        return moved(server, weights, told, weights, self.momentum, self.stretch, self.averaging)

    def model(self, server: Array) -> Array:
        """The server's weights, or their mean over rounds."""
        return server[MEAN, ...]

    def local_point(self, client: Seen) -> PrimalDual:
        """The weights the gradient was taken at; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    momentum: float | None = shared.momentum()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)
    averaging: bool | None = shared.averaging()


def make(public: Public, settings: Settings) -> Made:
    """The step size by rule where it is left open."""
    wishes = Wishes(settings.inverse_step, step_scale=settings.step_scale)
    steps = gradient_steps(
        public, Work(), wishes, momentum=settings.momentum, averaging=settings.averaging, stretched=True
    )
    gamma = Constant(steps.inverse_step)
    algorithm = NoisyProximalGradient(
        public.bounded, gamma, steps.momentum, stretch=steps.stretch, averaging=steps.averaging
    )
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="noisy-prox-gd",
    card=Card(
        title="noisy proximal gradient",
        citation="Lowy, Razaviyayn 2023, ICLR, arXiv 2106.09779",
        claimed="(ε, δ)-DP of every record against everybody but its own client.",
        proved=A_TOTAL,
        released="the gradient of the whole shard",
        confidence="high: a standard method; its momentum is plainer than the authors'",
    ),
    guarantee="proved",
    kind=NoisyProximalGradient,
    settings=Settings,
    make=make,
    grid=scale_and("momentum", (0.0, 0.4, 0.8)),
    deploys=True,
    on_sums=True,
)
