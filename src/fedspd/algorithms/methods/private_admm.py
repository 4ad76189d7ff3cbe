r"""Private ADMM by fixed-point iterations, federated (Cyffers, Bellet and Basu, ICML 2023, arXiv 2302.12559).

A noised averaged operator: client i of the participants, with its $u_i$ and the server's z,

    x_i  = prox_{f_i/ρ}(2z - u_i)                                        the only access to the records
    u_i <- u_i + 2λ (x_i - z) + N(0, σ²)
    z    = prox_{R/ρ}(mean of the latest u_i of all clients)

with relaxation λ in (0, 1]; λ = 1/2 is the Douglas-Rachford splitting behind ADMM. The mean of all $u_i$ is kept and
its proximal point sent, which the published code's update of z equals where there is no regularizer.

Released: $u_i$, all that a client carries.
Claimed as published: a person is one client with one record, whose $x_i - z$ is clipped; Rényi DP, locally and, with
amplification by subsampling and by iteration, centrally.
Claimed here: **proved** for records of clients that have many, without clipping $x_i$: one record moves the exact
proximal point by $2G/(m\rho)$, hence $u_i$ by $4\lambda G/(m\rho)$, and by a ten-thousandth more as
it is computed. No amplification is claimed: the server sees all of it.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.card import A_TOTAL, Card
from fedspd.algorithms.method import Made, Method, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import bounded_pull, enlarged, influence, require_solvable
from fedspd.algorithms.parts.grids import AROUND, scale_and
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective, Unregularized, check_exact, minimize
from fedspd.reading import setting
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Anchored(NamedTuple):
    """What a client carries: its release, and what follows from it for diagnostics."""

    anchor: Array  # u_i
    weights: Array  # x_i with its noise
    dual: Array


@dataclass(frozen=True)
class PrivateADMM:
    """Relaxed Douglas-Rachford splitting with exact proximal steps."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    row_norm: float  # every feature row is at most this long
    relaxation: float = 0.5  # λ

    relation = "replace-one"
    law = "gaussian"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True

    def __post_init__(self) -> None:
        """Check that proximal points, of the loss alone, are exact."""
        check_exact(self._loss_alone)

    @property
    def _loss_alone(self) -> Objective:
        return replace(self.objective, regularizer=Unregularized())

    @property
    def guarantee(self) -> str:
        """Without clipping or bounded slopes nothing is bounded."""
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Anchored, Array]:
        """All zero: public."""
        return zeros[0, ...], Anchored(zeros, zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """z."""
        return Told(self.model(server), self.penalty)

    def query(self, told: Told, client: Anchored, batches: Batches) -> tuple[Query, None]:
        """The client's next anchor."""
        center = array_namespace(told.weights).zeros_like(client.anchor) + told.weights
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
        pull = self.penalty * (2 * center - client.anchor)
        pull = bounded_pull(self._loss_alone, self.row_norm, self.penalty, pull, batches)
        goal = influence(self.objective, self.row_norm, batches.divisors)
        least = minimize(self._loss_alone, center, self.penalty, pull, *records, goal)
        return Query(client.anchor + 2 * self.relaxation * (least.weights - center), least.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a relaxed proximal step."""
        moved = RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm)
        return enlarged(2 * self.relaxation * moved / (batch_sizes * self.penalty))

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse proximal points that float64 cannot find."""
        require_solvable(self._loss_alone, self.row_norm, self.penalty, records, divisors, columns)

    def settle(self, told: Told, client: Anchored, release: Release, kept: None) -> tuple[Anchored, Array]:
        """The reply is the release; weights and dual are read off from it."""
        weights = told.weights + (release.value - client.anchor) / (2 * self.relaxation)
        dual = self.penalty * (2 * told.weights - client.anchor - weights)
        return Anchored(release.value, weights, dual), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """The mean of the latest anchors of all clients."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """z, which the regularizer has pulled on."""
        return self.objective.regularizer.prox(server, 1 / self.penalty)

    def local_point(self, client: Anchored) -> PrimalDual:
        """The noised proximal point and the dual."""
        return PrimalDual(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty()
    step_scale: float = shared.step_scale(shared.NO_PENALTY)
    relaxation: float = setting(0.5, "lambda; 0.5 is plain ADMM", above=0, at_most=1)


def make(public: Public, settings: Settings) -> Made:
    """The penalty by rule where it is left open."""
    steps = exact_steps(public, Wishes(penalty=settings.penalty, step_scale=settings.step_scale))
    algorithm = PrivateADMM(public.bounded, public.clients, steps.penalty, public.declared_norm, settings.relaxation)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="private-admm",
    card=Card(
        title="private ADMM",
        citation="Cyffers, Bellet, Basu 2023, ICML, arXiv 2302.12559",
        claimed="Rényi DP of a user with one record, locally, and amplified for who sees the last model only.",
        proved=A_TOTAL,
        released="the client's anchor, all that it carries",
        confidence="high: its update is that of the authors' code; for records of clients with many it is adapted here",
    ),
    guarantee="proved",
    kind=PrivateADMM,
    settings=Settings,
    make=make,
    grid=scale_and("relaxation", (0.5, 0.75, 1.0), AROUND),
)
