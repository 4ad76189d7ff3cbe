r"""Gaussian releases without subsampling: exact composition and the analytic formula.

Releases with noise multipliers $z_i$ compose, adaptively too, to one release with
$z = (\sum_i z_i^{-2})^{-1/2}$ (Dong, Roth & Su 2022), whose privacy profile is

$$\delta(\varepsilon) = \Phi(\tfrac{1}{2z} - \varepsilon z) - e^\varepsilon \Phi(-\tfrac{1}{2z} - \varepsilon z)$$

(Balle & Wang 2018, theorem 8). With $a = \varepsilon z - 1/2z$, $b = \varepsilon z + 1/2z$ and the Mills
ratio $m$ this is $\varphi(a)(m(a) - m(b))$, which keeps its digits in the tails.
"""

import math
from collections.abc import Callable, Iterable

_ROUNDING = 16 * 2.0**-52


def total_multiplier(multipliers: Iterable[tuple[float, int]]) -> float:
    r"""The one release equal to all of them, $(\sum_i n_i z_i^{-2})^{-1/2}$; infinite for none."""
    precision = math.fsum(count / multiplier**2 for multiplier, count in multipliers)
    return 1.0 / math.sqrt(precision) if precision else math.inf


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """The delta of one Gaussian release at `epsilon`.

    Guarantees:
        Never below the true value: the rounding error of the two terms is added.
    """
    from scipy.special import ndtr  # scipy.special takes 0.3 s to import

    if math.isinf(noise_multiplier):
        return 0.0
    half = 0.5 / noise_multiplier
    lower, upper = epsilon * noise_multiplier - half, epsilon * noise_multiplier + half
    density = math.exp(-0.5 * lower * lower) / math.sqrt(2.0 * math.pi)
    first = density * _mills(lower) if lower > 0.0 else float(ndtr(-lower))
    # exp() loses about lower^2 / 2 units in the last place of its result.
    rounding = _ROUNDING * (1.0 + lower * lower)
    return min(1.0, first - density * _mills(upper) + rounding * first)


def gaussian_epsilon(noise_multiplier: float, delta: float) -> float:
    """The least epsilon of one Gaussian release at `delta`, by bisection.

    Guarantees:
        The upper end of the last bracket: never below the true value, and within 1e-12 of it.
    """
    if gaussian_delta(noise_multiplier, 0.0) <= delta:
        return 0.0
    return crossing(lambda epsilon: gaussian_delta(noise_multiplier, epsilon), delta)[1]


def crossing(falling: Callable[[float], float], level: float) -> tuple[float, float]:
    """The ends of a bracket, 1e-13 of its upper end wide or two neighboring numbers, where a function falls to a level.

    Args:
        falling: of numbers from 0 on; above the level at the lower end, and not at the upper one.
    """
    low, high = 0.0, 1.0
    while falling(high) > level:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if falling(middle) > level:
            low = middle
        else:
            high = middle
    return low, high


def _mills(value: float) -> float:
    from scipy.special import erfcx  # scipy.special takes 0.3 s to import

    return math.sqrt(0.5 * math.pi) * float(erfcx(value / math.sqrt(2.0)))
