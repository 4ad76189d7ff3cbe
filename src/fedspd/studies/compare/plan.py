"""The leaderboard: all methods at equal end-to-end privacy, on the same data, with the same uploads.

Every private method has the proved calibration: replace-one neighbors, one accountant, scaling charged. Methods as
published stand beside them with the epsilon they claim, marked as such.
Every record counts the same in the objective, so that a client with few records is not drowned in
its own noise; this is the usual weighting of federated averaging.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fedspd.algorithms import METHODS, label
from fedspd.config import Config, load
from fedspd.errors import InputError
from fedspd.studies.lineup import (
    BY_RULE,
    CLAIMED,
    CLAIMED_DATA,
    EVERYBODY,
    OPEN,
    OPEN_DATA,
    Settings,
    first_try,
    fits,
    name_of,
)
from fedspd.studies.tuning import TRIALS

BUDGETS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
DEALS: dict[str, Settings] = {
    "iid": {"partition.kind": "iid"},
    "dirichlet": {"partition.kind": "dirichlet", "partition.alpha": 0.1, "partition.at_least": 5},
    "occupation": {"partition.kind": "by-column", "partition.column": "occupation"},
    "own": {"partition.kind": "own"},
}
SHARES = {"full": 5, "20%": 25}  # how many take part, and rounds so that each does as often


@dataclass(frozen=True)
class Ground:
    """The records on which methods are compared."""

    settings: tuple[tuple[str, Any], ...] = ()  # of the data, by "section.key"
    clients: int = 100
    deals: tuple[str, ...] = ("iid", "dirichlet", "occupation")
    patience: int = 1  # rounds are so many times more

    def participation(self, share: str) -> Settings:
        """Everybody in a few rounds, or a fifth of the clients in five times as many."""
        participants = self.clients if share == "full" else max(1, self.clients // 5)
        return {"run.participants": participants, "run.rounds": self.patience * SHARES[share]}


ADULT = Ground()


@dataclass(frozen=True)
class Cell:
    """One method in one situation."""

    deal: str
    participation: str
    epsilon: float  # inf: without privacy
    method: str

    @property
    def label(self) -> str:
        """What tables and figures call the method."""
        return label(name_of(self.method), self.method)


def cells(
    budgets: Sequence[float] = BUDGETS,
    deals: Sequence[str] | None = None,
    shares: Sequence[str] = tuple(SHARES),
    methods: Sequence[str] | None = None,
    ground: Ground = ADULT,
) -> list[Cell]:
    """The methods of these names, or all, in all situations that are for them."""
    methods = tuple(METHODS) if methods is None else methods
    deals = ground.deals if deals is None else deals
    _check(deals, ground.deals, "the deal")
    _check(shares, SHARES, "the participation")
    _check(methods, METHODS, "the method")
    entered = [title for title in EVERYBODY if name_of(title) in methods]
    return [
        cell for cell in _cells(budgets, deals, shares, entered) if fits(cell.method, cell.deal, cell.participation)
    ]


def _cells(
    budgets: Sequence[float], deals: Sequence[str], shares: Sequence[str], entered: Sequence[str]
) -> Iterator[Cell]:
    for deal in deals:
        for share in shares:
            for method in entered:
                for epsilon in (inf,) if method in OPEN else budgets:
                    yield Cell(deal, share, epsilon, method)


def configuration(cell: Cell, ground: Ground = ADULT) -> Config:
    """The preset with what the data, the situation and the method change."""
    common = {
        "problem.counts": "records",
        "metrics.criterion": False,
        "metrics.objective_every": 10**6,
    }
    common |= dict(ground.settings) | DEALS[cell.deal] | ground.participation(cell.participation)
    common |= first_try(name_of(cell.method)) | EVERYBODY[cell.method]
    # all methods have the same features, also those without a plan to choose them by
    usual: Settings = {"metrics.spent_every_round": False, "privacy.delta": DELTA, "data.encode": "declared"}
    if cell.method in OPEN:
        return load("proved", common | {"data.row_norm": None}, usual | OPEN_DATA)
    common["privacy.epsilon"] = cell.epsilon
    if cell.method in CLAIMED:
        return load("proved", common | {"data.row_norm": None}, usual | CLAIMED_DATA)
    return load("proved", common, where_read=usual)


def count_runs(chosen: Sequence[Cell], seeds: int) -> int:
    """How many runs a comparison takes, trials included."""
    return sum(seeds + (0 if cell.method in BY_RULE else TRIALS) for cell in chosen)


def _check(chosen: Sequence[str], known: Collection[str], what: str) -> None:
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise InputError(f"{what} must be one of {', '.join(known)}, got {unknown[0]!r}; name one of those.")
