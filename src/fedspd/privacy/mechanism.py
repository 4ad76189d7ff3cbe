"""The ways to a `Release` in a simulation; real clients take that of `exact`. There is no other.

Draws are handed in, of deviation or size one; the law they must have gives a mechanism its name.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from fedspd.privacy.accounting.minimizers import gaussian_beside
from fedspd.typing import Argmin, Array, Query, Release, array_namespace


def gaussian(query: Query, scale: Any, draws: Array) -> Release:
    r"""Add Gaussian noise: $y + \sigma\xi$, $\xi \sim N(0, I)$.

    Args:
        query: what stacked clients computed from their records.
        scale: the standard deviation $\sigma$ (not the variance; Lemma 1 of the paper prints
            $\sigma$ where it means $\sigma^2$), one number or one per client.
        draws: fresh standard normal draws shaped like the query, used once.

    Guarantees:
        The standard deviation of every coordinate's noise is `scale`.
        Nothing but the noised value leaves: the query's diagnostics are dropped.
    """
    return Release(query.value + scale * draws)


def laplace(query: Query, scale: Any, draws: Array) -> Release:
    r"""Add noise of density $\propto e^{-\|b\|/s}$, $\|\cdot\|$ the L2 norm of a client's whole matrix: pure privacy.

    It is the noise of Chaudhuri, Monteleoni and Sarwate (2011), a K-norm mechanism (Hardt and Talwar 2010).

    Args:
        query: what stacked clients computed from their records.
        scale: $s$, one number or one per client.
        draws: fresh draws of $s = 1$ shaped like the query, used once (`engine.draws.unit_noise`).

    Guarantees:
        The norm of a client's noise has mean $s d$, $d$ the number of its weights.
        Nothing but the noised value leaves: the query's diagnostics are dropped.
    """
    return Release(query.value + scale * draws)


def objective(query: Argmin, scale: Any, draws: Array) -> Release:
    r"""Add noise of density $\propto e^{-\|b\|/s}$ to the linear term of an objective, and a Gaussian to its minimizer.

    The second noise hides by how much a computed minimizer is off, which nobody knows to depend on the first alone.

    Args:
        query: what stacked clients would minimize.
        scale: $s$, one number or one per client; it fixes both noises, as it fixes what both cost
            (`accounting.minimizers`).
        draws: fresh draws, used once (`engine.draws.unit_noise`): for each client one of $s = 1$ and one of normals.

    Guarantees:
        Of a multiplier $z = s/s_x$ of the first noise the second has that of `gaussian_beside`, relative to how far two
        computed minimizers may be apart that should be one.
        Nothing but the noised minimizer leaves.
    """
    inside, on_top = draws[:, 0, ...], draws[:, 1, ...]
    deviation = gaussian_beside(1.0, prod(inside.shape[1:])) * scale * query.apart
    return Release(query.under(scale * inside) + deviation * on_top)


MECHANISMS: Mapping[str, Callable[[Any, Any, Array], Release]] = {
    "gaussian": gaussian, "laplace": laplace, "objective": objective,
}  # fmt: skip
"""By the law of the draws."""


def randomized_response(labels: Array, coins: Any, chance: float) -> Any:
    r"""Flip labels of two classes, each with the same chance $p$ (Warner 1965): $\ln\frac{1-p}{p}$-private labels.

    Args:
        labels: 0 or 1.
        coins: fresh uniform draws in [0, 1), used once.
        chance: of a flip, below one half.

    Guarantees:
        A label is flipped with the chance that is given, whatever it was.
    """
    return array_namespace(labels).where(coins < chance, 1 - labels, labels)
