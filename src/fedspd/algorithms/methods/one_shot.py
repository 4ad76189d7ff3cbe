r"""One shot: objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011, arXiv 0912.0071) at every client, then a
mean.

One round. Client i, by itself:

    x_i = argmin F_i(x) + μ/2 ‖x‖² + b·x,   b of density ∝ exp(-‖b‖/s)      the only access to the records
    w   = mean of x_i over the participants

The whole budget is spent once and nobody hears from anybody: what a method with rounds must beat. Needs a smooth
objective.

Released: $x_i$ with a small Gaussian on what is computed.
Claimed as published: ε-DP, $\epsilon = 2G/(ms) + 2\ln(1 + L/(m\mu'))$ with the regularizer in $\mu'$.
Claimed here: **proved**, with the logarithm once, and the Gaussian beside it (`objective_noise`).
"""

from dataclasses import dataclass
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told, mean_of_present
from fedspd.algorithms.card import MINIMIZERS, Card
from fedspd.algorithms.method import Made, Method, Needs, Public
from fedspd.algorithms.methods.fedavg import Local
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import OCTAVES
from fedspd.algorithms.parts.objective_noise import NoisedMinimizer, ObjectiveNoise, perturbed_minimum
from fedspd.algorithms.parts.rules import Wishes, counts, exact_steps
from fedspd.problem import Objective
from fedspd.typing import Argmin, Array, Batches, Release


@dataclass(frozen=True)
class OneShot(NoisedMinimizer):
    """Every client's own private optimum, averaged."""

    objective: Objective
    penalty: float  # μ
    row_norm: float

    keeps_replies = False

    @property
    def noise(self) -> ObjectiveNoise:
        """What the noise in the objective may claim."""
        return ObjectiveNoise(self.objective, self.row_norm, self.penalty)

    def start(self, zeros: Array) -> tuple[Array, Local, Array]:
        """All zero: public."""
        return zeros[0, ...], Local(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """Nothing that matters."""
        return Told(server, self.penalty)

    def query(self, told: Told, client: Local, batches: Batches) -> tuple[Argmin, None]:
        """The client's own problem, waiting for its noise."""
        start = 0 * client.weights
        problem = self.objective, self.row_norm, start, self.penalty, start, batches
        return perturbed_minimum(*problem, least=self.penalty), None

    def settle(self, told: Told, client: Local, release: Release, kept: None) -> tuple[Local, Array]:
        """The reply is the release."""
        return Local(release.value), release.value

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """Mean over the participants."""
        return mean_of_present(replies, present)

    def model(self, server: Array) -> Array:
        """The mean."""
        return server

    def local_point(self, client: Local) -> PrimalDual:
        """The released weights; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    penalty: float | None = shared.penalty("mu, curvature that is added; absent: by rule")
    step_scale: float = shared.step_scale(shared.NO_PENALTY)


def make(public: Public, settings: Settings) -> Made:
    """The curvature by rule where it is left open."""
    wishes = Wishes(penalty=settings.penalty, step_scale=settings.step_scale)
    steps = exact_steps(public, wishes, pure=True, count=counts(public, one_round=True))
    return Made(OneShot(public.bounded, steps.penalty, public.declared_norm), steps.rounds, steps.participations)


METHOD = Method(
    name="one-shot",
    card=Card(
        title="one shot",
        citation="Chaudhuri, Monteleoni, Sarwate 2011, JMLR, arXiv 0912.0071, at every client",
        claimed="Pure DP of one release.",
        proved=MINIMIZERS,
        released="the local minimizer with a small Gaussian, of an objective with noise",
        confidence="high: a standard method, averaged",
    ),
    guarantee="proved",
    kind=OneShot,
    settings=Settings,
    make=make,
    grid=OCTAVES,
    needs=Needs(one_round=True, smooth=True),
    compared={"problem.regularizer": "squared-l2", "run.rounds": 1},
)
