r"""Membership in numbers people understand: how often an attacker finds a record out, beside what a claim allows.

Where $(\varepsilon, \delta)$ holds, true positives are at most $\min(e^\varepsilon F + \delta,\
1 - e^{-\varepsilon}(1 - \delta - F))$ at false positives $F$ (Kairouz, Oh and Viswanath 2015). Of a curve the low end
counts: an attacker who is sure of a few is worse than one who is right a little more often than not (Carlini et al.
2022).
"""

from typing import NamedTuple

import numpy as np

LOW, LOWER = 0.01, 0.001  # false positives at which true ones are told


class Curve(NamedTuple):
    """True positives against false ones."""

    false_positives: np.ndarray
    true_positives: np.ndarray

    @property
    def area(self) -> float:
        """AUC: one half says nothing, one everything."""
        return float(np.trapezoid(self.true_positives, self.false_positives))

    def at(self, false_positives: float) -> float:
        """True positives at so many false ones, or fewer."""
        return float(self.true_positives[np.searchsorted(self.false_positives, false_positives, side="right") - 1])


def curve(first: np.ndarray, second: np.ndarray) -> Curve:
    """Of scores; larger ones speak for the second world."""
    thresholds = np.unique(np.concatenate([first, second]))[::-1]
    tails = [1 - np.searchsorted(np.sort(scores), thresholds, side="left") / len(scores) for scores in (first, second)]
    return Curve(*(np.concatenate([[0.0], tail]) for tail in tails))


def allowed(epsilon: float, delta: float, false_positives: np.ndarray) -> Curve:
    """The most that a claim leaves to any attacker."""
    few = np.exp(epsilon) * false_positives + delta
    many = 1 - np.exp(-epsilon) * (1 - delta - false_positives)
    return Curve(false_positives, np.clip(np.minimum(few, many), 0.0, 1.0))
