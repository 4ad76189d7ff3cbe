r"""Lower bounds: what an adversary really achieves against the mechanism the accountants bound.

Replace-one, one local step: every other record has the gradient $-Gu$. The adversary moves either the
record of the first shard (`removal`: $(1-q)N_0 + qN_1$ against $N_0$) or that of the second (`addition`,
the pair reversed) to $+Gu$, and picks the better of the two in each round from what it has seen. With
$g$ = epsilon minus the loss so far, its best delta is $V_n(g) = (1 - e^g)_+$ after the last round and
$V_t(g) = \max_{\text{pair}} \mathbb{E}\, V_{t+1}(g - L)$ before. Zero-out neighbors: the pair is the same in
every round. With several local steps nothing is claimed: None. Nor with pure releases: real noise leaks less than
the randomized response that bounds it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.fft import irfft, rfft

from fedspd.privacy.accounting.distributions.compose import transform_size
from fedspd.privacy.accounting.distributions.discretize import LossMasses, gathered, optimistic
from fedspd.privacy.accounting.distributions.pld import PairOrder, pairs_of
from fedspd.privacy.accounting.distributions.profiles import Dominating, Floats, loss_range
from fedspd.privacy.accounting.events import Event, FixedSize, Laplace, Poisson
from fedspd.privacy.accounting.minimizers import Minimizer

_MOST_DECISIONS = 128
# The grid of losses: this many points up to the upper bound, and as many windows of that width each way.
_POINTS, _WINDOWS = 4000, 3
_NEGLIGIBLE = 1e-16
_MOST_POINTS = 1 << 16
# More than all rounding noise; the values are at most 1, so it is absolute.
_NOISE = 1e-10


def realized_epsilon(history: Mapping[Event, int], delta: float, upper: float) -> float | None:
    """An epsilon the history certainly exceeds at `delta` for some loss, or None where none is known.

    Guarantees:
        Every approximation lowers it: outcomes are merged, losses rounded down, tails cut off, and with
        many rounds the adversary decides once per block of rounds.

    Args:
        upper: an upper bound on epsilon, which sets the scale of the grid.
    """
    if any(isinstance(event, Laplace | Minimizer) for event in history):
        return None
    if any(event.local_steps > 1 for event in history if isinstance(event, FixedSize | Poisson)):
        return None
    if not 0.0 < upper < math.inf:
        return 0.0 if upper == 0.0 else None
    replacing = all(event.relation == "replace-one" for event in history)
    games: list[tuple[PairOrder, ...]] = [("removal", "addition")] if replacing else [("removal",), ("addition",)]
    return max(_best_epsilon(_decisions(history, orders, upper / _POINTS), delta) for orders in games)


def _decisions(
    history: Mapping[Event, int], orders: Sequence[PairOrder], spacing: float
) -> list[tuple[list[LossMasses], int]]:
    """The choices of the adversary at each decision, and how often it faces the same ones."""
    # Nothing is claimed of pure releases, so there are no others.
    pairs = {pair: count for pair, count in pairs_of(history, "removal").items() if isinstance(pair, Dominating)}
    spacing = max([spacing, *(loss_range(pair, _NEGLIGIBLE)[1] / _MOST_POINTS for pair in pairs)])
    block = math.ceil(sum(pairs.values()) / _MOST_DECISIONS)
    decisions = []
    for pair, count in pairs.items():
        choices = [optimistic(replace(pair, order=order), spacing, _NEGLIGIBLE) for order in orders]
        for rounds, times in ((block, count // block), (count % block, 1)):
            if rounds and times:
                decisions.append(([_repeated(choice, rounds) for choice in choices], times))
    return decisions


def _best_epsilon(decisions: list[tuple[list[LossMasses], int]], delta: float) -> float:
    """The largest epsilon on the grid at which the adversary's delta is still above `delta`."""
    reach = _POINTS * _WINDOWS
    spacing = decisions[0][0][0].spacing
    gaps = np.arange(-2 * reach, 2 * reach + 1) * spacing
    # Beyond the window any adversary has at least this, and the window is overwritten.
    values = np.maximum(-np.expm1(np.minimum(gaps, 0.0)), 0.0)
    size = transform_size(len(values))
    for choices, times in decisions:
        spectra = [rfft(_centered(choice, reach), size) for choice in choices]
        for _ in range(times):
            spectrum = rfft(values, size)
            options = [irfft(spectrum * option, size)[2 * reach : 4 * reach + 1] for option in spectra]
            values[reach : 3 * reach + 1] = np.clip(np.max(options, axis=0), 0.0, 1.0)
    above = np.flatnonzero(values[2 * reach : 3 * reach + 1] > delta + _NOISE)
    return float(above[-1] * spacing) if len(above) else 0.0


def _repeated(masses: LossMasses, times: int) -> LossMasses:
    """`times` rounds of the same choice, by repeated squaring."""
    result, square = None, masses
    while times:
        if times & 1:
            result = square if result is None else _added(result, square)
        times >>= 1
        square = _added(square, square) if times else square
    assert result is not None
    return result


def _added(first: LossMasses, second: LossMasses) -> LossMasses:
    """The sum of two losses, kept within the window: what is above moves down, what is below is lost."""
    from scipy.signal import fftconvolve  # takes a second to import

    reach = _POINTS * _WINDOWS
    masses = np.maximum(fftconvolve(first.masses, second.masses) - 1e-17, 0.0)
    start = first.first + second.first
    centered = _centered(LossMasses(first.spacing, start, masses, 0.0), reach)
    return LossMasses(first.spacing, -reach, centered, 0.0)


def _centered(masses: LossMasses, reach: int) -> Floats:
    indices = np.minimum(np.arange(masses.first, masses.first + len(masses.masses)), reach) + reach
    kept = indices >= 0
    return gathered(indices[kept], masses.masses[kept], 2 * reach + 1)
