r"""Multi-step DP-ADMM (Huang and Gong 2020, arXiv 2005.07890). Known here by its abstract: a **reconstruction**.

DP-ADMM with several approximate primal steps a round, each noised. Client i, from its own $w_i$, with dual $\gamma_i$
and the server's w:

    γ_i <- γ_i + ρ (w - w_i)
    x   <- (ρ w + γ_i + x/η - g̃_r - ∂R_i(x)) / (ρ + 1/η),   g̃_r = ∇f_i(x; B_r) + N(0, σ²),   r = 1..Q, from x = w_i
                                                                      the only access to the records
    w_i  = mean of the Q new points
    w    = (1/N) Σ_i (w_i - γ_i/ρ)

The Q batches are disjoint, so that a record is in one of them at most.

Released: all Q noised gradients; points, weights, duals and uploads are functions of them and of what the server
sent.
Claimed as published: (ε, δ)-DP by the moments accountant, every step on all records.
Claimed here: **proved**. A record moves one of the Q releases of a round, by $2G/b$, and the later ones only through
that release; so Q releases cost what one does.
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.card import A_TOTAL, Card
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import scale_and
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Stepping(NamedTuple):
    """What a client carries: functions of its releases, hence public."""

    weights: Array  # w_i
    dual: Array  # γ_i
    point: Array  # x
    total: Array  # of the new points of this round
    steps: Array  # taken in this round


@dataclass(frozen=True)
class MultiStepDPADMM:
    """Several linearized steps a round along noised gradients."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    local_steps: int  # Q
    schedule: Schedule  # 1/η
    relation: str = "replace-one"

    law = "gaussian"
    exact = False
    keeps_replies = True

    @property
    def releases(self) -> int:
        """One a step."""
        return self.local_steps

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Stepping, Array]:
        """All zero: public."""
        return zeros[0, ...], Stepping(zeros, zeros, zeros, zeros, zeros[:, :1, :1]), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The mean of all latest replies and 1/η."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Stepping, batches: Batches) -> tuple[Query, None]:
        """The gradient of one step's batch at the point where the step begins."""
        gradient = self.objective.gradient(client.point, *batches.step(0))
        return Query(gradient.mean, gradient.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most G."""
        return RECORD_MOVES[self.relation] * self.objective.clip_norm / batch_sizes

    def settle(self, told: Told, client: Stepping, release: Release, kept: None) -> tuple[Stepping, Array]:
        """One primal step along the noised gradient, before the first the dual's; the last completes the round."""
        xp = array_namespace(client.weights)
        weights, dual, point, total, steps = client
        dual = xp.where(steps == 0, dual + self.penalty * (told.weights - weights), dual)
        slope = release.value + self.objective.regularizer.subgradient(point)
        pulled = self.penalty * told.weights + dual + told.inverse_step * point
        point = (pulled - slope) / (self.penalty + told.inverse_step)
        total, last = total + point, steps == self.local_steps - 1
        weights = xp.where(last, total / self.local_steps, weights)
        state = Stepping(
            weights, dual, xp.where(last, weights, point), xp.where(last, 0 * total, total),
            xp.where(last, 0 * steps, steps + 1),
        )  # fmt: skip
        return state, weights - dual / self.penalty

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients, of whom only the participants' replies changed."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Stepping) -> PrimalDual:
        """The client's weights and the dual, whose last step waits for the server's next word."""
        return PrimalDual(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty()
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    max_batch: int | None = shared.max_batch()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.RULE_DECIDES)
    penalty_share: float | None = shared.penalty_share(shared.RULE_DECIDES)


def work(settings: Settings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling, settings.max_batch)


def make(public: Public, settings: Settings) -> Made:
    """Step sizes by rule where they are left open."""
    own = work(settings)
    wishes = Wishes(settings.inverse_step, settings.penalty, settings.step_scale, settings.penalty_share)
    steps = gradient_steps(public, own, wishes, primal_dual=True)
    step = Constant(steps.inverse_step)
    algorithm = MultiStepDPADMM(public.bounded, public.clients, steps.penalty, own.local_steps, step, own.relation)
    return Made(algorithm, steps.rounds, steps.participations, max_batch=steps.max_batch)


METHOD = Method(
    name="multi-step-dp-admm",
    card=Card(
        title="multi-step DP-ADMM",
        reconstruction=True,
        citation="Huang, Gong 2020, arXiv 2005.07890",
        claimed="(ε, δ)-DP in total, every step on all records; constants unknown here.",
        proved=A_TOTAL,
        released="the gradient of every local step; weights and duals follow from them",
        confidence="low: its abstract only",
    ),
    guarantee="proved",
    kind=MultiStepDPADMM,
    settings=Settings,
    make=make,
    work=work,
    grid=scale_and("local_steps", (1, 2, 5)),
)
