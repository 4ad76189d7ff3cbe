r"""One run with many canaries, held against Gaussian DP (Mahloujifar, Melis and Chaudhuri 2024, arXiv 2410.22235).

The game is that of `canaries.py`: $m$ coins, $r$ guesses, $C$ of them right. With $p_i = \Pr[C = i]$ and
$\bar f(x) = \Phi(\Phi^{-1}(x) + \mu)$, which is concave, flipping one coin and averaging over all of them gives

$$R_{i+1} \le \bar f(H_i),\qquad R_i = \tfrac1m\sum_{l\ge i} l\,p_l,\qquad H_i = \tfrac1m\sum_{l\ge i}(r - l)\,p_l,$$

for every $i$, while $R_0 + H_0 = r/m$. If $v$ or more guesses are right with a chance of $\tau$, then
$R_v \ge \tau v/m$. Going down from $v$ with as little as the inequalities allow may end at more than $r/m$: then
the chance is below $\tau$. The whole profile is used and not one point of it, so that this proves more than the bound
for $(\varepsilon, \delta)$.
"""

from fedspd.audit.bounds import CONFIDENCE
from fedspd.privacy.accounting import Gaussian, spent

MOST_MU = 20.0
WIDTH = 1e-5


def gaussian_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The largest mu that so many right guesses refute, and its epsilon at delta; zeros where they refute none."""
    if not unlikely(canaries, guesses, right, WIDTH, 1 - confidence):
        return 0.0, 0.0
    low, high = WIDTH, MOST_MU
    while high - low > WIDTH:
        middle = (low + high) / 2
        refuted = unlikely(canaries, guesses, right, middle, 1 - confidence)
        low, high = (middle, high) if refuted else (low, middle)
    return low, spent([(Gaussian(1 / low), 1)], delta).epsilon


def unlikely(canaries: int, guesses: int, right: int, mu: float, chance: float) -> bool:
    """Whether so many right guesses, or more, have less than this chance in any run that is mu-Gaussian DP."""
    from scipy.special import ndtr, ndtri  # takes 0.3 s to import

    hits, misses = chance * right / canaries, chance * (guesses - right) / canaries
    for count in range(right - 1, -1, -1):
        needed = max(misses, float(ndtr(ndtri(hits) - mu)))
        hits += count / (guesses - count) * (needed - misses)
        misses = needed
    return hits + misses > guesses / canaries
