r"""DP-SGD with median clipping, as the FedSPD-DP paper runs it (arXiv 2204.12284, Section V; after Abadi et al. 2016,
doi 10.1145/2976749.2978318).

As `dp_sgd`, with the median of the batch's own gradient norms for C and steps that fall like $1/\sqrt t$:

    C_i  = median_j ‖∇ℓ_j(w)‖
    g_i  = C_i ((1/b) Σ_j clip(∇ℓ_j(w), C_i) / C_i + N(0, σ²))          the only access to the records
    w   <- prox_{ηR}(w - η mean_i g_i),  η = 1/γ_t

Released: $g_i$. Claimed: **as published**. $C_i$ is a statistic of the records and every release is a multiple of it,
so the median leaks whatever the noise is; here it passes as `Private`, in plain sight.
"""

from dataclasses import dataclass, replace
from typing import Any

from fedspd.algorithms.base import PrimalDual, Told
from fedspd.algorithms.method import Made, Method, Needs, Public, Work
from fedspd.algorithms.methods import dp_sgd
from fedspd.algorithms.methods.dp_sgd import DPSGD, Seen
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import DECADES
from fedspd.algorithms.parts.needed import needed_rounds
from fedspd.algorithms.parts.step_sizes import SquareRoot
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Private, Query, Release, array_namespace


@dataclass(frozen=True)
class MedianDPSGD:
    """DP-SGD whose clipping bound is read off from each batch."""

    plain: DPSGD  # all but the clipping

    guarantee = "as published"
    relation = "replace-one"
    penalty = 0.0
    local_steps = 1
    keeps_replies = False
    law = "gaussian"
    exact = False
    releases = 1

    @property
    def objective(self) -> Objective:
        """What each client minimizes; its clip_norm is not used."""
        return self.plain.objective

    def start(self, zeros: Array) -> tuple[Array, Seen, Array]:
        """All zero: public."""
        return self.plain.start(zeros)

    def broadcast(self, server: Array, round: Any) -> Told:
        """The weights and γ."""
        return self.plain.broadcast(server, round)

    def query(self, told: Told, client: Seen, batches: Batches) -> tuple[Query, Private[Array]]:
        """The mean of clipped record gradients in units of the median, which is kept."""
        weights = array_namespace(told.weights).zeros_like(client.weights) + told.weights
        features, labels = batches.features[:, 0, ...], batches.labels[:, 0, ...]
        gradient = self.objective.median_gradient(weights, features, labels, batches.divisors)
        return Query(gradient.mean / gradient.bound[..., None], gradient.clipped), Private(gradient.bound)

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of a mean of gradients, in units of the median."""
        return RECORD_MOVES[self.relation] * 1.0 / batch_sizes

    def settle(self, told: Told, client: Seen, release: Release, kept: Private[Array]) -> tuple[Seen, Array]:
        """The reply is the noised gradient, with the un-noised median multiplied back in."""
        seen, reply = self.plain.settle(told, client, release, None)
        return seen, reply * kept.value[..., None]

    def merge(self, server: Array, told: Told, replies: Array, previous: Array, present: Array) -> Array:
        """One proximal step along the mean of the participants' gradients."""
        return self.plain.merge(server, told, replies, previous, present)

    def model(self, server: Array) -> Array:
        """The server's weights."""
        return self.plain.model(server)

    def local_point(self, client: Seen) -> PrimalDual:
        """The weights the gradient was taken at; there is no dual."""
        return self.plain.local_point(client)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    inverse_step: float = shared.inverse_step("gamma, 1 / step size of round 1; grows like sqrt(t)", needed=True)
    batch_size: int | None = shared.batch_size()
    sampling: str = shared.published_sampling()


def work(settings: Settings) -> Work:
    """One step on a batch or on the whole shard."""
    return Work(1, settings.batch_size, settings.sampling)


def make(public: Public, settings: Settings) -> Made:
    """Clipped to the median, with falling steps."""
    algorithm = MedianDPSGD(DPSGD(public.objective, SquareRoot(settings.inverse_step)))
    return Made(algorithm, needed_rounds(public))


METHOD = Method(
    name="dp-sgd-published",
    card=replace(
        dp_sgd.METHOD.card,
        title="DP-SGD as published",
        proved="",
        caveat="the clipping bound is an un-noised statistic of the records",
        private_state="the median of the batch's gradient norms",
    ),
    guarantee="as published",
    kind=MedianDPSGD,
    settings=Settings,
    make=make,
    work=work,
    grid=DECADES,
    needs=Needs(own_bound=True),
    compared={"algorithm.batch_size": 10},
    deploys=True,
)
