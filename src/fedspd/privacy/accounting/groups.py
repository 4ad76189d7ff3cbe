r"""What several records cost together, from the (epsilon, delta) of one: group privacy.

Gaussian releases of all records have distances that add up: $k$ records of one client move each query $k$ times as far,
so that they cost what one record would with a $k$-th of the noise; $k$ records at $k$ clients, whose noise is
independent, add their squared distances, so that it is a $\sqrt k$-th. Both are exact (Dong, Roth & Su 2022).

Other histories have the standard bounds: along $k$ neighbors $(k\varepsilon, \delta\sum_{i<k} e^{i\varepsilon})$
(Vadhan 2017, lemma 2.2), and for $k$ clients, whose releases compose, $(k\varepsilon, k\delta)$ (Dwork & Roth 2014,
theorem 3.16).
"""

import math
from typing import NamedTuple

from fedspd.privacy.accounting.closed_form.gaussian import crossing, gaussian_delta, gaussian_epsilon
from fedspd.privacy.accounting.distributions.profiles import as_gaussian
from fedspd.privacy.accounting.history import History, counted

_MOST_EXPONENT = 700.0  # of exp() in float64


class GroupBound(NamedTuple):
    """What is proved about a group."""

    epsilon: float
    delta: float


def all_gaussian(history: History) -> bool:
    """Whether every release uses all records and has Gaussian noise."""
    return all(as_gaussian(event) is not None for event in counted(history))


def at_one_client(epsilon: float, delta: float, size: int, gaussian: bool) -> GroupBound | None:
    """What `size` units of one client cost together, if one costs (epsilon, delta); None: nothing is proved.

    Args:
        gaussian: all releases are Gaussian and use all records; the same delta is kept then.
    """
    if size == 1:
        return GroupBound(epsilon, delta)
    if gaussian:
        return GroupBound(gaussian_epsilon(_multiplier(epsilon, delta) / size, delta), delta)
    if size * epsilon > _MOST_EXPONENT:
        return None
    together = delta * math.fsum(math.exp(place * epsilon) for place in range(size))
    return GroupBound(size * epsilon, together) if together < 1.0 else None


def at_several_clients(epsilon: float, delta: float, clients: int, gaussian: bool) -> GroupBound | None:
    """What one unit at each of several clients costs together, whose noise is independent; None: nothing is proved."""
    if clients == 1:
        return GroupBound(epsilon, delta)
    if gaussian:
        return GroupBound(gaussian_epsilon(_multiplier(epsilon, delta) / math.sqrt(clients), delta), delta)
    return GroupBound(clients * epsilon, clients * delta) if clients * delta < 1.0 else None


def _multiplier(epsilon: float, delta: float) -> float:
    """The least noise multiplier of one Gaussian release that is (epsilon, delta)-private, rounded down."""
    low, high = crossing(lambda multiplier: gaussian_delta(multiplier, epsilon), delta)
    return low or high
