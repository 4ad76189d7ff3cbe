r"""DDP-ADMM with primal variable perturbation, PVP (Zhang and Zhu 2017, doi 10.1109/TIFS.2016.2607691).

ADMM on a graph with exact sub-problems; the noise is added to the minimizer. All clients, every round:

    λ_i <- λ_i + η/2 Σ_j (V_i - V_j)                                  over the neighbors j, of the last V
    f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (c_i + V_j)/2‖²       the only access to the records
    V_i  = f_i + b,   b of density ∝ exp(-‖b‖/s)

with $c_i$ the client's own last $f_i$, as published, or its $V_i$. On a star the neighbors are all others. Needs a
smooth objective.

Released: $V_i$. Kept un-noised as published: $f_i$, hence `Private`.
Claimed as published: α-DP of one round, $s = 2G/(m\mu\alpha)$ with μ the regularizer's strength; **as published**,
since the hidden $f_i$ feeds all later rounds. No total.
Claimed here, with $c_i = V_i$: **proved**, with the sensitivity $2G/(m(\mu + 2\eta V_i))$, which counts the curvature
of the augmented Lagrangian too; rounds compose as pure releases.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual
from fedspd.algorithms.card import HIDDEN, ONE_GD, PURE_ROUNDS, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import bounded_pull, enlarged, influence, require_solvable
from fedspd.algorithms.parts.grids import OCTAVES, square
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import strength
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.errors import InputError
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective, check_exact, minimize
from fedspd.typing import Array, Batches, Private, Query, Release


class Perturbed(NamedTuple):
    """What a client carries."""

    weights: Array  # V_i
    dual: Array  # λ_i
    own: Any  # where it is hidden, f_i as `Private`; else V_i


@dataclass(frozen=True)
class DDPADMMPrimal:
    """Exact ADMM with noise on the minimizer."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    row_norm: float | None  # every feature row is at most this long; None: as published

    relation = "replace-one"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True
    law = "laplace"

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly, and that the published sensitivity is finite."""
        check_exact(self.objective)
        if self.row_norm is None and strength(self.objective) == 0:
            raise InputError(
                "ddp-admm-pvp-published divides its noise by the regularizer's strength, got none; set "
                "problem.regularizer = squared-l2."
            )

    @property
    def guarantee(self) -> str:
        """Proved where nothing is hidden."""
        if self.row_norm is None:
            return "as published"
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Perturbed, Array]:
        """All zero: public."""
        own = zeros if self.row_norm is not None else Private(zeros)
        return self.network.start(zeros), Perturbed(zeros, zeros, own), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Perturbed, batches: Batches) -> tuple[Query, Private[Any] | None]:
        """The minimizer of the client's augmented Lagrangian."""
        own = client.own.value if self.row_norm is None else client.weights
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty, own)
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
        pull, goal = sub.pull, influence(self.objective, self.row_norm, batches.divisors)
        if self.row_norm is not None:
            pull = bounded_pull(self.objective, self.row_norm, sub.curvature, pull, batches)
        least = minimize(self.objective, own, sub.curvature, pull, *records, goal)
        return Query(least.weights, least.clipped), Private(least.weights) if self.row_norm is None else None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """How far one record moves the minimizer; as published, as if only the regularizer held it."""
        if self.row_norm is None:
            return 2 * self.objective.clip_norm / (batch_sizes * strength(self.objective))
        moved = RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm)
        return enlarged(moved / (batch_sizes * self._curvature))

    @property
    def _curvature(self) -> float:
        return strength(self.objective) + self.penalty * self.network.least_share

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse minimizers that float64 cannot find."""
        if self.row_norm is not None:
            require_solvable(self.objective, self.row_norm, self._curvature, records, divisors, columns)

    def settle(
        self, told: Neighbors, client: Perturbed, release: Release, kept: Private[Any] | None
    ) -> tuple[Perturbed, Array]:
        """The dual step with what was heard; the reply is the release."""
        own = release.value if kept is None else kept
        return Perturbed(
            release.value, self.network.sub_problem(told, client.weights, client.dual, self.penalty).dual, own
        ), release.value

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Perturbed) -> PrimalDual:
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
    steps = exact_steps(public, Wishes(penalty=settings.penalty, step_scale=settings.step_scale), pure=True)
    network = make_network(public, settings.topology, settings.edge_probability)
    algorithm = DDPADMMPrimal(public.bounded, network, steps.penalty, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


@dataclass(frozen=True)
class PublishedSettings:
    """What a user may set of the method as published."""

    penalty: float = shared.penalty("penalty 2 eta V of the augmented Lagrangian", needed=True)
    topology: str = shared.topology()
    edge_probability: float = shared.edge_probability()


def make_published(public: Public, settings: PublishedSettings) -> Made:
    """With the minimizer carried un-noised."""
    network = make_network(public, settings.topology, settings.edge_probability)
    return Made(DDPADMMPrimal(public.objective, network, settings.penalty, None), needed_rounds(public))


METHOD = Method(
    name="ddp-admm-pvp",
    card=Card(
        title="DDP-ADMM (PVP)",
        citation="Zhang, Zhu 2017, TIFS 12(1), doi 10.1109/TIFS.2016.2607691",
        claimed="Pure DP of a round, without a total.",
        proved=PURE_ROUNDS,
        released="the local minimizer with noise; duals follow from it",
        confidence="medium: its structure is well known, its constants are from memory",
        table_1=5,
        printed=Printed(ONE_GD, "strongly convex, smooth", False, ""),
    ),
    guarantee="proved",
    kind=DDPADMMPrimal,
    settings=Settings,
    make=make,
    grid=OCTAVES,
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)

PUBLISHED = Method(
    name="ddp-admm-pvp-published",
    card=replace(
        METHOD.card,
        title="DDP-ADMM (PVP) as published",
        proved="",
        caveat=HIDDEN,
        private_state="the local minimizer",
    ),
    guarantee="as published",
    kind=DDPADMMPrimal,
    settings=PublishedSettings,
    make=make_published,
    grid=square("algorithm.penalty", (0.1, 1.0, 10.0), "problem.strength", (1.0, 10.0, 100.0)),
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)
