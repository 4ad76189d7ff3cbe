r"""FedSPD-DP exactly as published (Li, Wang, Chang, Chi 2022, arXiv 2204.12284, Algorithm 1).

Round t, client i in $S_t$, with $x \leftarrow x_i^{t-1,Q}$:

    x    <- prox_{R_i/(γ+ρ)}((γ x + ρ x_0 + λ_i - ∇f_i(x; B_r)) / (γ+ρ))   r = 1..Q    eq. (13a)
    x_i   = mean of the Q new iterates                                                  eq. (13b)
    λ_i  <- λ_i + ρ (x_0 - x_i)                                                         line 16
    ỹ_i   = x_i - λ_i/ρ + N(0, σ²)                                                      eq. (14)

and the server averages the latest $\tilde y_i$ of *all* clients (line 5, with $\tilde y^{t-1}$: the
printed $\tilde y^t$ does not exist yet).

Released: $\tilde y_i$. Kept un-noised between rounds: $x_i^{t,Q}$ and $\lambda_i$, hence `Private`.
Claimed: (ε, δ)-DP per round and Theorem 1 in total, **as published**; the hidden state makes the
composition invalid (`docs/privacy.md`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.algorithms.parts.step_sizes import Schedule
from fedspd.privacy import paper
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Private, Query, Release


class Hidden(NamedTuple):
    """What a client carries from round to round, without noise."""

    last: Array  # x_i^{t,Q}, where the next local steps begin
    average: Array  # x_i^t
    dual: Array  # λ_i^t


@dataclass(frozen=True)
class FedSPDPublished:
    """The paper's method with the paper's sensitivity."""

    objective: Objective
    clients: int  # N
    penalty: float  # ρ
    local_steps: int  # Q
    schedule: Schedule

    guarantee = "as published"
    relation = "replace-one"
    keeps_replies = True
    law = "gaussian"
    exact = False
    releases = 1

    def start(self, zeros: Array) -> tuple[Array, Private[Hidden], Array]:
        """All zero, so the first replies $y_i^0 = x_i^0 - λ_i^0/ρ$ need no noise."""
        return zeros[0, ...], Private(Hidden(zeros, zeros, zeros)), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The mean of all latest replies (line 5) and γ of the round."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Private[Hidden], batches: Batches) -> tuple[Query, Private[Hidden]]:
        """Q proximal steps, the dual step, and the upload before its noise (lines 9-16)."""
        last, _, dual = client.value
        steps = proximal_steps(self.objective, last, told.weights, dual, told.inverse_step, self.penalty, batches)
        dual = dual + self.penalty * (told.weights - steps.average)
        upload = steps.average - dual / self.penalty
        return Query(upload, steps.clipped), Private(Hidden(steps.last, steps.average, dual))

    def sensitivity(self, round: Any, batch_sizes: Array) -> Any:
        """Lemma 2, as printed: the same for every batch size."""
        return paper.sensitivity(
            self.objective.clip_norm, self.local_steps, self.penalty, self.schedule.inverse_step(round)
        )

    def settle(
        self, told: Told, client: Private[Hidden], release: Release, kept: Private[Hidden]
    ) -> tuple[Private[Hidden], Array]:
        """The state goes on un-noised, as the paper has it; the reply is the release."""
        return kept, release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over all N clients, of whom only the participants' replies changed."""
        return mean_of_latest(server, replies, previous, present, self.clients)

    def model(self, server: Array) -> Array:
        """$x_0$ of the next round."""
        return server

    def local_point(self, client: Private[Hidden]) -> PrimalDual:
        """The round average and the un-noised dual."""
        return PrimalDual(client.value.average, client.value.dual)
