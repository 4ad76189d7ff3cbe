r"""FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020); with noise on the uploads, DP-FedAvg.

Participant i takes Q proximal SGD steps from the server's weights w on $F_i + \frac\mu2\|x - w\|^2$:

    x   <- prox_{R/(γ+μ)}((γ x + μ w - ∇f_i(x; B_r)) / (γ+μ))       r = 1..Q, from x = w
    x̃_i  = x + N(0, σ²)                                      the only access to the records
    w    = mean of x̃_i over the participants

With μ = 0 this is FedAvg with step size 1/γ, with μ > 0 FedProx. DP-FedAvg (Li, Chang and Chi 2020,
"Secure federated averaging with differential privacy") is known here by its abstract: the noise on
the uploads is its, the rest of the method is a **reconstruction**.

Released: $\tilde x_i$; no other state is carried.
Claimed with sensitivity $2G/(b(\gamma+\mu))$: **proved**. A record is in one batch at most, and later
steps do not spread a gap, if every batch loss is convex and L-smooth and $\gamma \ge L/2$.
Claimed with $2QG/\gamma$, a record in every batch, and the total of the FedSPD-DP paper's Theorem 1:
**as published**.
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, length, mean_of_present
from fedspd.algorithms.parts.proximal import check_local_steps, proximal_steps
from fedspd.algorithms.parts.step_sizes import Schedule
from fedspd.privacy.rounding import GradientSum, steps_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Local(NamedTuple):
    """What a client remembers: the weights it last released."""

    weights: Array


@dataclass(frozen=True)
class FedAvg:
    """Local proximal SGD, averaged over the participants of a round."""

    objective: Objective
    local_steps: int  # Q
    schedule: Schedule  # γ
    penalty: float = 0.0  # μ of FedProx
    row_norm: float | None = None  # every feature row is at most this long; None: no proof is asked for
    relation: str = "replace-one"
    crowding: float = 1.0  # most records in a batch over the nominal batch size; above 1 with Poisson sampling

    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    def __post_init__(self) -> None:
        """Check the conditions of the sensitivity proof, on declared numbers only."""
        self._check(1)

    def _check(self, round: Any) -> None:
        if self.row_norm is not None:
            step = self.schedule.inverse_step(round)
            check_local_steps(self.objective, self.local_steps, step, self.row_norm, self.crowding)

    @property
    def guarantee(self) -> str:
        """Proved where the conditions of the proof were checked; without any bound on gradients, none."""
        if self.row_norm is not None:
            return "proved"
        return "as published" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Local, Array]:
        """All zero: public."""
        return zeros[0, ...], Local(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Local, batches: Batches) -> tuple[Query, None]:
        """Where Q steps from the server's weights lead."""
        xp = array_namespace(told.weights)
        start = xp.zeros_like(client.weights) + told.weights
        steps = proximal_steps(self.objective, start, told.weights, 0.0, told.inverse_step, self.penalty, batches)
        return Query(steps.last, steps.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of the last local iterate; as published, as if a record were alone in every batch."""
        self._check(round)
        reach = self.schedule.inverse_step(round) + self.penalty
        if self.row_norm is None:
            return 2 * self.local_steps * self.objective.clip_norm / reach
        return RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm) / (batch_sizes * reach)

    def rounding(self, told: Told, client: Local, batch: GradientSum) -> float:
        """Of Q proximal steps from the server's weights."""
        server = length(told.weights)
        return steps_rounding(batch, self.local_steps, told.inverse_step, self.penalty, server, self.penalty * server)

    def settle(self, told: Told, client: Local, release: Release, kept: None) -> tuple[Local, Array]:
        """The reply is the release."""
        return Local(release.value), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the participants."""
        return mean_of_present(replies, present)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Local) -> PrimalDual:
        """The released weights; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)
