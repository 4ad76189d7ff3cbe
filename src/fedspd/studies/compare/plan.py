"""The leaderboard: all methods at equal end-to-end privacy, on the same data, with the same uploads.

Every private method has the proved calibration: replace-one neighbors, one accountant, scaling charged. Methods as
published stand beside them with the epsilon they claim, marked as such.
Every record counts the same in the objective, so that a client with few records is not drowned in
its own noise; this is the usual weighting of federated averaging.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from fedspd.algorithms import METHODS, label
from fedspd.assemble.agreement.planning import plan_of
from fedspd.config import Config, load
from fedspd.data import SOURCES
from fedspd.errors import InputError
from fedspd.reading import meant
from fedspd.studies.lineup import (
    CLAIMED,
    CLAIMED_DATA,
    EVERYBODY,
    OPEN,
    OPEN_DATA,
    TRUSTED_SERVER,
    UNTUNED,
    Settings,
    first_try,
    fits,
    name_of,
)
from fedspd.studies.tuning import TRIALS

BUDGETS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
UNMEASURED: Settings = {"metrics.criterion": False, "metrics.lagrangian": False, "metrics.objective_every": 0}
"""Nobody asks for these, and each reads all records once more."""
DEALS: dict[str, Settings] = {
    "iid": {"partition.kind": "iid"},
    "dirichlet": {"partition.kind": "dirichlet", "partition.alpha": 0.1, "partition.at_least": 5},
    "occupation": {"partition.kind": "by-column", "partition.column": "occupation"},
    "own": {"partition.kind": "own"},
}
SHARES = ("full", "20%")
UPLOADS = 5  # of every client


@dataclass(frozen=True)
class Ground:
    """The records on which methods are compared, and what is the same for all of them there."""

    name: str = "adult"  # what tables call it
    settings: tuple[tuple[str, Any], ...] = ()  # of the data, by "section.key"
    clients: int = 100
    deals: tuple[str, ...] = ("iid", "dirichlet", "occupation")
    uploads: int = UPLOADS
    delta: float = DELTA

    @property
    def is_papers(self) -> bool:
        """Whether these are the records that the paper looks at: elsewhere nobody has claimed anything."""
        return dict(self.settings).get("data.name", "adult") == "adult"

    def participation(self, share: str) -> Settings:
        """Everybody in a few rounds, or a fifth of the clients in so many more that each takes part as often."""
        participants = self.clients if share == "full" else max(1, self.clients // 5)
        return {"run.participants": participants, "run.rounds": -(-self.uploads * self.clients // participants)}


ADULT = Ground()
DATA = ("adult", "credit", "letters")
"""What methods are compared on unless somebody names something else: persons, amounts, many classes."""


@dataclass(frozen=True)
class Cell:
    """One method in one situation."""

    deal: str
    participation: str
    epsilon: float  # inf: without privacy
    method: str
    ground: Ground = ADULT

    @property
    def label(self) -> str:
        """What tables and figures call the method."""
        return label(name_of(self.method), self.method)

    @property
    def place(self) -> tuple[Ground, str, str]:
        """Where it is, whatever the budget."""
        return self.ground, self.deal, self.participation

    @property
    def situation(self) -> tuple[Ground, str, str, float]:
        """What it shares with those it is held against."""
        return *self.place, self.epsilon


class Refused(NamedTuple):
    """A method that is not for some records, and why."""

    ground: Ground
    method: str
    why: str
    situation: str = ""  # deal, participation and epsilon; empty: all of them


def cells(
    budgets: Sequence[float] = BUDGETS,
    deals: Sequence[str] | None = None,
    shares: Sequence[str] = SHARES,
    methods: Sequence[str] | None = None,
    grounds: Sequence[Ground] = (ADULT,),
) -> list[Cell]:
    """The methods of these names, or all, in all situations that are for them."""
    methods = tuple(METHODS) if methods is None else methods
    known = tuple(dict.fromkeys(deal for ground in grounds for deal in ground.deals))
    _check(known if deals is None else deals, known, "the deal")
    _check(shares, SHARES, "the participation")
    _check(methods, METHODS, "the method")
    entered = [title for title in EVERYBODY if name_of(title) in methods]
    return [
        Cell(deal, share, epsilon, method, ground)
        for ground in grounds
        for deal in ground.deals
        if deals is None or deal in deals
        for share in shares
        for method in entered
        if fits(method, deal, share) and (ground.is_papers or method not in CLAIMED)
        for epsilon in ((inf,) if method in OPEN else budgets)
    ]


def only_possible(chosen: Sequence[Cell]) -> tuple[list[Cell], list[Refused]]:
    """Those whose method can be planned for their records, and why others cannot: some are for two classes only.

    Where no private method can that was asked for, it is not the records: what was asked for is wrong.
    """
    first = {(cell.ground, cell.method): cell for cell in reversed(chosen)}
    why = {key: _refusal(configuration(cell)) for key, cell in first.items()}
    possible = [cell for cell in chosen if why[cell.ground, cell.method] is None]
    refused = [Refused(*key, reason) for key, reason in reversed(why.items()) if reason is not None]
    if refused and all(cell.method in OPEN for cell in possible):
        raise InputError(refused[0].why)
    return possible, refused


def _refusal(config: Config) -> str | None:
    try:
        plan_of(config, SOURCES[config.data.name].read(config.data.source))
    except InputError as error:
        return str(error)
    return None


def configuration(cell: Cell) -> Config:
    """The preset with what the data, the situation and the method change."""
    ground = cell.ground
    common = {"problem.counts": "records", **UNMEASURED}
    common |= dict(ground.settings) | DEALS[cell.deal] | ground.participation(cell.participation)
    common |= first_try(name_of(cell.method)) | EVERYBODY[cell.method]
    common |= {"privacy.threshold": ground.clients} if cell.method == TRUSTED_SERVER else {}
    # all methods have the same features, also those without a plan to choose them by
    usual: Settings = {"metrics.spent_every_round": False, "privacy.delta": ground.delta, "data.encode": "declared"}
    if cell.method in OPEN:
        return load("proved", common | {"data.row_norm": None}, usual | OPEN_DATA)
    common["privacy.epsilon"] = cell.epsilon
    if cell.method in CLAIMED:
        return load("proved", common | {"data.row_norm": None}, usual | CLAIMED_DATA)
    return load("proved", common, where_read=usual)


def count_runs(chosen: Sequence[Cell], seeds: int) -> int:
    """How many runs a comparison takes, trials included."""
    return sum(seeds + (0 if cell.method in UNTUNED else TRIALS) for cell in chosen)


def _check(chosen: Sequence[str], known: Collection[str], what: str) -> None:
    unknown = [name for name in chosen if name not in known]
    if unknown:
        end = meant(unknown[0], known, "; name one of those.")
        raise InputError(f"{what} must be one of {', '.join(known)}, got {unknown[0]!r}{end}")
