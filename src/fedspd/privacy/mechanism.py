"""The ways from a `Query` to a `Release` in a simulation; real clients take that of `exact`. There is no other.

Draws are handed in, of deviation or size one; the law they must have gives a mechanism its name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from fedspd.typing import Argmin, Array, Query, Release, array_namespace


def gaussian(query: Query | Argmin, scale: Any, draws: Array) -> Release:
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
    return _noised(query, scale * draws)


def laplace(query: Query | Argmin, scale: Any, draws: Array) -> Release:
    r"""Add noise of density $\propto e^{-\|b\|/s}$, $\|\cdot\|$ the L2 norm of a client's whole matrix: pure privacy.

    It is the noise of Chaudhuri, Monteleoni and Sarwate (2011), a K-norm mechanism (Hardt and Talwar 2010).

    Args:
        query: what stacked clients computed from their records; where it is an `Argmin` the noise is added to the
            linear term of the objective, and the minimizer is released.
        scale: $s$, one number or one per client.
        draws: fresh draws of $s = 1$ shaped like the query, used once (`engine.draws.unit_noise`).

    Guarantees:
        The norm of a client's noise has mean $s d$, $d$ the number of its weights.
        Nothing but the noised value leaves: the query's diagnostics are dropped.
    """
    return _noised(query, scale * draws)


def _noised(query: Query | Argmin, noise: Any) -> Release:
    return Release(query.under(noise) if isinstance(query, Argmin) else query.value + noise)


MECHANISMS: Mapping[str, Callable[[Query | Argmin, Any, Array], Release]] = {"gaussian": gaussian, "laplace": laplace}
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
