r"""FedSPD-DP with released state: the variant of arXiv 2204.12284 whose privacy is proved (`docs/proofs.md`).

The primal is perturbed first, and everything a client keeps follows from the perturbed value:

    x̄    = mean of Q proximal steps, begun at x_0 (or at the client's last x̃)     eq. (13a)-(13b)
    x̃    = x̄ + N(0, σ²)                                      the only access to the records
    λ    <- λ + ρ (x_0 - x̃)                                                             line 16
    y     = x̃ - λ/ρ                                                        the upload, eq. (14)

The server averages the latest y of all clients, as published. Where the rule wants a longer way than safe steps go in
the rounds there are, it sends weights that lie ahead of the average, and asks for uploads that are stretched,
$x_0 + m(y - x_0)$: for Q = 1 those of steps m times as long, 1/m of γ and ρ (`parts.moves`).

Released: x̃; upload, dual and next start are functions of it and of what the server sent, so a
round is a fresh mechanism of the shard and the public transcript, and adaptive composition applies.
Claimed: **proved**, with the sensitivity of `privacy.sensitivity.proximal_average`.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

from fedspd.algorithms.base import PrimalDual, Released, Told, length, mean_of_latest
from fedspd.algorithms.card import A_TOTAL, NON_SMOOTH, SEVERAL, Card, Printed
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import HIGHER_OCTAVES
from fedspd.algorithms.parts.moves import MEAN, WEIGHTS, moved, resting, sent
from fedspd.algorithms.parts.proximal import check_local_steps, proximal_steps
from fedspd.algorithms.parts.rules import Steps, Wishes, gradient_steps
from fedspd.algorithms.parts.spd_on_sums import SPDOnSums
from fedspd.errors import InputError
from fedspd.privacy.rounding import GradientSum, steps_rounding
from fedspd.privacy.sensitivity import proximal_average
from fedspd.problem import Objective
from fedspd.reading import setting
from fedspd.typing import Array, Batches, Query, Release, array_namespace


@dataclass(frozen=True)
class FedSPD:
    """FedSPD-DP whose client state is computed from noised values only."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    local_steps: int  # Q
    inverse_step: float  # γ
    row_norm: float  # R: every feature row is at most this long
    start_at: Literal["server", "own"] = "server"
    relation: Literal["replace-one", "zero-out"] = "replace-one"
    crowding: float = 1.0  # most records in a batch over the nominal batch size; above 1 with Poisson sampling
    momentum: float = 0.0  # share of the last move that is made again
    share: float = 1.0  # of the clients, those that take part in a round
    stretch: float = 1.0  # how much longer than safe steps may grow; above 1 for Q = 1 from the server's weights
    averaging: float = 0.0  # 1: the model is the mean of all rounds, later ones weighing more; 0: the last one

    guarantee = "proved"
    keeps_replies = True
    law = "gaussian"
    exact = False
    releases = 1
    stretches_uploads = True

    def __post_init__(self) -> None:
        """Check the conditions of the sensitivity proof, on declared numbers only."""
        check_local_steps(self.objective, self.local_steps, self.inverse_step, self.row_norm, self.crowding)

    @property
    def contraction(self) -> float:
        """c = γ/(γ+ρ)."""
        return self.inverse_step / (self.inverse_step + self.penalty)

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public. Without duals the first steps go a share 2ρ/(γ+ρ) of their way, and are so much longer."""
        xp, half = array_namespace(zeros), (self.inverse_step + self.penalty) / (2 * self.penalty)
        return resting(zeros[0, ...], xp.minimum(xp.asarray(half), self.stretch)), Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The mean of all latest replies (line 5), or what lies ahead of it, γ, and how much longer steps are."""
        return sent(server, self.inverse_step, self.momentum, self.share)

    def query(self, told: Told, client: Released, batches: Batches) -> tuple[Query, None]:
        """The average of Q proximal steps; nothing else of the records is kept."""
        xp = array_namespace(told.weights)
        own = self.start_at == "own"
        start = client.weights if own else xp.zeros_like(client.weights) + told.weights
        steps = proximal_steps(
            self.objective, start, told.weights, client.dual, told.inverse_step, self.penalty, batches
        )
        return Query(steps.average, steps.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Array) -> Any:
        """Of the average of the local steps, for each client's batch size."""
        return proximal_average(
            self.relation,
            self.objective.gradient_bound(self.row_norm),
            batch_sizes,
            self.local_steps,
            self.inverse_step,
            self.penalty,
        )

    def rounding(self, told: Told, client: Released, batch: GradientSum) -> float:
        """Of Q proximal steps, pulled by the server's weights and the dual."""
        start = length(client.weights if self.start_at == "own" else told.weights)
        pull = self.penalty * length(told.weights) + length(client.dual)
        return steps_rounding(batch, self.local_steps, self.inverse_step, self.penalty, start, pull)

    def settle(self, told: Told, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """Dual, next start and upload, all from the noised value."""
        dual = client.dual + self.penalty * (told.weights - release.value)
        reply = release.value - dual / self.penalty
        return Released(release.value, dual), reply + (told.stretch - 1) * (reply - told.weights)

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients, of whom only the participants' replies changed."""
        xp, before = array_namespace(server), server[WEIGHTS, ...]
        weights = mean_of_latest(before, replies, previous, present, self.clients)
        end = before + (weights - before) * (self.clients / xp.sum(present))
        return moved(server, weights, told, end, self.momentum, self.stretch, self.averaging)

    def model(self, server: Array) -> Array:
        """The mean of all latest replies, or its mean over rounds."""
        return server[MEAN, ...]

    def local_point(self, client: Released) -> PrimalDual:
        """The released weights and the dual."""
        return PrimalDual(client.weights, client.dual)


def averaged_noise(noise_scale: float, clients: int) -> float:
    """Deviation of the noise on the server's average of all uploads: y = 2 x̃ - ..., so twice that of the primal."""
    return 2 * noise_scale / sqrt(clients)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty()
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    max_batch: int | None = shared.max_batch()
    start: str = setting("server", "where local steps begin", choices=("server", "own"))
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.RULE_DECIDES)
    penalty_share: float | None = shared.penalty_share(shared.RULE_DECIDES)
    momentum: float | None = shared.momentum()
    averaging: bool | None = shared.averaging()


