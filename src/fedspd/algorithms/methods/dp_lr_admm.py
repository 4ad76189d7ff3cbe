r"""DP-LR-ADMM: randomized labels and perturbed ADMM (Wang, Ishii, Du, Cheng and Chen 2020, arXiv 1908.01059).
Known here by its abstract and tables: a **reconstruction**.

Before the first round every label is flipped with chance $1/(1+e^{\epsilon_y})$
(`privacy.mechanism.randomized_response`), and the loss is corrected for it (`problem.flipped.FlippedLabels`). Then
ADMM on a graph, all clients, every round:

    λ_i <- λ_i + η/2 Σ_j (V_i - V_j)                                          over the neighbors j, of the last V
    f_i  = argmin F_i(f) + (h_i/m)·f + 2 λ_i·f + η Σ_j ‖f - (V_i + V_j)/2‖²   the only access to the records
    V_i  = f_i + N(0, σ²)

with $h_i \sim N(0, \tau^2 G^2)$ drawn once: "combined" noise in the objective and on the primal. On a star the
neighbors are all others. Needs a smooth objective. Published noise decays from round to round; here all rounds have
the same share of the budget.

Released: $V_i$. Remembered: $h_i$, which is secret but no function of the records.
Claimed as published: labels are $\epsilon_y$-private even from their own server; a total for the rest.
Claimed here: **proved** (ε, δ)-DP of whole records over all rounds, by the noise on $f_i$ alone, with the sensitivity
$2G/(m(\mu + 2\eta V_i))$; the flipped labels and $h_i$ are not counted on, and protect besides.
"""

from dataclasses import dataclass
from math import exp, inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual
from fedspd.algorithms.card import A_TOTAL, ONE_GD, SMOOTH, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.exactness import bounded_pull, enlarged, influence, require_solvable
from fedspd.algorithms.parts.grids import OCTAVES
from fedspd.algorithms.parts.network import Neighbors, Network, make_network, point_of
from fedspd.algorithms.parts.objective_noise import strength
from fedspd.algorithms.parts.rules import Wishes, exact_steps
from fedspd.errors import InputError
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import FlippedLabels, Objective, Softmax, check_exact, minimize
from fedspd.reading import setting
from fedspd.typing import Array, Batches, Query, Release


class Tilted(NamedTuple):
    """What a client carries: functions of its releases, and its own draw."""

    weights: Array  # V_i
    dual: Array  # λ_i
    tilt: Array  # h_i in units of τ G
    begun: Array  # 0 before the draw, 1 after it


@dataclass(frozen=True)
class DPLRADMM:
    """Exact ADMM on flipped labels, with noise drawn once in the objective and anew on every minimizer.

    The loss of its objective is corrected for flipped labels.
    """

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    row_norm: float  # every feature row is at most this long
    tilting: float = 1.0  # τ

    relation = "replace-one"
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True
    law = "gaussian"
    more_draws = 1

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly."""
        check_exact(self.objective)

    @property
    def guarantee(self) -> str:
        """Without clipping or bounded slopes nothing is bounded."""
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    @property
    def flip_chance(self) -> float:
        """Of a label, for which the loss is corrected."""
        return self.objective.loss.chance  # pyright: ignore[reportAttributeAccessIssue]

    def start(self, zeros: Array) -> tuple[Array, Tilted, Array]:
        """All zero: public."""
        return self.network.start(zeros), Tilted(zeros, zeros, zeros, zeros[:, :1, :1]), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def stir(self, client: Tilted, draws: Array) -> tuple[Tilted, Array]:
        """The first draw of the first round is kept for good."""
        tilt = client.begun * client.tilt + (1 - client.begun) * draws[:, 1, ...]
        return client._replace(tilt=tilt, begun=0 * client.begun + 1), draws[:, 0, ...]

    def query(self, told: Neighbors, client: Tilted, batches: Batches) -> tuple[Query, None]:
        """The minimizer of the client's tilted augmented Lagrangian."""
        goal = influence(self.objective, self.row_norm, batches.divisors)
        sub = self.network.sub_problem(told, client.weights, client.dual, self.penalty)
        pull = sub.pull - self.tilting * goal[:, None, None] * client.tilt
        pull = bounded_pull(self.objective, self.row_norm, sub.curvature, pull, batches)
        records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
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

    def settle(self, told: Neighbors, client: Tilted, release: Release, kept: None) -> tuple[Tilted, Array]:
        """The dual step with what was heard; the reply is the release."""
        return client._replace(
            weights=release.value, dual=self.network.sub_problem(told, client.weights, client.dual, self.penalty).dual
        ), release.value

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Tilted) -> PrimalDual:
        """The released weights and the dual."""
        return point_of(client.weights, client.dual)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty("penalty 2 eta V of the augmented Lagrangian; absent: by rule")
    step_scale: float = shared.step_scale(shared.NO_PENALTY)
    topology: str = shared.topology()
    edge_probability: float = shared.edge_probability()
    label_epsilon: float = setting(3.0, "labels are flipped with chance 1 / (1 + exp(this))", above=0, within=(0, 700))


def make(public: Public, settings: Settings) -> Made:
    """The penalty by rule where it is left open; the loss corrected for labels that are flipped."""
    loss = public.objective.loss
    if not isinstance(loss, Softmax) or loss.classes != 2:
        raise InputError(
            "dp-lr-admm corrects softmax for flipped labels of two classes, got "
            f"{type(loss).__name__} with {loss.outputs} outputs; set problem.loss = softmax on two classes, or use "
            "another method."
        )
    steps = exact_steps(public, Wishes(penalty=settings.penalty, step_scale=settings.step_scale))
    network = make_network(public, settings.topology, settings.edge_probability)
    flipped = FlippedLabels(1 / (1 + exp(settings.label_epsilon)))
    objective = Objective(flipped, public.bounded.regularizer, public.bounded.clip_norm)
    algorithm = DPLRADMM(objective, network, steps.penalty, public.declared_norm)
    return Made(algorithm, steps.rounds, steps.participations)


METHOD = Method(
    name="dp-lr-admm",
    card=Card(
        title="DP-LR-ADMM",
        reconstruction=True,
        citation="Wang, Ishii, Du, Cheng, Chen 2020, TSP, arXiv 1908.01059",
        claimed="labels private even from their own server, and zero-concentrated DP in total; constants unknown here.",
        proved=A_TOTAL,
        released="the local minimizer with noise, learned from flipped labels; duals follow from it",
        confidence="low: its abstract and tables",
        table_1=9,
        printed=Printed(ONE_GD, SMOOTH, False, ""),
    ),
    guarantee="proved",
    kind=DPLRADMM,
    settings=Settings,
    make=make,
    grid=OCTAVES,
    needs=Needs(everybody=True, smooth=True),
    compared={"problem.regularizer": "squared-l2"},
)
