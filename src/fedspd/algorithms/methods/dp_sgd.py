r"""DP-SGD (Abadi et al. 2016, doi 10.1145/2976749.2978318) with one local step, as federated baseline.

Every participant i sends the noised mean of its clipped record gradients, the server steps:

    g_i  = (1/b) Σ_j clip(∇ℓ_j(w), C) + N(0, σ²)                    the only access to the records
    w   <- prox_{ηR}(w - η mean_i g_i),  η = 1/γ_t

Released: $g_i$; no state is carried but the server's.
Claimed, with a fixed C: **proved**, sensitivity $2C/b$.
Claimed, with the median of the batch's own gradient norms for C, as the FedSPD-DP paper takes it:
**as published**. C is a statistic of the records and every release is a multiple of it, so the
median leaks whatever the noise is; here it passes as `Private`, in plain sight.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, length, mean_of_present
from fedspd.algorithms.card import A_TOTAL, ONE_SGD, Card, Printed
from fedspd.algorithms.method import Made, Method, Needs, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import DECADES, OCTAVES
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.algorithms.parts.step_sizes import Constant, Schedule, SquareRoot
from fedspd.privacy.rounding import GradientSum, gradient_rounding
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Private, Query, Release, array_namespace


class Seen(NamedTuple):
    """What a client remembers: the weights it was last sent."""

    weights: Array


@dataclass(frozen=True)
class DPSGD:
    """Noised gradients, averaged over the participants of a round."""

    objective: Objective  # its clip_norm is C where clipping is fixed
    schedule: Schedule  # γ = 1/η
    clipping: Literal["fixed", "median"] = "fixed"
    relation: str = "replace-one"

    penalty = 0.0
    local_steps = 1
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    @property
    def guarantee(self) -> str:
        """Median clipping leaks the median; without any clipping nothing is bounded."""
        if self.clipping == "median":
            return "as published"
        return "proved" if self.objective.clip_norm < inf else "none"

    def start(self, zeros: Array) -> tuple[Array, Seen, Array]:
        """All zero: public."""
        return zeros[0, ...], Seen(zeros), zeros

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return Told(server, self.schedule.inverse_step(round))

    def query(self, told: Told, client: Seen, batches: Batches) -> tuple[Query, Private[Any] | None]:
        """The mean of clipped record gradients; with median clipping in units of the median, which is kept."""
        xp = array_namespace(told.weights)
        weights = xp.zeros_like(client.weights) + told.weights
        features, labels = batches.features[:, 0, ...], batches.labels[:, 0, ...]
        if self.clipping == "fixed":
            gradient = self.objective.gradient(weights, features, labels, batches.divisors)
            return Query(gradient.mean, gradient.clipped), None
        gradient = self.objective.median_gradient(weights, features, labels, batches.divisors)
        return Query(gradient.mean / gradient.bound[..., None], gradient.clipped), Private(gradient.bound)

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients of norm at most C, in units of C where C is the median."""
        bound = self.objective.clip_norm if self.clipping == "fixed" else 1.0
        return RECORD_MOVES[self.relation] * bound / batch_sizes

    def rounding(self, told: Told, client: Seen, batch: GradientSum) -> float:
        """Of a mean gradient at the server's weights."""
        return gradient_rounding(batch, length(told.weights))

    def settle(self, told: Told, client: Seen, release: Release, kept: Private[Array] | None) -> tuple[Seen, Array]:
        """The reply is the noised gradient; median clipping multiplies the un-noised median back in."""
        xp = array_namespace(told.weights)
        reply = release.value if kept is None else release.value * kept.value[..., None]
        return Seen(xp.zeros_like(client.weights) + told.weights), reply

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """One proximal step along the mean of the participants' gradients."""
        step = 1.0 / told.inverse_step
        return self.objective.regularizer.prox(server - step * mean_of_present(replies, present), step)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return server

    def local_point(self, client: Seen) -> PrimalDual:
        """The weights the gradient was taken at; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    batch_size: int | None = shared.batch_size()
    sampling: str = shared.proved_sampling()
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)


def work(settings: Settings) -> Work:
    """One step on a batch or on the whole shard."""
    return Work(1, settings.batch_size, settings.sampling)


def make(public: Public, settings: Settings) -> Made:
    """Clipped to a fixed bound, the step size by rule where it is left open."""
    own = work(settings)
    steps = gradient_steps(public, own, Wishes(settings.inverse_step, step_scale=settings.step_scale))
    algorithm = DPSGD(public.bounded, Constant(steps.inverse_step), relation=own.relation)
    return Made(algorithm, steps.rounds, steps.participations)


@dataclass(frozen=True)
class PublishedSettings:
    """What a user may set of the method as published."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size of round 1; grows like sqrt(t)", needed=True)
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


def published_work(settings: PublishedSettings) -> Work:
    """One step on a batch or on the whole shard."""
    return Work(1, settings.batch_size, settings.sampling)


def make_published(public: Public, settings: PublishedSettings) -> Made:
    """Clipped to the median, with falling steps."""
    algorithm = DPSGD(public.objective, SquareRoot(settings.inverse_step), clipping="median")
    return Made(algorithm, needed_rounds(public))


METHOD = Method(
    name="dp-sgd",
    card=Card(
        title="DP-SGD",
        citation="Abadi et al. 2016, CCS, doi 10.1145/2976749.2978318",
        claimed="(ε, δ)-DP of a round, and (O(q ε sqrt(T)), δ) in total by the moments accountant.",
        proved=A_TOTAL,
        released="the mean of clipped record gradients",
        confidence="high: the method; how it is federated is the FedSPD-DP paper's",
        table_1=1,
        baseline=True,
        printed=Printed(ONE_SGD, "non-convex, smooth", False, ""),
    ),
    guarantee="proved",
    kind=DPSGD,
    settings=Settings,
    make=make,
    work=work,
    grid=OCTAVES,
    deploys=True,
)

PUBLISHED = Method(
    name="dp-sgd-published",
    card=replace(
        METHOD.card,
        title="DP-SGD as published",
        proved="",
        caveat="the clipping bound is an un-noised statistic of the records",
        private_state="the median of the batch's gradient norms",
    ),
    guarantee="as published",
    kind=DPSGD,
    settings=PublishedSettings,
    make=make_published,
    work=published_work,
    grid=DECADES,
    needs=Needs(own_bound=True),
    compared={"algorithm.batch_size": 10},
    deploys=True,
)
