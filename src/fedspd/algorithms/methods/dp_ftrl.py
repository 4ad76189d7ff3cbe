r"""DP-FTRL with banded noise (Kairouz et al. 2021, arXiv 2103.00039; bands: Choquette-Choo et al. 2023, arXiv
2306.08153), with the noise made by the clients.

A client's records come in turn: of B blocks, its n-th participation uses block n mod B. Participant i:

    z_i  = fresh N(0, I);   n_i = κ z_i - Σ_{0<j<B} c_j n_i^{j participations ago},   κ² = Σ_{j<B} c_j²
    g_i  = ∇f_i(w; block) + σ n_i                                       the only access to the records
    S   <- S + mean_i g_i
    w    = argmin ⟨S, w⟩ + t R(w) + γ/2 ‖w‖²

with $c_j = \binom{2j}{j}/4^j$, the first coefficients of the square root of the matrix of prefix sums (Kalinin and
Lampert 2024, arXiv 2405.13763). Noise of one participation is taken back in the next ones, so that sums S have less
of it.

Released: $g_i$. Remembered: the last noises $n_i$, secret but no function of the records.
Claimed as published: for a trusted server that adds the noise to the sum of all clients, and per client.
Claimed here: **proved** per record. Stacked over a client's participations $C n = z$ for the banded matrix C of the
$c_j/\kappa$, so $g + \sigma n$ tells what $Cg + \sigma z$ does. A record enters every B-th participation; the columns
of C in between overlap nowhere and have norm 1 at most, so its k uses move $Cg$ by $\sqrt k\,2GB/m$. Such a mechanism
may be adaptive (Denisov et al. 2022, arXiv 2202.08312). Hence one Gaussian release for every B participations begun.
"""

from dataclasses import dataclass
from math import comb, inf, sqrt
from typing import Any, NamedTuple

from fedspd.algorithms.base import PrimalDual, Told, mean_of_present
from fedspd.algorithms.card import A_TOTAL, Card
from fedspd.algorithms.method import Made, Method, Public, Work
from fedspd.algorithms.parts import settings as shared
from fedspd.algorithms.parts.grids import scale_and
from fedspd.algorithms.parts.rules import Wishes, gradient_steps
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.reading import setting
from fedspd.typing import Array, Batches, Query, Release, array_namespace


class Summed(NamedTuple):
    """What the server keeps."""

    total: Array  # S
    rounds: Array  # t


class Remembered(NamedTuple):
    """What a client carries: what it was sent, how often it took part, and its own last noises."""

    weights: Array
    turns: Array
    noises: Array  # (clients, B - 1, columns, outputs), the latest first


