r"""DP-FedAvg where a whole client is protected and only sums of cohorts are seen (McMahan et al. 2018).

    x     <- prox_{R/γ}(x - ∇f_i(x)/γ)                     Q times, from x = w, on all rows of member i
    Δ_i    = (x - w) min(1, C/‖x - w‖)                     a member's whole contribution
    Δ̃     = Σ Δ_i / members + N(0, σ²)                    the only access to the records
    w     <- w + Δ̃

Record gradients are not clipped: what a member sends is, to $C = G/\gamma$. Its rows may be anything, and so may the
path of its local steps, which nothing needs to contract.

Released: $\tildeΔ$; members keep nothing. Claimed: **proved**, sensitivity $2C$ of the sum.
"""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, mean_of_present
from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.privacy.rounding import GradientSum, clipping_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, Release, array_namespace


@dataclass(frozen=True)
class FedAvgByClient:
    """Local steps of every member of a cohort, clipped as a whole, and summed up."""

    objective: Objective  # its clip_norm is G: of a member's contribution times γ
    members: int  # of a cohort
    steps: int  # Q, of each member
    inverse_step: float  # γ

    penalty = 0.0
    relation = "replace-one"
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    @property
    def local_steps(self) -> int:
        """Into how many batches a cohort's clients are dealt: one for each."""
        return self.members

    @property
    def most(self) -> float:
        """C: the length that a member's contribution keeps to."""
        return self.objective.clip_norm / self.inverse_step

    def start(self, zeros: Array) -> tuple[Array, Array, Array]:
        """All zero: public."""
        return zeros[0, ...], zeros, zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return Told(server, self.inverse_step)

    def query(self, told: Told, client: Array, batches: Batches) -> tuple[Query, None]:
        """The mean over a cohort's members of where their steps led, each clipped as a whole."""
        xp = array_namespace(told.weights)
        cohorts, members, rows, columns = batches.features.shape
        each = Batches(
            xp.reshape(batches.features, (cohorts * members, 1, rows, columns)),
            xp.reshape(batches.labels, (cohorts * members, 1, rows)),
            xp.ones(cohorts * members, dtype=batches.features.dtype),
            xp.reshape(batches.shares, (cohorts * members, 1, rows)),
        )
        free = Objective(self.objective.loss, self.objective.regularizer, inf)
        start = xp.zeros((cohorts * members, *client.shape[1:]), dtype=client.dtype) + told.weights
        point = start
        for _ in range(self.steps):
            point = proximal_steps(free, point, point, 0.0, told.inverse_step, 0.0, each).last
        there = xp.astype(xp.sum(each.shares[:, 0, ...], axis=-1) > 0, start.dtype)  # nobody has moved nowhere
        moved = (point - start) * there[:, None, None]
        lengths = xp.sqrt(xp.sum(moved * moved, axis=(-2, -1)))
        over = xp.maximum(lengths / self.most, xp.ones_like(lengths))
        sums = xp.sum(xp.reshape(moved / over[:, None, None], (cohorts, members, *client.shape[1:])), axis=1)
        longer = xp.sum(xp.reshape(xp.astype(lengths > self.most, start.dtype), (cohorts, members)), axis=1)
        return Query(sums / batches.divisors[:, None, None], longer / members), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean over members of contributions of length C at most."""
        return RECORD_MOVES[self.relation] * self.most / batch_sizes

    def rounding(self, told: Told, client: Array, batch: GradientSum) -> float:
        """Of clipping alone: whatever the steps did, and however they were rounded, is shortened to C."""
        return clipping_rounding(batch, self.most / batch.divisor)

    def settle(self, told: Told, client: Array, release: Release, kept: None) -> tuple[Array, Array]:
        """The server's own step: a cohort keeps nothing else."""
        reply = told.weights + release.value
        return reply, reply

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the cohorts that took part."""
        return mean_of_present(replies, present)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Array) -> PrimalDual:
        """A cohort's weights; there is no dual."""
        return PrimalDual(client, 0 * client)
