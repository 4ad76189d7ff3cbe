r"""Rényi moments of a dominating pair, by quadrature.

With $w = 1 - q + q e^x$, where $x$ is the loss of the release itself under the Gaussian without the record,
the moment $\mathbb{E}\, e^{\theta L}$ of the loss is $\mathbb{E}\, w^{\theta+1}$ in the order `removal`,
$\mathbb{E}\, w^{-\theta}$ in the order `addition`, and for the symmetric profile, whose losses $L$ and $-L$
have masses $\mathbb{E}[w;\, x > 0]$ and $\mathbb{E}[1;\, x > 0]$ and whose loss 0 has the rest,
$1 + \mathbb{E}[(w^\theta - 1)(w - w^{-\theta});\, x > 0]$. Divided by $\theta$, its log bounds the Rényi
divergence of order $\theta + 1$ (docs/accounting.md). A pair whose positive losses $\ln w$ are listed, with their
masses $m$, needs no quadrature: the mass $\mathbb{E}[1;\, x > 0]$ of each is $m/w$.
"""

import math

import numpy as np

from fedspd.privacy.accounting.distributions.profiles import Dominating, Floats, Listed, Pair, positive_losses

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# Both ends lie this many standard deviations beyond anything that matters.
_MARGIN = 12.0


def pair_log_moment(pair: Pair, tilt: float) -> float:
    """The log of E exp(tilt * loss) of a dominating pair, rounded up."""
    moment = _moment(pair, tilt) if isinstance(pair, Dominating) else _listed_moment(pair, tilt)
    return moment * (1.0 + 1e-9) + 1e-13


def _listed_moment(pair: Listed, tilt: float) -> float:
    losses, masses = positive_losses(pair)
    excess = _log_symmetric_excess(losses, tilt) + np.log(masses) - losses
    return float(np.logaddexp(0.0, np.logaddexp.reduce(excess)))


def _moment(pair: Dominating, tilt: float) -> float:
    logs = [_step_log_moment(pair, multiplier, tilt) for multiplier in pair.multipliers]
    if pair.chances:
        mean = float(np.logaddexp.reduce(np.log(pair.chances) + logs))
    else:
        mean = float(np.logaddexp.reduce(logs)) - math.log(len(logs))
    return float(np.logaddexp(0.0, mean)) if pair.order == "symmetric" else max(0.0, mean)


def _log_symmetric_excess(losses: Floats, tilt: float) -> Floats:
    r"""The log of $(w^\theta - 1)(w - w^{-\theta})$ at positive losses $\ln w$."""
    higher, lower = (tilt + 1.0) * losses, tilt * losses
    return higher + np.log(-np.expm1(-higher)) + np.log(-np.expm1(-lower))


def _step_log_moment(pair: Dominating, multiplier: float, tilt: float) -> float:
    half = 0.5 / multiplier
    least = half if pair.order == "symmetric" else -_MARGIN
    points, log_weights = _quadrature(least, half + (tilt + 1.0) / multiplier + _MARGIN)
    loss = (points - half) / multiplier
    if pair.rate < 1.0:
        loss = np.logaddexp(math.log1p(-pair.rate), math.log(pair.rate) + loss)
    if pair.order == "symmetric":
        exponents = _log_symmetric_excess(loss, tilt)
    else:
        exponents = (tilt + 1.0 if pair.order == "removal" else -tilt) * loss
    return float(np.logaddexp.reduce(exponents + log_weights))


def _quadrature(least: float, greatest: float) -> tuple[Floats, Floats]:
    """Points of panels at most half a standard deviation wide, and their log weights times the density."""
    panels = math.ceil(2.0 * (greatest - least))
    half = 0.5 * (greatest - least) / panels
    centers = least + half * (2.0 * np.arange(panels) + 1.0)
    points = (centers[:, None] + half * _NODES).ravel()
    weights = np.tile(np.log(half * _WEIGHTS), panels)
    return points, weights - 0.5 * points * points - 0.5 * math.log(2.0 * math.pi)
