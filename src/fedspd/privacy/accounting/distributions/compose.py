r"""Composition of privacy losses by a tilted Fourier transform, with every error bounded from above.

Losses add up under composition (Koskela, Jälkö & Honkela 2020; Gopi, Lee & Wutschitz 2021). Before the
transform each mass is tilted by $e^{\theta \cdot \text{loss}}$ and normalized, after it the tilt is taken
back. Rounding errors and the wrap-around of the cyclic transform are then small *relative* to the delta
that is asked for, however small that is, and a Chernoff bound on the tilted sum pays for them
(docs/proofs/numerics.md counts all of it).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft

from fedspd.errors import InputError
from fedspd.privacy.accounting.distributions.discretize import LossMasses, gathered
from fedspd.privacy.accounting.distributions.profiles import Floats

Parts = Sequence[tuple[LossMasses, int]]

_OUTSIDE = 1e-15
_UNIT = 2.0**-53
# The count of a transform's roundings is for lengths of at least this; more noise than that bounds nothing.
_LEAST_SIZE, _MOST_NOISE = 256, 0.01
_MOST_SIZE = 1 << 27  # points, of 8 bytes each, several times over
# Relative rounding is below this, but for very many rounds or very long windows.
_ENLARGED = 1e-9
_LOG_TILTS = (-6.0, 14.0)
# Deltas below this are bounded from above, but not resolved.
LEAST_LOG_DELTA = -100.0


@dataclass(frozen=True)
class Tilt:
    """The exponent of a tilt, with the Rényi bound (epsilon, log delta) it gives."""

    value: float
    epsilon: float
    log_delta: float


@dataclass(frozen=True)
class Curve:
    """Upper bounds on delta at ascending epsilons; between two of them the chord in exp(epsilon) holds."""

    epsilons: Floats
    deltas: Floats


def log_moment(parts: Parts, tilt: float) -> float:
    """The log of E[exp(tilt * loss)] of the composition, infinite losses left out."""
    return math.fsum(count * _log_moment(masses, tilt) for masses, count in parts)


def tilt_for_delta(parts: Parts, delta: float) -> Tilt:
    """The tilt with the best Rényi bound on epsilon at `delta` (Canonne, Kamath & Steinke 2020)."""

    def renyi_epsilon(tilt: float) -> float:
        conversion = math.log1p(-1.0 / (tilt + 1.0)) - math.log(delta * (tilt + 1.0)) / tilt
        return log_moment(parts, tilt) / tilt + conversion

    tilt = _best(lambda tilt: math.log(max(renyi_epsilon(tilt), 1e-12)))
    return Tilt(tilt, max(0.0, renyi_epsilon(tilt)), math.log(delta))


def tilt_for_epsilon(parts: Parts, epsilon: float) -> Tilt:
    """The tilt with the best Rényi bound on delta at `epsilon`."""

    def renyi_log_delta(tilt: float) -> float:
        order = tilt + 1.0
        return log_moment(parts, tilt) - tilt * (epsilon - math.log1p(-1.0 / order)) - math.log(order)

    tilt = _best(lambda tilt: max(renyi_log_delta(tilt), LEAST_LOG_DELTA))
    return Tilt(tilt, epsilon, min(0.0, renyi_log_delta(tilt)))


def spread(parts: Parts, tilt: float) -> float:
    """The standard deviation of the tilted sum of losses."""
    return math.sqrt(math.fsum(count * _tilted_variance(masses, tilt) for masses, count in parts))


def greatest_loss(parts: Parts) -> float:
    """The largest finite loss of the composition."""
    return math.fsum(count * float(masses.losses[masses.masses > 0.0][-1]) for masses, count in parts)


def infinite_mass(parts: Parts) -> float:
    """The mass of an infinite loss in the composition."""
    return -math.expm1(math.fsum(count * math.log1p(-masses.infinite) for masses, count in parts))


def compose(parts: Parts, tilt: float, lowest: float) -> Curve:
    """The profile of the composition around the loss that `tilt` makes typical, from `lowest` or below.

    Guarantees:
        No delta is below that of the composed masses: negative rounding noise is cut off, and the noise,
        the wrapped mass and the mass above the window are bounded and added.
    """
    spacing = parts[0][0].spacing
    moment = log_moment(parts, tilt)
    low, high = _window(parts, tilt, moment)
    first = math.floor(min(low, lowest) / spacing)
    size = transform_size(max(_LEAST_SIZE, math.ceil(high / spacing) - first + 2))
    if size > _MOST_SIZE:
        releases = sum(count for _, count in parts)
        raise InputError(
            f"expected releases whose losses fit on {_MOST_SIZE} points, got {releases} releases that need {size}; "
            "count fewer of them, or use the accountant rdp."
        )
    indices = np.arange(first, first + size)
    losses = indices.astype(np.float64) * spacing
    noise = transform_noise(parts, size)
    if noise > _MOST_NOISE:
        return Curve(losses, np.ones(size))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for masses, count in parts:
        spectrum *= rfft(_folded(masses, tilt, size)) ** count
    tilted = np.maximum(irfft(spectrum, size), 0.0)
    weights = np.exp(np.minimum(moment - tilt * losses, 700.0))
    deltas = _hockey_stick(tilted[indices % size] * weights, spacing)
    finite = np.where(losses < greatest_loss(parts), deltas + (noise + _OUTSIDE) * weights, 0.0)
    enlarged = 1.0 + max(_ENLARGED, relative_rounding(parts, tilt, size))
    return Curve(losses, np.minimum((finite + infinite_mass(parts)) * enlarged, 1.0))


def transform_noise(parts: Parts, size: int) -> float:
    r"""The sum of what rounding in transforms and powers does to all tilted masses: $8u\,(C + P)\sqrt n\log_2 n$."""
    compositions = sum(count for _, count in parts) + len(parts)
    return 8.0 * _UNIT * compositions * math.sqrt(size) * math.log2(size)


def relative_rounding(parts: Parts, tilt: float, size: int) -> float:
    r"""How much too small masses and the sums over them may come out by rounding, relative to them.

    Of each composed mass the exponent of the tilt, with losses of at most $M$ in size, of the sums over $n$ masses, and
    of the exponent that takes the tilt back: $u\,(\sum C\,(2\theta M + 6|\Lambda| + 8) + 5n + 2400)$.
    """
    exponents = math.fsum(
        count * (2.0 * tilt * _largest_size(masses) + 6.0 * abs(_log_moment(masses, tilt)) + 8.0)
        for masses, count in parts
    )
    return _UNIT * (exponents + 5.0 * size + 2400.0)


def _largest_size(masses: LossMasses) -> float:
    return masses.spacing * max(abs(masses.first), abs(masses.first + len(masses.masses)))


def transform_size(least: int) -> int:
    """An even length of at least `least` whose Fourier transform is fast."""
    return min(factor << max(0, (math.ceil(least / factor) - 1).bit_length()) for factor in (2, 6, 10, 18))


def least_point(objective: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a function with one valley is least, by golden section."""
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = objective(left), objective(right)
    while high - low > tolerance:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = objective(right)
    return 0.5 * (low + high)


