r"""DP-FedAvg (Li, Chang and Chi 2020, "Secure federated averaging with differential privacy"): FedAvg with noise on the
uploads. Known here by its abstract: the noise is its, the rest of the method is a **reconstruction**.

The steps are those of `fedavg`, from the server's weights w:

    x   <- prox_{R/(γ+μ)}((γ x + μ w - ∇f_i(x; B_r)) / (γ+μ))       r = 1..Q, from x = w
    x̃_i  = x + N(0, σ²)                                      the only access to the records
    w    = mean of x̃_i over the participants

Released: $\tilde x_i$; no other state is carried.
Claimed with sensitivity $2G/(b(\gamma+\mu))$: **proved**. A record is in one batch at most, and later
steps do not spread a gap, if every batch loss is convex and L-smooth and $\gamma \ge L/2$.
Claimed with $2QG/\gamma$, a record in every batch, and the total of the FedSPD-DP paper's Theorem 1:
**as published**.
"""

from dataclasses import dataclass, replace
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, length
from fedspd.algorithms.card import A_TOTAL, NO_TOTAL, SEVERAL, Card, Printed
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.methods.fedavg import FedAvg, Local
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.fedavg_by_client import FedAvgByClient
from fedspd.algorithms.parts.grids import BEYOND, DECADES, HIGHER_OCTAVES, square
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.proximal import check_local_steps
from fedspd.algorithms.parts.rules import Steps, Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, SquareRoot
from fedspd.errors import InputError
from fedspd.privacy.rounding import GradientSum, steps_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release


@dataclass(frozen=True)
class DPFedAvg:
    """FedAvg whose conditions for a proof are checked."""

    plain: FedAvg  # the steps
    row_norm: float  # every feature row is at most this long
    relation: str = "replace-one"
    crowding: float = 1.0  # most records in a batch over the nominal batch size; above 1 with Poisson sampling

    guarantee = "proved"
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    def __post_init__(self) -> None:
        """Check the conditions of the sensitivity proof, on declared numbers only."""
        self._check(1)

    def _check(self, round: Any) -> None:
        step = self.plain.schedule.inverse_step(round)
        check_local_steps(self.objective, self.local_steps, step, self.row_norm, self.crowding)

    @property
    def objective(self) -> Objective:
        """What each client minimizes."""
        return self.plain.objective

    @property
    def penalty(self) -> float:
        """μ."""
        return self.plain.penalty

    @property
    def local_steps(self) -> int:
        """Q."""
        return self.plain.local_steps

    def start(self, zeros: Array) -> tuple[Array, Local, Array]:
        """All zero: public."""
        return self.plain.start(zeros)

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return self.plain.broadcast(server, round)

    def query(self, told: Told, client: Local, batches: Batches) -> tuple[Query, None]:
        """Where Q steps from the server's weights lead."""
        return self.plain.query(told, client, batches)

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of the last local iterate."""
        self._check(round)
        reach = self.plain.schedule.inverse_step(round) + self.penalty
        return RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm) / (batch_sizes * reach)

    def rounding(self, told: Told, client: Local, batch: GradientSum) -> float:
        """Of Q proximal steps from the server's weights."""
        server = length(told.weights)
        return steps_rounding(batch, self.local_steps, told.inverse_step, self.penalty, server, self.penalty * server)

    def settle(self, told: Told, client: Local, release: Release, kept: None) -> tuple[Local, Array]:
        """The reply is the release."""
        return self.plain.settle(told, client, release, kept)

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the participants."""
        return self.plain.merge(server, told, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Local) -> PrimalDual:
        """The released weights; there is no dual."""
        return self.plain.local_point(client)


@dataclass(frozen=True)
class Settings:
    """What a user may set of DP-FedAvg."""

    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    max_batch: int | None = shared.max_batch()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)


def work(settings: Settings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling, settings.max_batch)


def make(public: Public, settings: Settings) -> Made:
    """The step size by rule where it is left open."""
    own = work(settings)
    steps = gradient_steps(public, own, Wishes(settings.inverse_step, step_scale=settings.step_scale))
    if public.on_sums:
        return Made(_by_client(public, settings, steps), steps.rounds, steps.participations)
    plain = FedAvg(public.objective, own.local_steps, Constant(steps.inverse_step))
    algorithm = DPFedAvg(plain, public.declared_norm, own.relation, steps.crowding)
    return Made(algorithm, steps.rounds, steps.participations, max_batch=steps.max_batch)


def _by_client(public: Public, settings: Settings, steps: Steps) -> FedAvgByClient:
    sizes = public.holdings.sizes
    if sizes.min() != sizes.max():
        raise InputError(
            f"cohorts must have as many members each where whole clients are protected, got {sizes.min()} to "
            f"{sizes.max()}; choose privacy.cohorts to divide the number of clients."
        )
    return FedAvgByClient(public.objective, int(sizes[0]), settings.local_steps, steps.inverse_step)


@dataclass(frozen=True)
class PublishedSettings:
    """What a user may set of DP-FedAvg as published."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size of round 1; grows like sqrt(t)", needed=True)
    local_steps: int = shared.local_steps()
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


def published_work(settings: PublishedSettings) -> Work:
    """Several steps, in batches or on the whole shard."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling)


def make_published(public: Public, settings: PublishedSettings) -> Made:
    """With falling steps."""
    algorithm = FedAvg(public.objective, settings.local_steps, SquareRoot(settings.inverse_step))
    return Made(algorithm, needed_rounds(public))


METHOD = Method(
    name="dp-fedavg",
    card=Card(
        title="DP-FedAvg",
        reconstruction=True,
        citation='Li, Chang, Chi 2020, "Secure federated averaging with differential privacy", MLSP',
        claimed="(ε, δ)-DP of a round, with the total of the FedSPD-DP paper's Theorem 1.",
        proved=A_TOTAL,
        released="the last local iterate",
        confidence="low: its abstract only",
        table_1=2,
        baseline=True,
        printed=Printed(SEVERAL, "strongly convex, smooth", True, "O(1/(TQ))"),
    ),
    guarantee="proved",
    kind=DPFedAvg,
    settings=Settings,
    make=make,
    work=work,
    grid=HIGHER_OCTAVES,
    # where heavy clients make local losses steep, many local steps must be short ones: their number is a knob too
    board_grid=square("algorithm.local_steps", (1, 2, 5), "algorithm.step_scale", BEYOND),
    deploys=True,
    by_client=True,
)

PUBLISHED = Method(
    name="dp-fedavg-published",
    card=replace(METHOD.card, title="DP-FedAvg as published", proved="", caveat=NO_TOTAL, rate="O(1/(TQ))"),
    guarantee="as published",
    kind=FedAvg,
    settings=PublishedSettings,
    make=make_published,
    work=published_work,
    grid=DECADES,
    compared={"algorithm.batch_size": 10, "algorithm.local_steps": 5},
    deploys=True,
)
