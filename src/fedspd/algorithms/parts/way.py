r"""How far a run should go, and in which steps, from public numbers.

A method that steps along gradients carries its model a *way* $S$: the sum of its steps, in units of a gradient. The
noise on the model grows with the way and not with the number of its steps ($\nu S$, since calibrated noise of T rounds
grows like $\sqrt T$ and adds up like $\sqrt T$ again in steps of $S/T$), so rounds are free in privacy. A longer way
leaves less of the optimum undone and more noise. Where the model is the mean of the weights after all rounds it is
twice as long: of the noise in directions in which the loss bends the mean keeps little.

A step is never longer than $1/L$, with $L$ the curvature that declared rows allow: a gradient step that long never
raises the loss, whatever the records are. Where the rounds are too few for that, the rest of the way is momentum.
"""

from dataclasses import dataclass
from functools import lru_cache

from fedspd.problem import Loss, Objective, is_regression

WAY = 4.0  # the way is WAY / noise^(2/3)
QUIET = 0.0025  # noise for each unit of way below which the way grows faster
FURTHER = 2.0  # by so much at most
SHARPEST = 0.15  # of a number or a count: noise on a score at most, unless steps damp it
MOST_MOMENTUM = (0.9, 0.8)  # with everybody in every round, and with some
CALM = 1e-3  # noise for each unit of way below which gradients are clipped less
AVERAGED = 2.0  # times the way, where the model is the mean of all rounds
LOUD = (0.0015, 0.008)  # noise for each unit of way beyond which classes, and numbers, are learned no better by that
WORTHWHILE = 0.75  # times the way that rounds must have room for, or the last model is better
LONGEST = 2.0  # of numbers on [-1, 1]: residuals are no longer, where the prediction is on it too


@dataclass(frozen=True)
class Pull:
    r"""How a constant gradient carries the model, round by round, in steps of length $\eta = 1$.

    A server that moves by the participants' gradients goes one step a round. One that averages the latest uploads of
    all goes $(1+p)$ steps a round in the end, and fewer at first: with dual share $a = \rho/(\gamma+\rho)$ an upload is
    $v - 2\eta g + (2 - 1/a)\eta\lambda$, and a dual goes a share $a$ of its way to the gradient.
    """

    participants: int  # of a round
    share: float  # p, of the clients, those that take part
    dual_share: float | None  # a; None: there are no duals

    @property
    def per_round(self) -> float:
        """Steps a round, in the end: p/a for a primal-dual method."""
        return 1.0 if self.dual_share is None else self.share / self.dual_share

    @property
    def most_momentum(self) -> float:
        """Less where few take part: who they are is chance, and momentum would make chance grow."""
        everybody, some = MOST_MOMENTUM
        return everybody if self.share == 1 else min(some, 1 - 2 / (self.participants + 4))

    def most_within(self, rounds: int) -> float:
        """Momentum takes some rounds to have its effect, so that fewer have less of it."""
        return min(self.most_momentum, 1 - 2 / (rounds + 2))

    def reached(self, rounds: int, momentum: float = 0.0) -> float:
        """Steps that the model has gone after so many rounds, on average over who takes part."""
        return _reached(self.share, self.dual_share, rounds, momentum)


@lru_cache(maxsize=4096)
def _reached(share: float, dual_share: float | None, rounds: int, momentum: float) -> float:
    place = before = dual = 0.0
    for _ in range(rounds):
        if dual_share is None:
            place, before = place + momentum * (place - before) + 1, place
            continue
        upload = place + momentum / share * (place - before) + 2 - (2 - 1 / dual_share) * dual
        place, before, dual = place + share * (upload - place), place, dual + share * dual_share * (1 - dual)
    return place


def path_length(objective: Objective, noise: float, row_norm: float) -> float:
    r"""$4\,\nu^{-2/3}/R^2$ with $\nu$ the noise on the model for each unit of way, times $(k/2)^{1/3}$ for k classes.

    Factor and exponent come from a validation split of Adult at three budgets; the optimum is flat, half or twice the
    way costs about a quarter of a percentage point. With k classes slopes and bends are $2/k$ of those of two. Where
    noise is small columns are cut finer, and each weight is pulled at by fewer records: up to twice the way pays there.
    Of a number the score is the prediction, and noise on it is not forgiven as it is where the larger score wins: the
    way is no longer than $0.15/\nu$ beyond what steps damp, or twice that where noise is small.
    """
    loss = objective.loss
    further = min(max(QUIET / noise, 1.0), FURTHER)
    way = further * WAY / noise ** (2 / 3) / row_norm**2
    if is_regression(loss):
        return min(way, further * SHARPEST / noise / row_norm)
    return way * (max(loss.outputs, 2) / 2) ** (1 / 3)


def lengthened(objective: Objective, noise: float) -> float:
    """How many times as long the way is where the model is the mean of all rounds; 1: it is better not to be.

    Where noise is large, all directions are soft for classes: the loss bends in none of them before the run is over, so
    the last model is further for the same noise. Of a number the noise of the prediction itself is measured.
    """
    return AVERAGED if noise <= LOUD[is_regression(objective.loss)] else 1.0


def clip_norm(loss: Loss, noise: float, row_norm: float) -> float:
    r"""What record gradients are clipped to: less noise where it is large, less bias where it is small.

    Half a row's length for classes and a quarter for numbers, which hardly bends what is learned; beyond, as noise
    falls below a thousandth, up to what no gradient is longer than.

    Args:
        loss: of a record.
        noise: on the model for each unit of way, were gradients clipped to 1.
        row_norm: every feature row is at most this long.
    """
    least = 0.25 if is_regression(loss) else 0.5
    grown = least * max(1.0, (CALM / noise) ** (1 / 3))
    return row_norm * min(grown, loss.slope_bound, LONGEST)


def longest_step(objective: Objective, row_norm: float, pull: Pull) -> float:
    r"""$\eta$ at which the model moves by $1/L$ gradients a round: no way to diverge."""
    return 1 / (objective.smoothness(row_norm) * max(pull.per_round, 1.0))


def momentum_for(steps: float, rounds: int, pull: Pull) -> float:
    """The least momentum that goes so many steps in so many rounds, up to a most."""
    if pull.reached(rounds) >= steps:
        return 0.0
    low, high = 0.0, pull.most_within(rounds)
    if pull.reached(rounds, high) <= steps:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if pull.reached(rounds, middle) < steps else (low, middle)
    return high
