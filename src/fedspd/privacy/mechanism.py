"""The way from a `Query` to a `Release` in a simulation; real clients take that of `exact`. There is no third."""

from typing import Any

from fedspd.typing import Array, Query, Release


def gaussian(query: Query, scale: Any, normals: Array) -> Release:
    r"""Add Gaussian noise: $y + \sigma\xi$, $\xi \sim N(0, I)$.

    Args:
        query: what stacked clients computed from their records.
        scale: the standard deviation $\sigma$ (not the variance; Lemma 1 of the paper prints
            $\sigma$ where it means $\sigma^2$), one number or one per client.
        normals: fresh standard normal draws shaped like the query, used once.

    Guarantees:
        The standard deviation of every coordinate's noise is `scale`.
        Nothing but the noised value leaves: the query's diagnostics are dropped.
    """
    return Release(query.value + scale * normals)
