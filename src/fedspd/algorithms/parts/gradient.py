"""The query of methods whose round is one gradient at the server's weights, and how far a record moves it."""

from typing import Any

from fedspd.algorithms.base import Told
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import Objective
from fedspd.typing import Array, Batches, Query, array_namespace


def mean_gradient(objective: Objective, told: Told, like: Array, batches: Batches) -> Query:
    """The mean of clipped record gradients, for stacked clients whose weights are shaped like these."""
    weights = array_namespace(told.weights).zeros_like(like) + told.weights
    gradient = objective.gradient(weights, *batches.step(0))
    return Query(gradient.mean, gradient.clipped)


def gradient_sensitivity(objective: Objective, relation: str, batch_sizes: Any) -> Any:
    """Of a mean of gradients of norm at most G, the objective's `clip_norm`."""
    return RECORD_MOVES[relation] * objective.clip_norm / batch_sizes
