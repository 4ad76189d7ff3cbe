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
composition invalid (`docs/proofs/published.md`).
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_latest
from fedspd.algorithms.card import HIDDEN
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.methods import fedspd
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import square
from fedspd.algorithms.parts.needed import needed_rounds, papers_plan
from fedspd.algorithms.parts.proximal import proximal_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule
from fedspd.errors import InputError
from fedspd.privacy import PaperFormulas, paper
from fedspd.problem import Objective
from fedspd.reading import SIZES, setting
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


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float = shared.penalty("penalty rho of the augmented Lagrangian", needed=True)
    batch_size: int = shared.batch_size("records per local step, b", needed=True)
    local_steps: int = shared.local_steps()
    sampling: str = shared.published_sampling()
    inverse_step: float | None = shared.inverse_step("gamma, 1 / step size; absent: that of Theorem 2")
    diameter: float = setting(1.0, "d_X of Theorem 2", above=0, within=SIZES, when=shared.BY_THE_RULE)
    dual_diameter: float = setting(1.0, "d_lambda of Theorem 2 and of the criterion", above=0, within=SIZES)
    gradient_deviation: float = setting(1.0, "phi of Theorem 2", at_least=0, within=SIZES, when=shared.BY_THE_RULE)


def work(settings: Settings) -> Work:
    """Several steps in batches."""
    return Work(settings.local_steps, settings.batch_size, settings.sampling)


def make(public: Public, settings: Settings) -> Made:
    """With the step size of Theorem 2 where none is set."""
    plan = papers_plan(public)
    if settings.inverse_step is None and public.objective.clip_norm == inf:
        raise InputError(
            "problem.clip_norm must be finite when algorithm.inverse_step is absent, since Theorem 2's step size "
            "depends on it, got inf; set a finite clip_norm or an inverse_step."
        )
    formulas = PaperFormulas(
        epsilon=plan.epsilon_per_round,
        delta=plan.delta,
        penalty=settings.penalty,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
        dimension=public.dimension,
        participation=public.participants / public.holdings.clients,
        gradient_bound=public.objective.clip_norm,
        diameter=settings.diameter,
        dual_diameter=settings.dual_diameter,
        gradient_deviation=settings.gradient_deviation,
    )
    theorem = settings.inverse_step is None
    steps = formulas if settings.inverse_step is None else Constant(settings.inverse_step)
    algorithm = FedSPDPublished(public.objective, public.clients, settings.penalty, settings.local_steps, steps)
    return Made(
        algorithm,
        needed_rounds(public),
        formulas=formulas if theorem else None,
        dual_diameter=settings.dual_diameter,
    )


METHOD = Method(
    name="fedspd-published",
    card=replace(
        fedspd.METHOD.card,
        title="FedSPD-DP as published",
        citation="Li, Wang, Chang, Chi 2022, arXiv 2204.12284, Algorithm 1",
        proved="",
        caveat=HIDDEN,
        released="the average of the local steps less the scaled dual",
        private_state="last local iterate and dual",
        confidence="high: the paper's own text",
        rate="O(1/sqrt(TQ))",
    ),
    guarantee="as published",
    kind=FedSPDPublished,
    settings=Settings,
    make=make,
    work=work,
    grid=square("algorithm.penalty", (2.0, 20.0, 200.0), "algorithm.diameter", (1.0, 10.0, 100.0)),
    compared={"algorithm.batch_size": 10, "algorithm.local_steps": 5},
    deploys=True,
)
