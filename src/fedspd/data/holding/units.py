"""What is protected, where that is more than one row: persons, or whole clients, each with rows that stand together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedspd.errors import InputError
from fedspd.typing import Unit

MOST_ROWS = 1000
"""That a real site keeps of a person: bounds on rounding count on it, since the true number is private."""
MOST_ROWS_OF_CLIENT = 10**7
"""The same of a whole client."""
NOBODY = -1
"""Stands where a batch is shorter than the longest one in its stack."""


def most_rows(unit: Unit) -> int:
    """That a real site keeps of what it protects."""
    return {"record": 1, "person": MOST_ROWS, "client": MOST_ROWS_OF_CLIENT}[unit]


@dataclass(frozen=True, eq=False)
class Units:
    """Persons in a flat table: person k has rows `starts[k]` to `starts[k+1]`, client i persons `offsets[i]` on.

    Where a whole client is the unit, it stands in a person's place.
    """

    kind: Unit
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, owner: NDArray[np.integer], person: NDArray[np.integer], clients: int) -> Self:
        """Of rows that are sorted by client and, at each, by person; one at two clients counts as two."""
        new = np.flatnonzero((np.diff(owner, prepend=-1) != 0) | (np.diff(person, prepend=-1) != 0))
        sizes = np.bincount(owner[new], minlength=clients)
        return cls("person", np.append(new, len(owner)), np.concatenate([[0], np.cumsum(sizes)]))

    @classmethod
    def clients(cls, offsets: NDArray[np.int64]) -> Self:
        """Each client by itself, with all of its rows."""
        return cls("client", offsets, np.arange(len(offsets)))

    @classmethod
    def alone(cls, person: NDArray[np.integer]) -> Self:
        """Of one client's rows, sorted by person."""
        return cls.of(np.zeros_like(person), person, 1)

    def __post_init__(self) -> None:
        if (np.diff(self.starts) < 1).any() or self.offsets[-1] != len(self.starts) - 1:
            raise InputError("every person must have a row and a client, got some without; build shards with `assign`.")

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many each has."""
        return np.diff(self.starts)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """For each row of the table 1 / rows of its person."""
        return np.repeat(1.0 / self.rows, self.rows)

    def spread(self, clients: NDArray[np.integer], drawn: NDArray[np.integer]) -> NDArray[np.int64]:
        """The rows of those that were drawn, all of a person's in one batch.

        Args:
            clients: who drew.
            drawn: (clients, local steps, longest batch), numbers of persons at each client, or `NOBODY`.

        Returns:
            (clients, local steps, most rows of a batch), rows of the flat table, or `NOBODY`.
        """
        there = drawn != NOBODY
        person = np.where(there, self.offsets[clients][:, None, None] + drawn, 0)
        counts = np.where(there, self.rows[person], 0)
        totals = counts.sum(axis=-1).ravel()
        found = np.full((len(totals), max(1, int(totals.max(initial=0)))), NOBODY)
        each, first = counts.ravel(), self.starts[person].ravel()
        before = np.cumsum(each) - each
        rows = np.repeat(first - before, each) + np.arange(int(each.sum()))
        place = np.arange(len(rows)) - np.repeat(np.cumsum(totals) - totals, totals)
        found[np.repeat(np.arange(len(totals)), totals), place] = rows
        return found.reshape(*drawn.shape[:2], -1)

    def pooled(self, members: Sequence[NDArray[np.integer]]) -> "Units":
        """With the persons of several clients in one client's place, in their order."""
        offsets = self.offsets.tolist()
        ranges = [np.arange(offsets[i], offsets[i + 1]) for each in members for i in each.tolist()]
        starts = np.concatenate([[0], np.cumsum(self.rows[np.concatenate(ranges)])])
        sizes = [int(np.diff(self.offsets)[each].sum()) for each in members]
        return Units(self.kind, starts, np.concatenate([[0], np.cumsum(sizes)]))

    def most_rows(self, count: int) -> int:
        """That any `count` persons of one client have at most."""
        per_client = np.split(self.rows, self.offsets[1:-1])
        return max(int(np.sort(own)[-count:].sum()) for own in per_client)
