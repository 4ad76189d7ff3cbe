"""The inverse step size γ as a function of the round."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Schedule(Protocol):
    """γ as a function of the round."""

    def inverse_step(self, round: Any) -> Any:
        """γ of a round, counted from 1."""
        ...


@dataclass(frozen=True)
class Constant:
    """The same γ in every round."""

    value: float

    def inverse_step(self, round: Any) -> float:
        """γ, whatever the round."""
        return self.value


@dataclass(frozen=True)
class SquareRoot:
    r"""$\gamma_t = \gamma\sqrt t$: the step size falls like $1/\sqrt t$."""

    first: float

    def inverse_step(self, round: Any) -> Any:
        """γ of the first round times the root of the round."""
        return self.first * round**0.5


@dataclass(frozen=True)
class Geometric:
    r"""$\gamma_t = \gamma q^{t-1}$."""

    first: float
    growth: float  # q

    def inverse_step(self, round: Any) -> Any:
        """γ of the first round times the growth of the rounds since."""
        return self.first * self.growth ** (round - 1)
