r"""What (epsilon, delta) means to somebody: what an attacker may believe, and how often it guesses right.

The attacker knows all records but one, and of that one that it is one of two. It gives the first a chance of $\pi$
beforehand. What it believes follows from the ratio of the two likelihoods. That ratio may pass $e^\varepsilon$ more
often than with a chance of $\delta$; but where it passes $f > e^\varepsilon$, a share $1 - e^\varepsilon/f$ of the
chance counts towards $\delta = \int (P - e^\varepsilon Q)_+$. So with $f = \frac{10}{9} e^\varepsilon$ it does with a
chance of at most $10\delta$, and otherwise $\pi f / (1 - \pi + \pi f)$ is the most that is believed (Kasiviswanathan
and Smith 2014 treat such beliefs). And no test has a smaller pair of errors than the corners of
$\mathrm{FNR} \ge 1 - \delta - e^\varepsilon\,\mathrm{FPR}$ and its mirror image (Kairouz, Oh & Viswanath 2015), so that
no guess is right more often than at the best of the corners.
"""

import math
from typing import Any

PRIORS = (0.01, 0.1, 0.5, 0.9)
OUTSIDE = 10.0  # times delta: the chance of cases in which more may be believed
_MOST_EXPONENT = 700.0


def belief_factor(epsilon: float) -> float:
    """How much the odds of the truth may change, outside cases of a chance of `OUTSIDE` times delta."""
    return math.exp(min(epsilon, _MOST_EXPONENT)) / (1.0 - 1.0 / OUTSIDE)


def belief_after(prior: float, epsilon: float) -> float:
    """The most that is believed afterwards of what had this chance before, outside those cases."""
    return prior / (prior + (1.0 - prior) / belief_factor(epsilon))


def guess_right(prior: float, epsilon: float, delta: float) -> float:
    """The largest chance to guess right; never below that of the better guess without any release."""
    corner = (1.0 - delta) / (1.0 + math.exp(min(epsilon, _MOST_EXPONENT)))
    return max(1.0 - corner, 1.0 - prior * (1.0 - delta), 1.0 - (1.0 - prior) * (1.0 - delta))


def meaning(epsilon: float, delta: float) -> dict[str, Any]:
    """What a statement says about it, for some chances beforehand."""
    return {
        "odds_factor": math.exp(min(epsilon, _MOST_EXPONENT)),
        "belief_factor": belief_factor(epsilon),
        "outside": min(OUTSIDE * delta, 1.0),
        "guesses": [
            {
                "before": prior,
                "believed_at_most": belief_after(prior, epsilon),
                "believed_at_least": 1.0 - belief_after(1.0 - prior, epsilon),
                "right_at_most": guess_right(prior, epsilon, delta),
            }
            for prior in PRIORS
        ],
    }
