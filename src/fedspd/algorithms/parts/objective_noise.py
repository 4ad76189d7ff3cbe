r"""Noise in the objective: a client's sub-problem, minimized under a random linear term (Chaudhuri et al. 2011).

    x̃ = argmin F_i(x) + μ/2 ‖x‖² - ⟨p, x⟩ + ⟨b, x⟩,    b random

Released: x̃, with a small Gaussian for what it may be off by as computed. From x̃ itself
$b = p - \nabla F_i(\tilde x) - \mu\tilde x$, so two shards that differ in one record release the same x̃ under noises
that differ by $2G/m$ at most, and densities differ by that of the noise times a ratio of determinants. Losses of one
margin are convex, so each record adds a matrix of rank one that is positive and at most $L/m$ to the second derivative,
and that ratio is between $(1+a)^{-1}$ and $1+a$, $a = L/(m\mu')$, $\mu'$ the curvature without the records
(`docs/proofs/minimizers.md`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, log
from typing import Any

from fedspd.algorithms.parts.exactness import HALF, bounded_pull, influence, require_room, require_solvable
from fedspd.privacy.sensitivity import RECORD_MOVES
from fedspd.problem import LEFT, Objective, SquaredL2, check_exact, minimize
from fedspd.typing import Argmin, Array, Batches, array_namespace

TWO_RECORDS = 2
"""Gradients of one-margin losses have the direction of their record's row, so a replacement stays in a plane."""


def perturbed_minimum(
    objective: Objective, row_norm: float, start: Array, curvature: Any, pull: Array, batches: Batches, least: Any
) -> Argmin:
    """The sub-problem of stacked clients on their whole shards, for noise on its linear term.

    Args:
        objective: the client's loss and regularizer.
        row_norm: every feature row is at most this long.
        start: where the search begins.
        curvature: μ.
        pull: p.
        batches: one step, the whole shard.
        least: of all such curvatures of the run. Minimizers are as good as it takes at that one: more cannot be asked
            for where a penalty grows, since weights keep their roundings.
    """
    records = batches.features[:, 0, ...], batches.labels[:, 0, ...], batches.divisors
    xp, held = array_namespace(pull), curvature + strength(objective) + 0 * pull[:, :1, :1]
    loosest = xp.minimum(held, least + strength(objective) + 0 * held)
    ease = held / loosest
    goal = influence(objective, row_norm, batches.divisors) * ease[:, 0, 0]
    pull = bounded_pull(objective, row_norm, curvature, pull, batches, HALF, ease)  # the other half is for the noise

    def under(noise: Array) -> Array:
        return minimize(objective, start, curvature, pull - noise, *records, goal).weights

    def slope(weights: Array) -> Array:
        own = objective.gradient(weights, *records).mean + objective.regularizer.subgradient(weights)
        return own + curvature * weights - pull

    return Argmin(under, slope, LEFT / loosest, objective.gradient(start, *records).clipped)


def determinant_loss(objective: Objective, row_norm: float, batch_size: float, curvature: float) -> float:
    r"""$\ln(1 + L/(m\mu'))$: what noise in the objective costs beside the size of the noise, at most.

    Args:
        objective: its loss and its regularizer, whose strength is part of $\mu'$.
        row_norm: every feature row is at most this long.
        batch_size: $m$, the least that a client divides its sum by.
        curvature: $\mu$, the least of all rounds and clients.

    Guarantees:
        An upper bound of the log of the ratio of determinants for replace-one neighbors, at any weights.
    """
    return log(1 + objective.smoothness(row_norm) / (batch_size * (curvature + strength(objective))))


def strength(objective: Objective) -> float:
    """The strong convexity that the regularizer gives."""
    return objective.regularizer.strength if isinstance(objective.regularizer, SquaredL2) else 0.0


@dataclass(frozen=True)
class ObjectiveNoise:
    """What a method may claim whose noise is in its objective, from public numbers."""

    objective: Objective
    row_norm: float  # every feature row is at most this long
    curvature: float  # of the sub-problems, the least over all clients and rounds, without the regularizer's

    @property
    def guarantee(self) -> str:
        """Without clipping or bounded slopes nothing is bounded."""
        return "proved" if self.objective.gradient_bound(self.row_norm) < inf else "none"

    def sensitivity(self, batch_sizes: Any) -> Any:
        """How far apart the noises are under which neighboring shards release the same."""
        return RECORD_MOVES["replace-one"] * self.objective.gradient_bound(self.row_norm) / batch_sizes

    def jacobian(self, batch_sizes: Any) -> float:
        """What a release costs beside the size of its noise, at most."""
        return determinant_loss(self.objective, self.row_norm, float(min(batch_sizes)), self.curvature)

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse minimizers that float64 cannot find."""
        curvature = self.curvature + strength(self.objective)
        require_solvable(self.objective, self.row_norm, curvature, records, divisors, columns)

    def check_noise(self, longest: float, records: int, divisors: Any, columns: int) -> None:
        """Refuse noise that needs more than half of the room for pulls."""
        curvature = self.curvature + strength(self.objective)
        require_room(self.objective, self.row_norm, curvature, records, divisors, columns, longest)


class NoisedMinimizer(ABC):
    """What methods have in common that release minimizers under noise in the objective."""

    objective: Objective
    relation = "replace-one"
    exact = True
    releases = 1
    local_steps = 1
    law = "objective"
    directions = TWO_RECORDS

    def __post_init__(self) -> None:
        """Check that sub-problems are solved exactly."""
        check_exact(self.objective)

    @property
    @abstractmethod
    def noise(self) -> ObjectiveNoise:
        """What the noise in the objective may claim."""

    @property
    def guarantee(self) -> str:
        """That of the noise."""
        return self.noise.guarantee

    def sensitivity(self, round: Any, batch_sizes: Any) -> Any:
        """That of noise in the objective."""
        return self.noise.sensitivity(batch_sizes)

    def jacobian(self, batch_sizes: Any) -> float:
        """What a release costs beside the size of its noise."""
        return self.noise.jacobian(batch_sizes)

    def check_solvable(self, records: int, divisors: Any, columns: int) -> None:
        """Refuse minimizers that float64 cannot find."""
        self.noise.check_solvable(records, divisors, columns)

    def check_noise(self, longest: float, records: int, divisors: Any, columns: int) -> None:
        """Refuse noise under which float64 cannot find them."""
        self.noise.check_noise(longest, records, divisors, columns)
