r"""DDP-ADMM with primal variable perturbation, PVP (Zhang and Zhu 2017, doi 10.1109/TIFS.2016.2607691), with released
state.

ADMM on a graph with exact sub-problems; the noise is added to the minimizer. All clients, every round:

    λ_i <- λ_i + η/2 Σ_j (V_i - V_j)                                  over the neighbors j, of the last V
    f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (V_i + V_j)/2‖²       the only access to the records
    V_i  = f_i + b,   b of density ∝ exp(-‖b‖/s)

The publication has the client's own last $f_i$ in place of $V_i$ (`ddp_admm_pvp_published`). On a star the neighbors
are all others. Needs a smooth objective.

Released: $V_i$. Claimed as published: α-DP of one round, no total.
Claimed here: **proved**, with the sensitivity $2G/(m(\mu + 2\eta V_i))$, which counts the curvature of the augmented
Lagrangian too; rounds compose as pure releases.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released
from fedspd.algorithms.card import ONE_GD, PURE_ROUNDS, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import bounded_pull, enlarged, influence, require_solvable
from fedspd.algorithms.parts.grids import OCTAVES
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import strength
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective, check_exact, minimize
from fedspd.typing import Array, Batches, Query, Release


@dataclass(frozen=True)
class DDPADMMPrimal:
    """Exact ADMM with noise on the minimizer."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    row_norm: float  # every feature row is at most this long

    relation = "replace-one"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True
    law = "laplace"

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly."""
        check_exact(self.objective)

    @property
    def guarantee(self) -> str:
        """Without clipping or bounded slopes nothing is bounded."""
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public."""
        return self.network.start(zeros), Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Released, batches: Batches) -> tuple[Query, None]:
        """The minimizer of the client's augmented Lagrangian."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
        pull = bounded_pull(self.objective, self.row_norm, sub.curvature, sub.pull, batches)
        goal = influence(self.objective, self.row_norm, batches.divisors)
        least = minimize(self.objective, client.weights, sub.curvature, pull, *records, goal)
        return Query(least.weights, least.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """How far one record moves the minimizer."""
        moved = RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm)
        return enlarged(moved / (batch_sizes * self._curvature))

    @property
    def _curvature(self) -> float:
        return strength(self.objective) + self.penalty * self.network.least_share

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse minimizers that float64 cannot find."""
        require_solvable(self.objective, self.row_norm, self._curvature, records, divisors, columns)

    def settle(self, told: Neighbors, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The dual step with what was heard; the reply is the release."""
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        return Released(release.value, sub.dual), release.value

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
    steps = exact_steps(public, Wishes(penalty=settings.penalty, step_scale=settings.step_scale), pure=True)
    network = make_network(public, settings.topology, settings.edge_probability)
    algorithm = DDPADMMPrimal(public.bounded, network, steps.penalty, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


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