@dataclass(frozen=True)
class DPFTRL:
    """Follow the regularized leader on sums of gradients whose noise is taken back bit by bit."""

    objective: Objective
    inverse_step: float  # γ
    bands: int  # B, of noise and of records

    relation = "replace-one"
    penalty = 0.0
    law = "gaussian"
    exact = False
    releases = 1
    more_draws = 0
    local_steps = 1
    keeps_replies = False

    @property
    def guarantee(self) -> str:
        """Without clipping nothing is bounded."""
        return "proved" if self.objective.clip_norm < inf else "none"

    @property
    def blocks(self) -> int:
        """A record is used in one of so many participations."""
        return self.bands

    @property
    def coefficients(self) -> tuple[float, ...]:
        """The diagonals of C, before the columns are made as long as 1."""
        return tuple(comb(2 * j, j) / 4**j for j in range(self.bands))

    def start(self, zeros: Array) -> tuple[Summed, Remembered, Array]:
        """All zero: public."""
        xp = array_namespace(zeros)
        none = xp.zeros((zeros.shape[0], self.bands - 1, *zeros.shape[1:]), dtype=zeros.dtype)
        return Summed(zeros[0, ...], zeros[0, :1, :1]), Remembered(zeros, zeros[:, :1, :1], none), zeros

    def broadcast(self, server: Summed, round: Any) -> Told:
        """The leader and γ."""
        return Told(self.model(server), self.inverse_step)

    def stir(self, client: Remembered, draws: Array) -> tuple[Remembered, Array]:
        """Fresh noise less what is taken back of the last ones."""
        xp = array_namespace(draws)
        first, *later = self.coefficients
        noise = sqrt(first**2 + sum(one**2 for one in later)) * draws
        for place, one in enumerate(later):
            noise = noise - one * client.noises[:, place, ...]
        noises = xp.concat([noise[:, None, ...], client.noises], axis=1)[:, : self.bands - 1, ...]
        return client._replace(noises=noises), noise

    def query(self, told: Told, client: Remembered, batches: Batches) -> tuple[Query, None]:
        """The gradient of the block whose turn it is; records of other blocks are blanked."""
        xp = array_namespace(client.weights)
        features, labels = batches.features[:, 0, ...], batches.labels[:, 0, ...]
        places = xp.arange(features.shape[1], dtype=features.dtype)[None, :, None]
        turn = client.turns - self.bands * xp.floor(client.turns / self.bands)
        here = places - self.bands * xp.floor(places / self.bands) == turn
        weights = xp.zeros_like(client.weights) + told.weights
        block = features * xp.astype(here, features.dtype)
        gradient = self.objective.gradient(weights, block, labels, batches.divisors / self.bands)
        return Query(gradient.mean, gradient.clipped), None

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """Of the mean over a block."""
        return RECORD_MOVES[self.relation] * self.objective.clip_norm * self.bands / batch_sizes

    def settle(self, told: Told, client: Remembered, release: Release, kept: None) -> tuple[Remembered, Array]:
        """The reply is the release; the next block's turn comes."""
        weights = array_namespace(told.weights).zeros_like(client.weights) + told.weights
        return Remembered(weights, client.turns + 1, client.noises), release.value

    def merge(self, server: Summed, told: Told, replies: Array, previous: Array, present: Array) -> Summed:
        """One more gradient in the sum."""
        return Summed(server.total + mean_of_present(replies, present), server.rounds + 1)

    def model(self, server: Summed) -> Array:
        """The leader."""
        return self.objective.regularizer.prox(-server.total / self.inverse_step, server.rounds / self.inverse_step)

    def local_point(self, client: Remembered) -> PrimalDual:
        """The weights the gradient was taken at; there is no dual."""
        return PrimalDual(client.weights, 0 * client.weights)


@dataclass(frozen=True)
class Settings:
    """What a user may set."""

    bands: int = setting(
        4, "blocks that records come in by turns, and rounds that noise is taken back in", at_least=1, within=(1, 1000)
    )
    inverse_step: float | None = shared.inverse_step()
    step_scale: float = shared.step_scale(shared.BY_THE_RULE)


def make(public: Public, settings: Settings) -> Made:
    """The step size by rule where it is left open."""
    steps = gradient_steps(public, Work(), Wishes(settings.inverse_step, step_scale=settings.step_scale))
    return Made(DPFTRL(public.bounded, steps.inverse_step, settings.bands), steps.rounds, steps.participations)


METHOD = Method(
    name="dp-ftrl",
    card=Card(
        title="DP-FTRL, banded",
        citation="Kairouz et al. 2021, ICML, arXiv 2103.00039; bands: Choquette-Choo et al. 2023, NeurIPS, "
        "arXiv 2306.08153",
        claimed="(ε, δ)-DP of every client against who sees models, by a trusted server's noise.",
        proved=A_TOTAL,
        released="the gradient of the block whose turn it is",
        confidence="high: standard methods; that clients make the noise is ours",
    ),
    guarantee="proved",
    kind=DPFTRL,
    settings=Settings,
    make=make,
    grid=scale_and("bands", (1, 2, 5)),
)
