r"""One run with many canaries: what a single transcript proves (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846).

A client holds many canaries, each in a column of its own, each with one of two labels by the toss of a coin. The
attacker guesses the labels of those it is surest of. If the run is $(\varepsilon, \delta)$-private, of $r$ guesses
about $m$ canaries $v$ or more are right with a chance of at most

$$\Pr[B \ge v] + 2m\delta\max_{1\le i\le v}\frac{\Pr[v - i \le B < v]}{i},\qquad
B \sim \mathrm{Binomial}\big(r, \tfrac{e^\varepsilon}{1+e^\varepsilon}\big)$$

(their Theorem 5.2). No run is repeated, so that this works where one run takes all day; the bound is weaker for it.
"""

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np

from fedspd.algorithms.base import at_weights
from fedspd.audit.bounds import CONFIDENCE
from fedspd.audit.game import unit_noise, watched
from fedspd.audit.target import UNDECLARED, Target, extreme_labels
from fedspd.engine.round import play
from fedspd.typing import Batches

MOST_EPSILON = 50.0
GUESSED = 0.2  # of the canaries, those that are guessed


def play_canaries(target: Target, canaries: int, seed: int) -> tuple[int, int]:
    """Guesses about the canaries of one run on the whole shard, and how many were right.

    Args:
        target: what is attacked; its shard is replaced by one of canaries.
        canaries: how many.
        seed: of the coins and of the client's draws.
    """
    algorithm, target = target.algorithm, replace(target, columns=canaries)
    coins = np.random.default_rng([seed, 7]).integers(0, 2, canaries)
    labels = np.array(extreme_labels(algorithm.objective.loss))[coins]
    rows = (target.row_norm or UNDECLARED) * np.eye(canaries)

    def batches(chosen: np.ndarray) -> Batches:
        return Batches(rows[None, None], chosen[None, None], np.array([target.divisor]))

    server = at_weights(algorithm.start(np.zeros((1, *target.matrix)))[0], np.zeros(target.matrix))
    client, scores = algorithm.start(np.zeros((1, *target.matrix)))[1], np.zeros(canaries)
    ends = [np.full(canaries, label) for label in extreme_labels(algorithm.objective.loss)]
    first, second = (
        np.asarray(algorithm.query(algorithm.broadcast(server, 1), client, batches(end))[0].value)[0] for end in ends
    )
    for turn in range(1, target.participations + 1):
        bound = float(np.max(algorithm.sensitivity(turn, np.array([target.divisor]))))
        seen: list[Any] = []
        perturb = watched(algorithm.law, target.multiplier * bound, seen)
        noise = unit_noise(target, 1, seed, turn, 0)
        client = play(algorithm, algorithm.broadcast(server, turn), client, batches(labels), perturb, noise).client
        scores += sum(np.sum(np.asarray(one.value)[0] * (second - first), axis=1) for one in seen)
    surest = np.argsort(-np.abs(scores - np.median(scores)))[: int(GUESSED * canaries)]
    guesses = scores[surest] > np.median(scores)
    return len(surest), int(np.sum(guesses == coins[surest]))


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that so many right guesses refute; zero where they refute none."""
    if chance_at(canaries, guesses, right, 0.0, delta) > 1 - confidence:
        return 0.0
    low, high = 0.0, MOST_EPSILON
    while high - low > 1e-6:
        middle = (low + high) / 2
        refuted = chance_at(canaries, guesses, right, middle, delta) <= 1 - confidence
        low, high = (middle, high) if refuted else (low, middle)
    return low


def chance_at(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The most chance of so many right guesses under a claim."""
    from scipy import stats  # takes a second to import

    law = guesses, 1 / (1 + exp(-epsilon))
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), *law))  # from right - i up to right - 1
    steepest = float(np.max(below / np.arange(1, right + 1), initial=0.0))
    return min(1.0, float(stats.binom.sf(right - 1, *law)) + 2 * canaries * delta * steepest)
