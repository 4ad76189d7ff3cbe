r"""PS-ADMM: stochastic ADMM with perturbed gradients (Ding, Errapotu, Zhang, Gong, Pan and Han 2019, SecureComm,
doi 10.1007/978-3-030-37228-6_13). Known here by its abstract: a **reconstruction**.

Linearized ADMM with a noised gradient of a batch. Client i, with its $w_i$, dual $\gamma_i$ and the server's w:

    γ_i <- γ_i + ρ (w - w_i)
    g̃_i  = ∇f_i(w_i; B) + N(0, σ²)                                  the only access to the records
    w_i <- (ρ w + γ_i + w_i/η - g̃_i - ∂R_i(w_i)) / (ρ + 1/η)
    w    = (1/N) Σ_i (w_i - γ_i/ρ)

Released: $\tilde g_i$; weights, duals and uploads are functions of it and of what the server sent.
Claimed as published: (ε, δ)-DP, constants unknown here.
Claimed here: **proved**, with the sensitivity $2G/b$ of a mean of clipped gradients, and the amplification that fresh
secret batches give.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released, Told, length, mean_of_latest
from fedspd.algorithms.parts.step_sizes import Schedule
from fedspd.privacy.rounding import GradientSum, gradient_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release


@dataclass(frozen=True)
class PSADMM:
    """One linearized step a round along a noised batch gradient."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    schedule: Schedule  # 1/η
    relation: str = "replace-one"

    law = "gaussian"
    exact = False
    releases = 1
    local_steps = 1
    keeps_replies = True

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
        """The gradient of a batch at the client's own weights, which are public."""
        features, labels = batches.features[:, 0, ...], batches.labels[:, 0, ...]
        gradient = self.objective.gradient(client.weights, features, labels, batches.divisors)
        return Query(gradient.mean, gradient.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most G."""
        return RECORD_MOVES[self.relation] * self.objective.clip_norm / batch_sizes

    def rounding(self, told: Told, client: Released, batch: GradientSum) -> float:
        """Of a mean gradient at the client's weights."""
        return gradient_rounding(batch, length(client.weights))

    def settle(self, told: Told, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The dual step, the primal step along the noised gradient, the upload."""
        dual = client.dual + self.penalty * (told.weights - client.weights)
        slope = release.value + self.objective.regularizer.subgradient(client.weights)
        pulled = self.penalty * told.weights + dual + told.inverse_step * client.weights
        weights = (pulled - slope) / (self.penalty + told.inverse_step)
        return Released(weights, dual), weights - dual / self.penalty

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients, of whom only the participants' replies changed."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Released) -> PrimalDual:
        """The client's weights and the dual, whose last step waits for the server's next word."""
        return PrimalDual(client.weights, client.dual)
