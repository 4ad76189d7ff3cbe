r"""DP-ADMM (Huang, Hu, Guo, Chan-Tin, Gong 2020, doi 10.1109/TIFS.2019.2931068, arXiv 1808.10101).

Linearized ADMM on the whole shard with the noised iterate carried on. Client i, with its $\tilde w_i$,
dual $\gamma_i$ and the server's w:

    γ_i  <- γ_i + ρ (w - w̃_i)
    w_i   = (ρ w + γ_i + w̃_i/η - ∇f_i(w̃_i) - ∂R_i(w̃_i)) / (ρ + 1/η)
    w̃_i   = w_i + N(0, σ²)                                   the only access to the records
    w     = (1/N) Σ_i (w̃_i - γ_i/ρ)

The published order ends an iteration with the dual; a client that hears from the server once a round
does that step when the next w arrives, which is the same. Where only some clients take part the
server keeps the latest uploads of the others; the published method has all of them every time.

Released: $\tilde w_i$; duals are functions of it and of w.
Claimed: **proved**, with the published sensitivity $2G/(m_i(\rho+1/\eta))$, which is right; the total
is recomposed. With the FedSPD-DP paper's total, $c_0\epsilon\sqrt n$: **as published**.
"""

from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released, Told, length, mean_of_latest
from fedspd.algorithms.card import A_TOTAL, NO_TOTAL, NON_SMOOTH, ONE_GD, Card, Printed
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import scale_and, square
from fedspd.algorithms.parts.needed import needed_rounds, papers_plan
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.privacy.rounding import GradientSum, steps_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.reading import SIZES, setting
from fedspd.typing import Array, Batches, Query, Release


@dataclass(frozen=True)
class Huang:
    r"""The published step size for non-smooth objectives.

    $1/\eta_k = \frac{\sqrt{2k}}{c_w}\sqrt{c_1^2 + 8 d c_1^2\ln(1.25/\delta)/(m^2\epsilon^2)}$.
    """

    epsilon: float  # of one round
    delta: float
    dimension: int  # d
    records: float  # m, the mean over the clients
    gradient_bound: float  # c_1
    diameter: float  # c_w

    def inverse_step(self, round: Any) -> Any:
        """1/η of a round, counted from 1."""
        noise = 8 * self.dimension * log(1.25 / self.delta) / (self.records * self.epsilon) ** 2
        return self.gradient_bound * sqrt(2 * (1 + noise)) / self.diameter * round**0.5


@dataclass(frozen=True)
class DPADMM:
    """One linearized step a round on the whole shard; everything carried is noised."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    schedule: Schedule  # 1/η
    relation: str = "replace-one"

    local_steps = 1
    keeps_replies = True
    law = "gaussian"
    exact = False
    releases = 1

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public."""
        return zeros[0, ...], Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The mean of all latest replies and 1/η."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Released, batches: Batches) -> tuple[Query, None]:
        """One step from the client's own released weights, along a subgradient of the regularizer too."""
        gradient = self.objective.gradient(client.weights, *batches.step(0))
        slope = gradient.mean + self.objective.regularizer.subgradient(client.weights)
        pulled = self.penalty * told.weights + self._dual(told, client) + told.inverse_step * client.weights
        return Query((pulled - slope) / (self.penalty + told.inverse_step), gradient.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """One record moves the shard's mean gradient by 2G/m."""
        reach = self.penalty + self.schedule.inverse_step(round)
        return RECORD_MOVES[self.relation] * self.objective.clip_norm / (batch_sizes * reach)

    def rounding(self, told: Told, client: Released, batch: GradientSum) -> float:
        """Of one step from the client's own weights, along the regularizer's subgradient too."""
        server, own = length(told.weights), length(client.weights)
        slope = length(self.objective.regularizer.subgradient(client.weights))
        pull = self.penalty * (2 * server + own) + length(client.dual) + slope
        return steps_rounding(batch, 1, told.inverse_step, self.penalty, own, pull)

    def settle(self, told: Told, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The dual step and the upload, from noised values."""
        dual = self._dual(told, client)
        return Released(release.value, dual), release.value - dual / self.penalty

    def _dual(self, told: Told, client: Released) -> Any:
        return client.dual + self.penalty * (told.weights - client.weights)

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients, of whom only the participants' replies changed."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Released) -> PrimalDual:
        """The released weights and the dual, whose last step waits for the server's next word."""
        return PrimalDual(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.RULE_DECIDES)
    penalty_share: float | None = shared.penalty_share(shared.RULE_DECIDES)


def make(public: Public, settings: Settings) -> Made:
    """Step sizes by rule where they are left open."""
    wishes = Wishes(settings.inverse_step, settings.penalty, settings.step_scale, settings.penalty_share)
    steps = gradient_steps(public, Work(), wishes, primal_dual=True)
    algorithm = DPADMM(public.bounded, public.clients, steps.penalty, Constant(steps.inverse_step))
    return Made(algorithm, steps.rounds, steps.participations)


@dataclass(frozen=True)
class PublishedSettings:
    """What a user may set of the method as published."""

    penalty: float = shared.penalty("penalty rho of the augmented Lagrangian", needed=True)
    inverse_step: float | None = shared.inverse_step("1 / eta; absent: as published")
    diameter: float = setting(1.0, "c_w of the published step size", above=0, within=SIZES, when=shared.BY_THE_RULE)


def make_published(public: Public, settings: PublishedSettings) -> Made:
    """With the published step size where none is set."""
    step: Schedule = (
        huangs(public, settings.diameter) if settings.inverse_step is None else Constant(settings.inverse_step)
    )
    algorithm = DPADMM(public.objective, public.clients, settings.penalty, step)
    return Made(algorithm, needed_rounds(public))


def huangs(public: Public, diameter: float) -> Huang:
    """The published step size for the run's plan."""
    plan = papers_plan(public)
    return Huang(
        epsilon=plan.epsilon_per_round,
        delta=plan.delta,
        dimension=public.dimension,
        records=public.holdings.records / public.holdings.clients,
        gradient_bound=public.objective.clip_norm,
        diameter=diameter,
    )


METHOD = Method(
    name="dp-admm",
    card=Card(
        title="DP-ADMM",
        citation="Huang, Hu, Guo, Chan-Tin, Gong 2020, TIFS, doi 10.1109/TIFS.2019.2931068, arXiv 1808.10101",
        claimed="(ε, δ)-DP of a round, and (c0 ε sqrt(T), δ) in total by the moments accountant.",
        proved=A_TOTAL,
        released="the local iterate; duals follow from it",
        confidence="high: its update is that of public code; medium: its step sizes",
        table_1=3,
        baseline=True,
        printed=Printed(ONE_GD, NON_SMOOTH, False, "O(1/sqrt(T))"),
    ),
    guarantee="proved",
    kind=DPADMM,
    settings=Settings,
    make=make,
    grid=scale_and("penalty_share", (0.1, 1 / 3, 2 / 3)),
    deploys=True,
)

PUBLISHED = Method(
    name="dp-admm-published",
    card=replace(METHOD.card, title="DP-ADMM as published", proved="", caveat=NO_TOTAL, rate="O(1/sqrt(T))"),
    guarantee="as published",
    kind=DPADMM,
    settings=PublishedSettings,
    make=make_published,
    grid=square("algorithm.penalty", (0.1, 1.0, 10.0), "algorithm.diameter", (1.0, 10.0, 100.0)),
    deploys=True,
)