def work(settings: Settings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling, settings.max_batch)


def make(public: Public, settings: Settings) -> Made:
    """Step sizes by rule where they are left open."""
    own = work(settings)
    wishes = Wishes(settings.inverse_step, settings.penalty, settings.step_scale, settings.penalty_share)
    stretched = own.local_steps == 1 and settings.start == "server"
    steps = gradient_steps(
        public, own, wishes, primal_dual=True, averaged=True, momentum=settings.momentum,
        averaging=settings.averaging, stretched=stretched,
    )  # fmt: skip
    if public.on_sums:
        return Made(_on_sums(public, settings, steps), steps.rounds, steps.participations)
    algorithm = FedSPD(
        objective=public.objective,
        clients=public.clients,
        penalty=steps.penalty,
        local_steps=own.local_steps,
        inverse_step=steps.inverse_step,
        row_norm=public.declared_norm,
        start_at=settings.start,  # pyright: ignore[reportArgumentType]
        relation=own.relation,  # pyright: ignore[reportArgumentType]
        crowding=steps.crowding,
        momentum=steps.momentum,
        share=public.share,
        stretch=steps.stretch,
        averaging=steps.averaging,
    )
    return Made(algorithm, steps.rounds, steps.participations, steps.max_batch)


def _on_sums(public: Public, settings: Settings, steps: Steps) -> SPDOnSums:
    if settings.local_steps > 1 or settings.start == "own":
        raise InputError(
            "secure sums need one local step from the server's weights, since a cohort's dual does not correct drift "
            f"within it, got algorithm.local_steps = {settings.local_steps} and start = {settings.start}; leave them "
            "out, or set privacy.trust = each-upload."
        )
    relation = work(settings).relation
    return SPDOnSums(
        public.bounded, steps.penalty, steps.inverse_step, steps.momentum, public.share, relation, steps.stretch,
        steps.averaging,
        public.clients,
    )  # fmt: skip


METHOD = Method(
    name="fedspd",
    card=Card(
        title="FedSPD-DP",
        citation="Li, Wang, Chang, Chi 2022, arXiv 2204.12284; with released state: docs/proofs.md",
        claimed="(ε, δ)-DP of a round, and c0 q ε sqrt(pT/(1-q)) in total by Theorem 1.",
        proved=A_TOTAL,
        released="the average of the local steps; dual, upload and next start follow from it",
        confidence="high: the paper's own text, changed where its proof fails",
        table_1=0,
        printed=Printed(SEVERAL, NON_SMOOTH, True, "O(1/sqrt(TQ))"),
    ),
    guarantee="proved",
    kind=FedSPD,
    settings=Settings,
    make=make,
    work=work,
    grid=HIGHER_OCTAVES,
    deploys=True,
    on_sums=True,
)
