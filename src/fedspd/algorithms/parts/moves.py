r"""How a server moves: ahead by momentum, in steps as long as releases show to be safe, to the mean of where it was.

*Momentum*: $v = w + \frac{\beta}{p}(w - w_{before})$ is sent, where a share p of the clients takes part in a round: of
a server that averages the latest uploads of all, only that share hears of it.

*Stretch*: a step by public bounds holds on any records, and is far too short on most. What the participants make of v
pulls to some point; between two rounds the server sees how the pull changed along the way it went, a secant of the
curvature c in units of that step. A step m times as long is stable while
$mc < 2\frac{1+\beta}{1+2\beta}$ (gradient steps at weights sent ahead). So m grows, twofold a round at most, up to 0.8
of that for the largest c seen so far, and up to what the rule's way asks for; it is never below 1.

*Averaging*: the model is the mean of the weights after all rounds, each weighing as much as the square of its number.
What is sent does not hear of it. The mean has gone three quarters of the way or more, and keeps little of the noise in
directions in which the loss bends: there weights swing around the optimum, and their mean does not.

Whatever is sent is a function of releases, and so are m and the mean, so they cost no privacy; steps that add up to a
bounded way lead no further than that, whatever the curvature (`docs/proofs/public-choices.md`).

The state is one array, so that a checkpoint can keep it.
"""

from typing import Any

from fedspd.algorithms.base import Told
from fedspd.typing import Array, array_namespace

GROWTH = 2.0  # of the stretch in a round, at most
SAFE = 0.8  # of the longest stable step at the curvature that was seen

WEIGHTS, BEFORE, STRETCH, CURVATURE, SENT, PULL, MEAN, SHARE = range(8)
POWER = 2  # of a round's number, by which its weights count in the mean


def resting(weights: Array, stretch: Any = 1.0) -> Any:
    """The state of a server that has not moved yet, and how long its first step is."""
    rest, whole = 0 * weights, 0 * weights + 1  # the share of the first round in the mean
    return array_namespace(weights).stack([weights, weights, rest + stretch, rest, weights, rest, weights, whole])


def sent(server: Array, inverse_step: Any, momentum: Any, share: Any = 1.0) -> Told:
    """What is sent: weights ahead of the server's, γ, and the stretch of the round."""
    ahead = server[WEIGHTS, ...] + momentum / share * (server[WEIGHTS, ...] - server[BEFORE, ...])
    return Told(ahead, inverse_step, server[STRETCH, 0, 0])


def moved(server: Array, weights: Array, told: Told, end: Array, momentum: Any, most: Any, averaging: Any) -> Any:
    """The state after a move to these weights.

    Args:
        server: before it.
        weights: the new ones.
        told: what the participants were told.
        end: where they would have moved the server, had all clients been asked and answered like them.
        momentum: β.
        most: stretch that the rule's way asks for.
        averaging: 1 where the model is the mean of all rounds, 0 where it is the last one.
    """
    xp = array_namespace(weights)
    pull = (told.weights - end) / told.stretch
    gone = told.weights - server[SENT, ...]
    square = xp.sum(gone * gone)
    still = square == 0  # as before the first move: nothing is seen
    secant = xp.sum((pull - server[PULL, ...]) * gone) / xp.where(still, xp.ones_like(square), square)
    curvature = xp.maximum(secant, server[CURVATURE, 0, 0])  # the largest seen so far
    limit = SAFE * 2 * (1 + momentum) / (1 + 2 * momentum)
    longest = limit / xp.maximum(curvature, limit / (GROWTH * told.stretch))
    stretch = xp.where(still, told.stretch, xp.maximum(xp.minimum(longest, most), 1.0))
    fill, whole = 0 * weights, server[SHARE, ...]
    share = 1 - averaging * (1 - whole)
    mean = share * weights + (1 - share) * server[MEAN, ...]
    after = whole / (1 + whole / (POWER + 1))  # (p + 1) / (t + p) of the next round
    before = server[WEIGHTS, ...]
    return xp.stack([weights, before, fill + stretch, fill + curvature, told.weights, pull, mean, after])
