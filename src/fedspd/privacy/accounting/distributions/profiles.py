r"""The pair of distributions that dominates an event, as tails of its privacy loss.

A record that is drawn with probability $q$ and then moves the query by $d_r$ with probability $1/Q$ (or, where a whole
shard does not divide evenly, with the share of the $r$-th batch, which every mean over $r$ is then weighted by) gives,
for every $\alpha \ge 1$ (subset of fixed size, replace-one) or every $\alpha \ge 0$ (Poisson, zero-out),

$$H_\alpha \le q \cdot \mathrm{mean}_r\, \delta_{d_r}(\alpha'), \qquad \alpha' = 1 + (\alpha - 1)/q,$$

with $\delta_d$ the profile of a Gaussian release at distance $d$. Writing $P_r, Q_r$ for its two Gaussians
and $x = \ln \alpha'$, the right side is $T - \alpha U$ with $U = \mathrm{mean}_r\, Q_r[\text{loss} > x]$ and
$T = (1-q) U + q\, \mathrm{mean}_r\, P_r[\text{loss} > x]$: the tails of the loss $\ln \alpha$ under the two
members of the dominating pair. A pure release is dominated by randomized response, two losses and no tails, or by a
list of losses if the dimension of its noise is known. Proofs and citations: docs/accounting.md.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspd.privacy.accounting.closed_form.spherical import lengthening
from fedspd.privacy.accounting.events import (
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    SharedGaussian,
    relative_distances,
    step_chances,
)
from fedspd.privacy.accounting.minimizers import Minimizer

Floats = NDArray[np.float64]
Part = Gaussian | SharedGaussian | Laplace | FixedSize | Poisson
"""An event that one pair dominates."""
Order = Literal["symmetric", "removal", "addition"]


@dataclass(frozen=True)
class Dominating:
    """A dominating pair: how often a record is drawn, and the multiplier of each step it may fall into.

    `symmetric`: the larger of both orders of the pair at each alpha, one profile for both; `removal`: the
    shard with the record first; `addition`: the shard without it first.
    """

    rate: float
    multipliers: tuple[float, ...]
    order: Order
    chances: tuple[float, ...] = ()  # of the steps; none: all the same


@dataclass(frozen=True)
class RandomizedResponse:
    r"""The pair that dominates every pure release: loss $\varepsilon$ with mass $e^\varepsilon/(1+e^\varepsilon)$, else
    $-\varepsilon$. Both orders are the same."""

    epsilon: float


@dataclass(frozen=True)
class Spherical:
    """The pair that dominates pure noise in `dimension` dimensions which a record moves within `directions` of them.

    Losses of both signs, as with randomized response but of many sizes; both orders are the same.
    """

    noise_multiplier: float
    jacobian: float
    dimension: int
    directions: int


Listed = RandomizedResponse | Spherical
Pair = Dominating | Listed


class LossTails(NamedTuple):
    r"""Masses of a loss above and below each point, under the first and the second member of a pair.

    `scaled_second_above` is $e^{\text{loss}} U$: it is subtracted from `above` and must neither overflow nor
    lose digits. Differences are taken of `above` for positive losses and of `below` for negative ones.
    """

    above: Floats
    below: Floats
    scaled_second_above: Floats
    second_below: Floats


def taken_apart(history: Mapping[Event, int]) -> Mapping[Part, int]:
    """The same history with each computed minimizer as the two releases that it costs."""
    parts: Counter[Part] = Counter()
    for event, count in history.items():
        if isinstance(event, Minimizer):
            known = event.dimension, event.directions
            parts[Laplace(event.noise_multiplier, event.jacobian, event.relation, *known)] += count
            parts[Gaussian(event.gaussian_multiplier, event.relation)] += count
        else:
            parts[event] += count
    return parts


def dominating(event: Part, order: Literal["removal", "addition"]) -> Pair:
    """The pair that bounds one participation; `order` matters for zero-out neighbors only.

    Guarantees:
        Replace-one events ignore `order`: their two orders are never composed apart.
    """
    if isinstance(event, Gaussian | SharedGaussian):
        return Dominating(1.0, (event.noise_multiplier,), "symmetric")
    if isinstance(event, Laplace):
        if event.dimension is None or event.directions is None:
            return RandomizedResponse(event.epsilon)
        return Spherical(event.noise_multiplier, event.jacobian, event.dimension, event.directions)
    distances = relative_distances(event.local_steps, event.contraction)
    multipliers = tuple(event.noise_multiplier / distance for distance in distances)
    if len(set(multipliers)) == 1:
        multipliers = multipliers[:1]
    if isinstance(event, FixedSize):
        uneven = len(multipliers) > 1 and event.drawn % event.local_steps > 0
        chances = step_chances(event.records, event.local_steps) if uneven else ()
        return Dominating(event.drawn / event.records, multipliers, "symmetric", chances)
    return Dominating(event.rate, multipliers, "symmetric" if event.rate == 1.0 else order)


def as_gaussian(event: Event) -> float | None:
    """The multiplier of the Gaussian release that the event is, or None if it is none."""
    if isinstance(event, Gaussian | SharedGaussian):
        return event.noise_multiplier
    if isinstance(event, Laplace | Minimizer):
        return None
    everyone = event.rate == 1.0 if isinstance(event, Poisson) else event.drawn == event.records
    return event.noise_multiplier if everyone and event.local_steps == 1 else None


@lru_cache(maxsize=256)
def positive_losses(pair: Listed) -> tuple[Floats, Floats]:
    r"""The positive losses of a pair, ascending, and their masses; a loss of $-l$ has $e^{-l}$ times the mass of $l$.

    Guarantees:
        Both signs together have mass one, and there is no loss of zero.
    """
    if isinstance(pair, RandomizedResponse):
        return np.array([pair.epsilon]), np.array([1.0 / (1.0 + math.exp(-pair.epsilon))])
    longer, masses = lengthening(pair.noise_multiplier, pair.dimension, pair.directions)
    losses = longer + pair.jacobian
    # The largest losses, with both signs, make up the pair; smaller ones find no room.
    signs = 1.0 + np.exp(-losses)
    larger = np.append(np.cumsum((masses * signs)[::-1])[-2::-1], 0.0)
    kept = np.minimum(masses, np.maximum(1.0 - larger, 0.0) / signs)
    return losses[kept > 0.0], kept[kept > 0.0]


def deviation(pair: Listed) -> float:
    """About the standard deviation of the loss."""
    losses, masses = positive_losses(pair)
    return math.sqrt(float(np.sum(masses * (1.0 + np.exp(-losses)) * losses**2)))


def loss_range(pair: Dominating, negligible: float) -> tuple[float, float]:
    """Losses outside which either member of the pair has mass `negligible` at most."""
    from scipy.special import ndtri  # scipy.special takes 0.3 s to import

    sharpest = min(pair.multipliers)
    farthest = (0.5 / sharpest - float(ndtri(negligible))) / sharpest
    if pair.rate == 1.0:
        return -farthest, farthest
    absent, present = math.log1p(-pair.rate), math.log(pair.rate)
    return float(np.logaddexp(absent, present - farthest)), float(np.logaddexp(absent, present + farthest))


def loss_tails(pair: Dominating, losses: Floats) -> LossTails:
    """The distribution of the loss of the pair in the order `removal`, at each of `losses`."""
    steps = [_step_tails(pair.rate, multiplier, losses) for multiplier in pair.multipliers]
    if not pair.chances:
        return LossTails(*(np.mean(parts, axis=0) for parts in zip(*steps, strict=True)))
    return LossTails(*(np.tensordot(pair.chances, parts, axes=1) for parts in zip(*steps, strict=True)))


def _inner_loss(rate: float, losses: Floats) -> Floats:
    r"""The loss $x$ of the release itself where the subsampled loss is $\ln(1 - q + q e^x)$."""
    lift = (1.0 - rate) / rate * -np.expm1(-losses)
    with np.errstate(divide="ignore"):
        return losses + np.log1p(np.maximum(lift, -1.0))


def _step_tails(rate: float, multiplier: float, losses: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    from scipy.special import erfcx, ndtr  # scipy.special takes 0.3 s to import

    inner, half = _inner_loss(rate, losses), 0.5 / multiplier
    lower, upper = inner * multiplier - half, inner * multiplier + half
    above = (1.0 - rate) * ndtr(-upper) + rate * ndtr(-lower)
    below = (1.0 - rate) * ndtr(upper) + rate * ndtr(lower)
    positive = losses > 0.0
    scaled = np.empty_like(losses)
    scaled[~positive] = ndtr(-upper[~positive]) * np.exp(losses[~positive])
    low, high, loss = lower[positive], upper[positive], inner[positive]
    # exp(loss) = exp(x) (q + (1 - q) exp(-x)), and exp(x) times one normal density is the other.
    density = np.exp(-0.5 * low * low) / math.sqrt(2.0 * math.pi)
    mills = math.sqrt(0.5 * math.pi) * erfcx(high / math.sqrt(2.0))
    scaled[positive] = density * mills * (rate + (1.0 - rate) * np.exp(-loss))
    return above, below, scaled, ndtr(upper)
