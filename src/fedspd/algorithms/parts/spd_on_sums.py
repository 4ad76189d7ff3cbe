r"""FedSPD-DP where only sums of cohorts are seen: the dual belongs to the cohort (`docs/proofs/secure-sums.md`).

    g̃_c  = mean gradient of the records of cohort c at x_0, + N(0, σ²)        the only access to the records
    x̃_c  = prox_{R/(γ+ρ)}(x_0 + (λ_c - g̃_c)/(γ+ρ))
    λ_c  <- λ_c + ρ (x_0 - x̃_c)
    y_c  = x̃_c - λ_c/ρ

The server has all of it but the gradients, and averages the latest y of all cohorts that have answered. The prox stands
after the sum: a mean of proxes at the members is not the prox of their mean, and would miss the optimum of an l1 norm.

Released: $\tilde g_c$; members keep nothing, and a cohort's dual is a function of its releases.
Claimed: **proved**, sensitivity $2G$ of the sum.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms.base import PrimalDual, Released, Told, length
from fedspd.algorithms.parts.gradient import gradient_sensitivity, mean_gradient
from fedspd.algorithms.parts.moves import MEAN, WEIGHTS, moved, resting, sent
from fedspd.privacy.rounding import GradientSum, gradient_rounding
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


@dataclass(frozen=True)
class SPDOnSums:
    """FedSPD-DP with a dual for each cohort, from sums of its members' gradients."""

    objective: Objective  # its clip_norm is G
    penalty: float  # ρ
    inverse_step: float  # γ
    momentum: float = 0.0
    share: float = 1.0  # of the cohorts, those that take part in a round
    relation: str = "replace-one"
    stretch: float = 1.0  # how much longer than safe steps may grow
    averaging: float = 0.0  # 1: the model is the mean of all rounds, later ones weighing more; 0: the last one
    cohorts: int = 1

    local_steps = 1
    keeps_replies = False  # a cohort's reply is its server's own
    law = "gaussian"
    exact = False
    releases = 1
    stretches_uploads = False

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Released, Array]:
        """All zero: public. In the server's last row is how many cohorts have answered."""
        xp = array_namespace(zeros)
        server = xp.concat([resting(zeros[0, ...]), zeros[:1, ...]])
        return server, Released(zeros, zeros), xp.stack([zeros, zeros], axis=1)

    def broadcast(self, server: Array, round: Any) -> Told:
        """The mean of the latest replies, or what lies ahead of it, γ, and how much longer steps are.

        A mean over the few that have answered hears of a round in full: it is sent ahead by no more for others that
        it does not hold yet, or it would run away while one cohort is drawn again and again.
        """
        answered = server[-1, 0, 0] / self.cohorts
        return sent(server, self.inverse_step, self.momentum * answered, self.share)

    def query(self, told: Told, client: Released, batches: Batches) -> tuple[Query, None]:
        """The mean of clipped record gradients; the dual does not enter."""
        return mean_gradient(self.objective, told, client.weights, batches), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most G."""
        return gradient_sensitivity(self.objective, self.relation, batch_sizes)

    def rounding(self, told: Told, client: Released, batch: GradientSum) -> float:
        """Of a mean gradient at the server's weights."""
        return gradient_rounding(batch, length(told.weights))

    def settle(self, told: Told, client: Released, release: Release, kept: None) -> tuple[Released, Array]:
        """The proximal step, the dual and the reply, all from the noised gradient; and that there is one."""
        xp, penalty = array_namespace(client.dual), self.penalty / told.stretch
        reach = told.inverse_step / told.stretch + penalty
        weights = self.objective.regularizer.prox(told.weights + (client.dual - release.value) / reach, 1.0 / reach)
        dual = client.dual + penalty * (told.weights - weights)
        reply = weights - dual / penalty
        return Released(weights, dual), xp.stack([reply, xp.ones_like(reply)], axis=1)

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the cohorts that have answered: one that never has would pull the weights to zero."""
        xp = array_namespace(server)
        change = xp.tensordot(present, replies - previous, axes=1)
        before, answered = server[WEIGHTS, ...], server[-1, ...] + change[1, ...]
        weights = (server[-1, ...] * before + change[0, ...]) / answered
        end = before + (weights - before) * (answered / xp.sum(present))
        server = moved(server, weights, told, end, self.momentum, self.stretch, self.averaging)
        return xp.concat([server, answered[None, ...]])

    def model(self, server: Array) -> Array:
        """The mean of the latest replies, or its mean over rounds."""
        return server[MEAN, ...]

    def local_point(self, client: Released) -> PrimalDual:
        """A cohort's weights and dual."""
        return PrimalDual(client.weights, client.dual)
