"""Where rounds stand, kept now and then, so that a run that was cut off goes on after the last round that was kept.

A round draws from streams of its own, so the rounds that follow are those of a run that nobody cut off, to the bit. Who
took part, and what was paid, follows from public numbers and from the ledger: it is not kept but decided again.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedspd.engine.measuring.diagnostics import Lagrangian
from fedspd.errors import InputError
from fedspd.results import Checkpoints

EVERY = 60.0  # seconds
SHARE = 20  # at most this part of the time goes into keeping


@dataclass
class Standing:
    """All that the next round of a run depends on, and what the rounds before it left behind."""

    server: Any
    clients: Any
    replies: Any
    lagrangian: Lagrangian | None
    models: list[np.ndarray] = field(default_factory=list)
    rows: list[tuple[float, float, float]] = field(default_factory=list)

    def arrays(self) -> dict[str, np.ndarray]:
        """As named arrays."""
        named = {f"{part}.{place}": leaf for part in TABLES for place, leaf in enumerate(leaves(getattr(self, part)))}
        named |= {"models": np.array(self.models), "rows": np.array(self.rows)}
        return named | ({} if self.lagrangian is None else self.lagrangian.arrays())

    def restore(self, kept: Mapping[str, np.ndarray]) -> None:
        """Take up what `arrays` gave; the shape of every table is known already."""
        for part in TABLES:
            table = getattr(self, part)
            setattr(self, part, filled(table, iter([kept[f"{part}.{place}"] for place, _ in enumerate(leaves(table))])))
        self.models = list(kept["models"])
        self.rows = [(step, scale, clipped) for step, scale, clipped in kept["rows"].tolist()]
        if self.lagrangian is not None:
            self.lagrangian.restore(kept)


TABLES = ("server", "clients", "replies")


@dataclass
class Keeper:
    """Keeps where a run stands, so many seconds apart."""

    checkpoints: Checkpoints
    every: float = EVERY
    seconds: float = 0.0  # that earlier processes have spent on the rounds

    def __post_init__(self) -> None:
        self.began = self.due = time.monotonic()
        self._put_off(self.every)

    def take_up(self, standing: Standing, by: str) -> int:
        """Put a run where it stood last; how many rounds it had made.

        Args:
            standing: of the run, before its first round.
            by: what plays its rounds.
        """
        kept = self.read(by)
        if kept is None:
            return 0
        standing.restore(kept)
        return len(standing.models)

    def read(self, by: str) -> dict[str, np.ndarray] | None:
        """What was kept last, if anything was; the clock starts.

        Raises:
            InputError: other means than those that go on have made it, whose rounding is not the same.
        """
        self.began = time.monotonic()
        self._put_off(self.every)
        kept = self.checkpoints.read()
        if kept is None:
            return None
        if (before := str(kept["played_by"])) != by:
            raise InputError(
                f"expected {before}, which the run was begun on, to play its rounds, got {by}, which rounds "
                "differently; go on where it was begun, or begin a new run."
            )
        self.seconds = float(kept["seconds"])
        return kept

    def after_round(self, standing: Standing, by: str) -> None:
        """Keep where a run stands, where it is time to."""
        if self.is_due():
            self.keep(standing, by)

    def is_due(self) -> bool:
        """Whether it is time to keep."""
        return time.monotonic() >= self.due

    def keep(self, standing: Standing, by: str) -> None:
        """Keep where a run stands."""
        begin = time.monotonic()
        facts = {"seconds": np.array(self.seconds + begin - self.began), "played_by": np.array(by)}
        self.checkpoints.write({**facts, **standing.arrays()})
        self._put_off(max(self.every, SHARE * (time.monotonic() - begin) if self.every else 0.0))

    def _put_off(self, seconds: float) -> None:
        self.due = time.monotonic() + seconds


def leaves(tree: Any) -> list[np.ndarray]:
    """The arrays of nested tuples, and plain numbers as arrays, in order."""
    if isinstance(tree, tuple):
        return [leaf for field in tree for leaf in leaves(field)]
    return [] if tree is None else [np.asarray(tree)]


def filled(tree: Any, found: Iterator[np.ndarray]) -> Any:
    """Nested tuples of the same form with other arrays in them."""
    if isinstance(tree, tuple):
        fields = [filled(field, found) for field in tree]
        return type(tree)(*fields) if hasattr(tree, "_fields") else tuple(fields)
    if tree is None:
        return None
    leaf = next(found)
    return type(tree)(leaf) if isinstance(tree, bool | int | float | np.generic) else leaf
