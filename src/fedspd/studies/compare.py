"""The leaderboard: all methods at equal end-to-end privacy, on the same data, with the same uploads.

Every private method has the proved calibration: replace-one neighbors, one accountant, scaling charged. Methods as
published stand beside them with the epsilon they claim, marked as such.
Every record counts the same in the objective, so that a client with few records is not drowned in
its own noise; this is the usual weighting of federated averaging.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from fedspd.algorithms import METHODS, label
from fedspd.config import Config, changed, load
from fedspd.data import prepare
from fedspd.errors import InputError
from fedspd.problem import L1, Softmax, reference_optimum
from fedspd.studies.jobs import Result, run_all
from fedspd.studies.lineup import (
    BY_RULE,
    CLAIMED,
    CLAIMED_DATA,
    EVERYBODY,
    OPEN,
    OPEN_DATA,
    OURS,
    PRIVATE,
    Settings,
    first_try,
    fits,
    name_of,
)
from fedspd.studies.tuning import TRIALS, tune

BUDGETS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
DEALS: dict[str, Settings] = {
    "iid": {"partition.kind": "iid"},
    "dirichlet": {"partition.kind": "dirichlet", "partition.alpha": 0.1, "partition.at_least": 5},
    "occupation": {"partition.kind": "by-column", "partition.column": "occupation"},
}
PARTICIPATION: dict[str, Settings] = {
    "full": {"run.participants": 100, "run.rounds": 5},
    "20%": {"run.participants": 20, "run.rounds": 25},
}


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


@dataclass(frozen=True)
class Entry:
    """What a method reached there."""

    cell: Cell
    config: Config
    chosen: Mapping[str, Any]
    results: tuple[Result, ...]

    def values(self, key: str) -> np.ndarray:
        """A number of the summaries, one per seed; what diverged is nan."""
        return np.array([np.nan if result.summary[key] is None else result.summary[key] for result in self.results])

    @property
    def accuracy(self) -> np.ndarray:
        """Percent, one per seed."""
        return 100 * self.values("test_accuracy")


def cells(
    budgets: Sequence[float] = BUDGETS,
    deals: Sequence[str] = tuple(DEALS),
    shares: Sequence[str] = tuple(PARTICIPATION),
    methods: Sequence[str] = tuple(METHODS),
) -> list[Cell]:
    """The methods of these names in all situations that are for them."""
    _check(deals, DEALS, "the deal")
    _check(shares, PARTICIPATION, "the participation")
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


def configuration(cell: Cell) -> Config:
    """The preset with what the situation and the method change."""
    common = {"problem.counts": "records", "metrics.criterion": False, "metrics.objective_every": 10**6}
    common |= DEALS[cell.deal] | PARTICIPATION[cell.participation]
    common |= first_try(name_of(cell.method)) | EVERYBODY[cell.method]
    usual: Settings = {"metrics.spent_every_round": False, "privacy.delta": DELTA}
    if cell.method in OPEN:
        return load("proved", common | OPEN_DATA, ["data.row_norm"], usual)
    common["privacy.epsilon"] = cell.epsilon
    if cell.method in CLAIMED:
        return load("proved", CLAIMED_DATA | common, ["data.row_norm"], usual)
    return load("proved", common, where_read=usual)


def count_runs(chosen: Sequence[Cell], seeds: int) -> int:
    """How many runs a comparison takes, trials included."""
    return sum(seeds + (0 if cell.method in BY_RULE else TRIALS) for cell in chosen)


def compare(chosen: Sequence[Cell], seeds: int, on_run: Callable[[], Any] = lambda: None) -> list[Entry]:
    """Tune every method in every situation by the same protocol, then run it with every seed."""
    configs = [configuration(cell) for cell in chosen]
    tuned = [config for cell, config in zip(chosen, configs, strict=True) if cell.method not in BY_RULE]
    found = iter(tune(tuned, on_run, board=True))
    points = [{} if cell.method in BY_RULE else next(found) for cell in chosen]
    final = [changed(config, point) for config, point in zip(configs, points, strict=True)]
    results = run_all([changed(config, {"run.seed": seed}) for config in final for seed in range(seeds)], on_run)
    return [
        Entry(cell, final[i], points[i], tuple(results[i * seeds : (i + 1) * seeds])) for i, cell in enumerate(chosen)
    ]


@dataclass(frozen=True)
class Behind:
    """A situation in which our method is behind another."""

    cell: Cell  # the other's
    difference: float  # of mean accuracies, in points
    error: float  # of the paired difference, over seeds

    @property
    def more_than_one_error(self) -> bool | None:
        """Whether it is more than chance would often do; None with one seed."""
        return None if np.isnan(self.error) else self.difference > self.error


def behind(entries: Sequence[Entry]) -> list[Behind]:
    """Every private rival with a higher mean accuracy than ours in its situation."""
    ours = {(e.cell.deal, e.cell.participation, e.cell.epsilon): e for e in entries if e.cell.method == OURS}
    found = []
    for entry in entries:
        own = ours.get((entry.cell.deal, entry.cell.participation, entry.cell.epsilon))
        if own is None or entry is own or entry.cell.method not in PRIVATE:
            continue
        gaps = np.nan_to_num(entry.accuracy) - np.nan_to_num(own.accuracy)  # what diverged has reached nothing
        if gaps.mean() > 0:
            error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else np.nan
            found.append(Behind(entry.cell, float(gaps.mean()), error))
    return found


def central() -> tuple[float, float]:
    """Test accuracy in percent and log-loss of l1 logistic regression on all records together, without privacy."""
    train, test = prepare("adult", log_capital=True, scaling="z-score", bias=1.0)
    config = load("proved")
    clients, strength = config.partition.clients, config.problem.strength
    weights = np.full(len(train), clients / len(train))
    loss = Softmax(2)
    best = reference_optimum(loss, L1(strength), train.features, train.labels, weights)
    scores = test.features @ best
    return 100 * float(np.mean(loss.predict(scores) == test.labels)), float(np.mean(loss.values(scores, test.labels)))


def _check(chosen: Sequence[str], known: Mapping[str, Any], what: str) -> None:
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise InputError(f"{what} must be one of {', '.join(known)}, got {unknown[0]!r}; name one of those.")