def _best(objective: Callable[[float], float]) -> float:
    """The best tilt, or a smaller one that is as good: bounded losses would drive it to infinity."""
    return math.exp(least_point(lambda log: objective(math.exp(log)) + 0.01 * log, *_LOG_TILTS, 0.05))


def _log_moment(masses: LossMasses, tilt: float) -> float:
    exponents = tilt * masses.losses
    largest = float(exponents[masses.masses > 0.0].max())
    return largest + math.log(float(np.sum(masses.masses * np.exp(np.minimum(exponents - largest, 0.0)))))


def _tilted(masses: LossMasses, tilt: float) -> Floats:
    """The tilted, normalized masses; where there is no mass the exponent is of no matter and is capped."""
    exponents = tilt * masses.losses - _log_moment(masses, tilt)
    return masses.masses * np.exp(np.minimum(exponents, 700.0))


def _folded(masses: LossMasses, tilt: float, size: int) -> Floats:
    """The tilted masses on a circle of `size` points."""
    indices = np.arange(masses.first, masses.first + len(masses.masses)) % size
    return gathered(indices, _tilted(masses, tilt), size)


def _window(parts: Parts, tilt: float, moment: float) -> tuple[float, float]:
    """An interval the tilted sum leaves with probability 2e-15 at most, by Chernoff's bound."""
    allowance = -math.log(_OUTSIDE)
    typical = math.sqrt(2.0 * allowance) / max(spread(parts, tilt), parts[0][0].spacing)
    lows, highs = [], []
    for step in typical * np.array([0.125, 0.25, 0.5, 1.0, 2.0]):
        highs.append((log_moment(parts, tilt + step) - moment + allowance) / step)
        lows.append(-(log_moment(parts, tilt - step) - moment + allowance) / step)
    return max(lows), min(highs)


def _tilted_variance(masses: LossMasses, tilt: float) -> float:
    weighted = _tilted(masses, tilt)
    mean = float(np.sum(weighted * masses.losses))
    return float(np.sum(weighted * (masses.losses - mean) ** 2))


def _hockey_stick(masses: Floats, spacing: float) -> Floats:
    """The sum over losses l above each grid point e of mass(l) (1 - exp(e - l)), without cancellation."""
    from scipy.signal import lfilter  # takes a second to import

    discounted = lfilter([1.0], [1.0, -math.exp(-spacing)], masses[::-1])
    later = np.append(0.0, np.cumsum(discounted)[:-1])[::-1]
    return -math.expm1(-spacing) * later
