r"""DP-RADMM: recycled ADMM (Zhang, Khalili and Liu, Allerton 2018, arXiv 1810.03197).

Every second round reuses what the round before revealed of the records. All clients, round t:

    λ_i <- λ_i + η/2 Σ_j (f_i - f_j)                                    over the neighbors j, of the last f
    odd:   f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (f_i + f_j)/2‖² + b·f,  b of density ∝ exp(-‖b‖/s)
           g_i  = ∇F_i(f_i) + b, read off from the condition that f_i is minimal
                                                                      the only access to the records
    even:  f_i <- f_i - (g_i + 2 λ_i + η Σ_j (f_i - f_j)) / (2 η V_i + γ)

On a star the neighbors are all others. Needs a smooth objective.

Released: $f_i$ of odd rounds; $g_i$, duals and even rounds are functions of it and of what was heard. The sensitivity
of an even round is zero, so it is free and has no noise.
Claimed as published: pure DP over all odd rounds, if $2L < m(\mu + 2\eta V_i)$.
Claimed here: **proved** without that condition, $2G/(ms) + \ln(1 + L/(m(\mu + 2\eta V_i)))$ for each odd round
(`objective_noise`); they compose as pure releases.
"""

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import fedspd.algorithms.consensus as consensus
from fedspd.algorithms.base import PrimalDual
from fedspd.algorithms.consensus import Neighbors, Network
from fedspd.algorithms.objective_noise import TWO_RECORDS, determinant_loss, perturbed_minimum
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective, check_exact
from fedspd.typing import Argmin, Array, Batches, Query, Release, array_namespace


class Recycled(NamedTuple):
    """What a client carries: functions of its releases, hence public."""

    weights: Array  # f_i
    dual: Array  # λ_i
    slope: Array  # g_i


class Turn(NamedTuple):
    """What a client hears, and whether its records are asked for."""

    neighbors: Neighbors
    odd: Any  # 1 or 0
    inverse_step: Any


@dataclass(frozen=True)
class DPRADMM:
    """Exact ADMM every odd round, a step that reuses it every even one."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
    inverse_step: float  # γ
    row_norm: float  # every feature row is at most this long

    relation = "replace-one"
    law = "laplace"
    directions = TWO_RECORDS
    exact = True
    releases = 1
    local_steps = 1
    keeps_replies = True

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly."""
        check_exact(self.objective)

    @property
    def guarantee(self) -> str:
        """Without clipping or bounded slopes nothing is bounded."""
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Recycled, Array]:
        """All zero: public."""
        return self.network.start(zeros), Recycled(zeros, zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Turn:
        """Everybody's last weights, as the network has it, and whose turn it is."""
        return Turn(self.network.tell(server, self.penalty), round % 2, self.penalty)

    def query(self, told: Turn, client: Recycled, batches: Batches) -> tuple[Argmin | Query, None]:
        """The client's augmented Lagrangian, waiting for its noise; in an even round what follows without records."""
        heard = self.network.listen(told.neighbors, client.weights)
        recycled = self._recycled(told, client)
        if isinstance(told.odd, int) and not told.odd:
            return Query(recycled, 0.0 * recycled[:, 0, 0]), None
        pull = consensus.pull(heard, self._dual(told, client), client.weights)
        curvature = 2 * heard.edge * heard.degree
        exact = perturbed_minimum(self.objective, client.weights, curvature, pull, batches)
        if isinstance(told.odd, int):
            return exact, None
        xp = array_namespace(recycled)  # a compiled program does not know yet which round it plays
        return Argmin(
            lambda noise: xp.where(told.odd > 0, exact.under(noise), recycled), exact.slope, told.odd * exact.clipped
        ), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """How far apart the noises are under which neighboring shards release the same; zero in even rounds."""
        bound = RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm)
        return round % 2 * bound / batch_sizes

    def jacobian(self, batch_sizes: Any) -> float:
        """What a release costs beside that."""
        curvature = self.penalty * self.network.least_share
        return determinant_loss(self.objective, self.row_norm, float(min(batch_sizes)), curvature)

    def settle(self, told: Turn, client: Recycled, release: Release, kept: None) -> tuple[Recycled, Array]:
        """The dual step with what was heard, and the slope, of use after odd rounds; the reply is the release."""
        heard, dual = self.network.listen(told.neighbors, client.weights), self._dual(told, client)
        revealed = consensus.pull(heard, dual, client.weights) - 2 * heard.edge * heard.degree * release.value
        return Recycled(release.value, dual, revealed), release.value

    def _recycled(self, told: Turn, client: Recycled) -> Any:
        heard = self.network.listen(told.neighbors, client.weights)
        apart = heard.edge * (heard.degree * client.weights - heard.total)
        slope = client.slope + 2 * self._dual(told, client) + apart
        return client.weights - slope / (2 * heard.edge * heard.degree + self.inverse_step)

    def _dual(self, told: Turn, client: Recycled) -> Any:
        heard = self.network.listen(told.neighbors, client.weights)
        return consensus.dual_step(heard, client.dual, client.weights, heard.edge)

    def merge(self, server: Array, told: Turn, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Recycled) -> PrimalDual:
        """The released weights and the dual, in the sign and size of the paper's augmented Lagrangian."""
        return PrimalDual(client.weights, -2 * client.dual)
