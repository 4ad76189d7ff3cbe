"""What claims rest on where clients share noise: how many may collude at most, and what holds if more do."""

from collections.abc import Iterable
from math import inf
from typing import Any, Protocol

from fedspd.report.numbers import at_most


class Stated(Protocol):
    """A summary, or a row of its numbers."""

    def __getitem__(self, name: str, /) -> Any:
        """A number by its name."""
        ...


def colluding(runs: Iterable[Stated]) -> str:
    """How many members of a cohort may collude, of how many, for every kind of cohort that is there."""
    known = dict.fromkeys((run["colluders"], run["members"], run["threshold"]) for run in runs)
    return " or ".join(f"{told} of the {n} (a sum holds {least} or more)" for told, n, least in known)


def largest_alone(runs: Iterable[Stated]) -> str:
    """The largest epsilon by a client's own noise alone, rounded up."""
    return at_most(max(run["epsilon_alone"] or inf for run in runs))
