"""Gaussian noise for real clients: no rounding between a query and its noise. The deployed twin of `mechanism`.

Floating-point noise has gaps that depend on what it is added to, and these leak (Mironov 2012). Here query and noise
are whole multiples of the least positive float64, so their sum is exact; `docs/privacy.md` has the proof.
"""

from importlib.util import find_spec
from math import inf

import numpy as np

from fedspd.errors import InputError
from fedspd.typing import Query, Release


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
    value = np.asarray(query.value)
    if value.dtype != np.float64:
        raise InputError(f"the query of a real client must be float64, got {value.dtype}; compute in double precision.")
    if value.ndim < 1 or value.shape[0] != 1:
        raise InputError(f"the query of a real client must be a stack of one, got shape {value.shape}; take one.")
    if not 0 < scale < inf:
        raise InputError(f"the noise scale must be positive and finite, got {scale!r}; plan the run again.")
    if not np.isfinite(value).all():
        raise InputError("the query is not finite.")
    return Release(np.array(_noised(value.ravel().tolist(), float(scale))).reshape(value.shape))


def _noised(values: list[float], scale: float) -> list[float]:
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
    space = vector_domain(atom_domain(T=float, nan=False)), l2_distance(T=float)
    return make_gaussian(*space, scale=scale)(values)
