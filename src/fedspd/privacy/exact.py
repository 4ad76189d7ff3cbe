"""Gaussian noise for real clients: no rounding between a query and its noise. The deployed twin of `mechanism`.

Floating-point noise has gaps that depend on what it is added to, and these leak (Mironov 2012). Here query and noise
are whole multiples of the least positive float64, so their sum is exact; `docs/proofs/deployed.md` has the
proof. For secure sums they are multiples of a coarser grid, modulo 2^64; the proof is in `docs/proofs/secure-sums.md`.
"""

from importlib.util import find_spec
from math import frexp, inf
from typing import Any

import numpy as np

from fedspd.errors import InputError
from fedspd.typing import Query, Release

MOST_STEPS = 2.0**50  # in a noise's deviation: OpenDP's 64 bits end at 2^13 deviations, which no noise reaches
LONGEST = 2.0**62  # steps in a coordinate of a query


def exact_gaussian(query: Query, scale: float) -> Release:
    r"""Add discrete Gaussian noise on the grid $2^{-1074}\mathbb Z$, drawn from the operating system, exactly.

    The sampler is that of Canonne, Kamath and Steinke (2020), by OpenDP.

    Args:
        query: what one client computed from its records, in float64.
        scale: the standard deviation $\sigma$.

    Guarantees:
        Noise of deviation `scale` is a discrete Gaussian on the grid, to the last bit.
        A release near zero has all its bits, whatever the query was.
        Against the rounded Gaussian that accountants speak of, the total variation of a coordinate is at most
        $1/(16 s^2)$, $s = 2^{1074}\sigma \ge 1$.
        No error text holds a number that was computed from records.
        Nothing but the noised value leaves: the query's diagnostics are dropped.
    """
    value = _checked(query, scale)
    return Release(np.array(_noised(value.ravel().tolist(), float(scale), float)).reshape(value.shape))


def whole_gaussian(query: Query, scale: float, grid: float, reach: float) -> Release:
    r"""Round to a grid and add discrete Gaussian noise, in steps modulo $2^{64}$: one member's part of a sum.

    Args:
        query: what one member computed from its records, weighted, in float64.
        scale: $\tau$, the deviation of this member's noise.
        grid: g, a power of two.
        reach: the declared range of a coordinate; what is beyond is moved to its end.

    Guarantees:
        The noise is $N_\mathbb Z(0, (\tau/g)^2)$ in steps, to the last bit, whatever the query is.
        The part is never refused or clamped by its value: sums wrap around.
        Two queries lie at most $\sqrt d\,g$ further apart on the grid than they were.
        No error text holds a number that was computed from records, and the query's diagnostics are dropped.
    """
    value = _checked(query, scale)
    if frexp(grid)[0] != 0.5 or not scale / grid <= MOST_STEPS or not 0 < reach / grid <= LONGEST:
        raise InputError(
            "the grid of secure sums must be a power of two, with noise of at most 2^50 steps and coordinates of at "
            f"most 2^62, got a grid of {grid!r}, noise of {scale!r} and coordinates of {reach!r}; plan the run again."
        )
    steps = np.rint(np.clip(value, -reach, reach) / grid).astype(np.int64)
    # on zeros, and added here: OpenDP would clamp a sum that leaves 64 bits, which is no function of the members' sum
    noise = np.array(_noised([0] * value.size, scale / grid, int), np.int64).reshape(value.shape)
    return Release(steps.view(np.uint64) + noise.view(np.uint64))


def _checked(query: Query, scale: float) -> np.ndarray:
    value = np.asarray(query.value)
    if value.dtype != np.float64:
        raise InputError(f"the query of a real client must be float64, got {value.dtype}; compute in double precision.")
    if value.ndim < 1 or value.shape[0] != 1:
        raise InputError(f"the query of a real client must be a stack of one, got shape {value.shape}; take one.")
    if not 0 < scale < inf:
        raise InputError(f"the noise scale must be positive and finite, got {scale!r}; plan the run again.")
    if not np.isfinite(value).all():
        raise InputError("the query is not finite.")
    return value


def _noised(values: list[Any], scale: float, kind: type[float] | type[int]) -> list[Any]:
    if find_spec("opendp") is None:
        raise InputError(
            'noise for real clients needs OpenDP, got none; pip install "fedspd[flower]", or simulate the run.'
        )
    # these modules alone: opendp.prelude takes more than a second to import, on every start of a client
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    numbers = atom_domain(T=float, nan=False) if kind is float else atom_domain(T="i64")
    space = vector_domain(numbers), l2_distance(T=float)
    return make_gaussian(*space, scale=scale)(values)
