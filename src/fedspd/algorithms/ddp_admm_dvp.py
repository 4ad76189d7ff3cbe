r"""DDP-ADMM with dual variable perturbation, DVP (Zhang and Zhu 2017, doi 10.1109/TIFS.2016.2607691).

ADMM on a graph with exact sub-problems; the noise enters through the dual variable. All clients, every round:

    λ_i <- λ_i + η/2 Σ_j (f_i - f_j)                                     over the neighbors j, of the last f
    f_i  = argmin F_i(f) + 2 λ_i·f + η Σ_j ‖f - (f_i + f_j)/2‖² + b·f,   b of density ∝ exp(-‖b‖/s)
                                                                      the only access to the records

The published noise is $\mu_p = \lambda_p + \frac{1}{2m}\epsilon$, which is $b = \epsilon/m$. On a star the neighbors
are all others. Needs a smooth objective.

Released: $f_i$ itself; duals are functions of it and of what was heard.
Claimed as published: α-DP of one round, $\alpha = 2G/(ms) + 2\ln(1 + a)$, $a = L/(m(\mu + 2\eta V_i))$; where the
second term alone exceeds α, more curvature Φ is added. No total.
Claimed here: **proved**, with $\ln(1 + a)$ (`objective_noise`); rounds compose as pure releases. Too small a budget
for the curvature is refused, with the advice to raise the penalty, in place of Φ.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

import fedspd.algorithms.consensus as consensus
from fedspd.algorithms.base import PrimalDual, Released
from fedspd.algorithms.consensus import Neighbors, Network
from fedspd.algorithms.objective_noise import TWO_RECORDS, determinant_loss, perturbed_minimum
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective, check_exact
from fedspd.typing import Argmin, Array, Batches, Release


@dataclass(frozen=True)
class DDPADMMDual:
    """Exact ADMM with noise on the dual variable; what is carried is what was released."""

    objective: Objective
    network: Network
    penalty: float  # 2 η V̄
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

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public."""
        return self.network.start(zeros), Released(zeros, zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Neighbors:
        """Everybody's last weights, as the network has it."""
        return self.network.tell(server, self.penalty)

    def query(self, told: Neighbors, client: Released, batches: Batches) -> tuple[Argmin, None]:
        """The client's augmented Lagrangian, waiting for its noise."""
        heard = self.network.listen(told, client.weights)
        pull = consensus.pull(heard, self._dual(told, client), client.weights)
        curvature = 2 * heard.edge * heard.degree
        return perturbed_minimum(self.objective, client.weights, curvature, pull, batches), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """How far apart the noises are under which neighboring shards release the same."""
        return RECORD_MOVES[self.relation] * self.objective.gradient_bound(self.row_norm) / batch_sizes

    def jacobian(self, batch_sizes: Any) -> float:
        """What a release costs beside that."""
        curvature = self.penalty * self.network.least_share
        return determinant_loss(self.objective, self.row_norm, float(min(batch_sizes)), curvature)

    def settle(self, told: Neighbors, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The dual step with what was heard; the reply is the release."""
        return Released(release.value, self._dual(told, client)), release.value

    def _dual(self, told: Neighbors, client: Released) -> Any:
        heard = self.network.listen(told, client.weights)
        return consensus.dual_step(heard, client.dual, client.weights, heard.edge)

    def merge(self, server: Array, told: Neighbors, replies: Array, previous: Array, present: Array) -> Array:
        """Everybody's new weights, or their mean."""
        return self.network.merge(server, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The mean of all clients."""
        return self.network.model(server)

    def local_point(self, client: Released) -> PrimalDual:
        """The released weights and the dual, in the sign and size of the paper's augmented Lagrangian."""
        return PrimalDual(client.weights, -2 * client.dual)
