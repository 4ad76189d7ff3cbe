r"""How a server moves: ahead of its weights by momentum, and in steps as long as releases show to be safe.

*Momentum*: $v = w + \frac{\beta}{p}(w - w_{before})$ is sent, where a share p of the clients takes part in a round: of
a server that averages the latest uploads of all, only that share hears of it.

*Stretch*: a step by public bounds holds on any records, and is far too short on most. What the participants make of v
pulls to some point; between two rounds the server sees how the pull changed along the way it went, a secant of the
curvature c in units of that step. A step m times as long is stable while
$mc < 2\frac{1+\beta}{1+2\beta}$ (gradient steps at weights sent ahead). So m grows, twofold a round at most, up to 0.8
of that for the largest c seen so far, and up to what the rule's way asks for; it is never below 1.

Whatever is sent is a function of releases, and so is m, so both cost no privacy; steps that add up to a bounded way
lead no further than that, whatever the curvature (`docs/proofs/public-choices.md`).

The state is one array, so that a checkpoint can keep it.
"""

from typing import Any

from fedspd.algorithms.base import Told
from fedspd.typing import Array, array_namespace

GROWTH = 2.0  # of the stretch in a round, at most
SAFE = 0.8  # of the longest stable step at the curvature that was seen

WEIGHTS, BEFORE, STRETCH, CURVATURE, SENT, PULL = range(6)


def resting(weights: Array, stretch: Any = 1.0) -> Any:
    """The state of a server that has not moved yet, and how long its first step is."""
    return array_namespace(weights).stack([weights, weights, 0 * weights + stretch, weights, weights, weights])


def sent(server: Array, inverse_step: Any, momentum: Any, share: Any = 1.0) -> Told:
    """What is sent: weights ahead of the server's, γ, and the stretch of the round."""
    ahead = server[WEIGHTS, ...] + momentum / share * (server[WEIGHTS, ...] - server[BEFORE, ...])
    return Told(ahead, inverse_step, server[STRETCH, 0, 0])


def moved(server: Array, weights: Array, told: Told, end: Array, momentum: Any, most: Any) -> Any:
    """The state after a move to these weights.

    Args:
        server: before it.
        weights: the new ones.
        told: what the participants were told.
        end: where they would have moved the server, had all clients been asked and answered like them.
        momentum: β.
        most: stretch that the rule's way asks for.
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
    fill = 0 * weights
    return xp.stack([weights, server[WEIGHTS, ...], fill + stretch, fill + curvature, told.weights, pull])
