"""Measurements of a model on private records, as a run's folder keeps them: charged once each, read again for free."""

from dataclasses import asdict, dataclass
from pathlib import Path

from fedspd.errors import InputError
from fedspd.results.files import own_file, to_json, write_whole
from fedspd.results.summary import Number
from fedspd.results.typed_json import made, read_json

EVALUATION, HELD_OUT = "evaluation.json", "held-out.json"
VERSION = 1


@dataclass(frozen=True)
class Measure:
    """A number with its 95 % interval, which holds the sampling of records and the privacy noise."""

    name: str
    value: Number  # None: too little is known
    low: float
    high: float
    group: str | None = None  # level of the subgroup column; None: all records
    at: Number = None  # where on the axis of a curve


@dataclass(frozen=True)
class Evaluation:
    """One release of noised counts, what it cost, and what it says."""

    number: int  # 1 is the first measurement of the run, and so on
    model: str  # "last" round, or "average" of the last rounds
    kind: str  # what was counted: "scores" of two classes, "classes", or "residuals"
    records: int  # that were held out and counted
    clients: int  # that released counts, or cohorts where sums are secure
    classes: tuple[str, ...]
    edges: tuple[float, ...]  # of the bins
    subgroup: str | None  # the column
    least_size: int  # of a subgroup that is shown
    unit: str
    relation: str
    sensitivity: float
    noise_multiplier: float  # the largest over the clients
    noise: float  # standard deviation on each count of all clients together
    epsilon: float  # of this release alone
    delta: float
    charged: bool  # whether a ledger was charged
    counts: tuple[tuple[float, ...], ...]  # as released, all clients together: for each table, a number for each cell
    shapes: tuple[tuple[int, ...], ...]  # of the tables
    measures: tuple[Measure, ...]

    def of(self, name: str, group: str | None = None) -> Measure:
        """The measure of this name."""
        return next(one for one in self.measures if one.name == name and one.group == group)

    def curve(self, name: str) -> tuple[Measure, ...]:
        """The measures of this name along an axis."""
        return tuple(one for one in self.measures if one.name == name and one.at is not None)


@dataclass(frozen=True)
class _Content:
    """What the file holds."""

    version: int
    evaluations: tuple[Evaluation, ...]


def write_evaluations(folder: Path, evaluations: tuple[Evaluation, ...]) -> None:
    """Put all measurements of a run into its folder, whole and durable."""
    content = {"version": VERSION, "evaluations": [asdict(one) for one in evaluations]}
    write_whole(folder / EVALUATION, (to_json(content) + "\n").encode(), durable=True)


def read_evaluations(folder: Path) -> tuple[Evaluation, ...]:
    """All measurements of a run, none where it was never measured."""
    path = own_file(folder, EVALUATION)
    if not path.exists():
        return ()
    try:
        content: _Content = made(_Content, read_json(path))
        if content.version != VERSION:
            raise ValueError(f"version {content.version}")
        for one in content.evaluations:
            _require_whole(one)
        return content.evaluations
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} must be as this version of fedspd evaluate writes it, got something else ({error}); put it back."
        ) from error


def _require_whole(found: Evaluation) -> None:
    """Refuse a measurement whose parts do not belong together."""
    rates = {len(found.curve(name)) for name in ("true positive rate", "false positive rate")}
    if (found.kind == "scores" and len(found.classes) < 2) or len(rates) > 1:
        raise ValueError("a measurement whose parts do not belong together")
