"""Measure a finished model on the records that its run held out: charge, count, add noise, and only then look.

A measurement is one release. What it says may be read again for free; another question is another charge.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedspd import config as configuration
from fedspd.assemble.build import held_out_again
from fedspd.assemble.records.held_out import Apart
from fedspd.engine.release import Exact, release
from fedspd.errors import InputError
from fedspd.evaluate.counting import BINS, Counting, counting_for, places_of
from fedspd.evaluate.measures import Found, group_measures, measures
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger
from fedspd.problem import Softmax
from fedspd.results import SITES, alone, own_file
from fedspd.results.evaluation import HELD_OUT, Evaluation, Measure, read_evaluations, write_evaluations
from fedspd.results.run_folder import CONFIG, SUMMARY, read_summary
from fedspd.scoring.model import Model, load_model
from fedspd.statement import file_anew
from fedspd.typing import EVALUATION, Query

LEAST_SIZE = 100
KINDS = {0: "residuals", 2: "scores"}


@dataclass(frozen=True)
class Asked:
    """What is to be measured."""

    average: bool = False  # the mean of the last rounds' models, in place of the last one
    bins: int = BINS
    subgroup: str | None = None  # a declared column of levels
    least_size: int = LEAST_SIZE  # of a subgroup that is shown

    def __post_init__(self) -> None:
        if self.least_size < 1:
            raise InputError(f"the least size of a subgroup must be at least 1, got {self.least_size}; raise it.")
        if self.subgroup is None and self.least_size != LEAST_SIZE:
            raise InputError(f"a least size is of subgroups, got {self.least_size} and no subgroup; name its column.")

    def answer(self, known: Sequence[Evaluation], model: Callable[[], Model]) -> Evaluation | None:
        """The latest measurement of the same question, its subgroups by the least size that is asked for now.

        Who asks about no subgroup is answered by a measurement with one too: it says the same of all records.
        """
        alike = [one for one in reversed(known) if (one.model, len(one.edges) - 1) == (self.model, self.bins)]
        for one in alike:
            if one.subgroup == self.subgroup:
                return one if one.least_size == self.least_size else _regrouped(one, self.least_size, model())
        return alike[0] if alike and self.subgroup is None else None

    @property
    def model(self) -> str:
        """Which one, in a word."""
        return "average" if self.average else "last"


def evaluate_folder(folder: Path, asked: Asked, ledger: Path | None = None, again: bool = False) -> Evaluation:
    """The measurement of a run's model: the one that its folder has, or a new one, which is charged.

    Args:
        folder: of the run.
        asked: what is to be measured.
        ledger: that the run was charged to; None: the one in its folder.
        again: measure anew also where the folder has the answer.
    """
    answer = asked.answer(read_evaluations(folder), lambda: load_model(folder, asked.average))
    if answer is not None and not again:
        return answer
    model = load_model(folder, asked.average)
    require_simulated(folder)
    with alone(folder), Ledger(ledger or folder / "ledger.sqlite") as opened:
        known = read_evaluations(folder)  # somebody may have measured in between
        found = measure(open_held_out(folder, opened), model, asked, opened)
        write_evaluations(folder, (*known, found))
        file_anew(folder, opened)
    return found


def open_held_out(folder: Path, ledger: Ledger) -> Apart:
    """The records that a run held out, found again; refused where they are others now."""
    held = _held_out(folder)
    apart = held_out_again(configuration.load(own_file(folder, CONFIG)), ledger, held["run"])
    if apart.digest != held["digest"]:
        raise InputError(
            f"the records that {folder} held out must be there still, got others: the table was changed since, or "
            "the key beside the ledger is another one; put them back as they were."
        )
    return apart


def require_held_out(apart: Apart | None) -> Apart:
    """Refuse a run that held out nothing."""
    if apart is None:
        raise InputError(
            "a run is measured on records that it held out, got one that held out none; run it again with the setting "
            "evaluation.held_out, such as 0.2."
        )
    return apart


def evaluate_run(apart: Apart | None, model: Model, asked: Asked, again: bool = False) -> Evaluation:
    """The measurement of a model by the process that trained it: the one it made before, or a new one.

    Args:
        apart: what the run held out; None: nothing, which is refused.
        model: what is measured.
        asked: how.
        again: measure anew also where the answer is known; it takes a ledger, which is charged again.
    """
    apart = require_held_out(apart)
    answer = asked.answer(apart.made, lambda: model)
    if answer is not None and not again:
        return answer
    apart.require_unspent()
    with nullcontext() if apart.ledger is None else Ledger(apart.ledger) as opened:
        found = measure(apart, model, asked, opened)
    apart.made.append(found)
    return found


def measure(apart: Apart, model: Model, asked: Asked, ledger: Ledger | None) -> Evaluation:
    """Charge every client, then release its counts with noise, and say what all of them together mean.

    Args:
        apart: the records that were held out.
        model: what is measured.
        asked: how.
        ledger: what is charged; None: nothing is, in a simulation that keeps counts in memory.
    """
    counting = counting_for(model, asked.bins, asked.subgroup)  # refuses before anything is charged
    number = 1 if ledger is None else charge(apart, ledger)
    places = places_of(model, apart.table, counting, asked.subgroup)
    query = counting.query(places, apart.weights, apart.places, len(apart.names))
    scales = apart.plan.evaluation_scale(counting.sensitivity(apart.plan.relation))
    released = noised(query, scales)
    return concluded(apart.plan, counting, released, scales, asked, model, number, apart.units, ledger is not None)


def charge(apart: Apart, ledger: Ledger, mechanism: str = EVALUATION) -> int:
    """Charge every client one release, or none if one of them has no budget for it; its number."""
    number = 1 + sum(
        charged.times
        for charged in ledger.charges()
        if (charged.client, charged.run, charged.mechanism) == (apart.names[0][0], apart.run, mechanism)
    )
    apart.pay(ledger, apart.run, number, mechanism)
    return number


def noised(query: Query, scales: np.ndarray) -> np.ndarray:
    """The sum of the clients' counts, each with noise of its own."""
    parts = zip(np.asarray(query.value), scales.tolist(), strict=True)
    return sum(
        (np.asarray(release(Query(counts[None], np.zeros(1)), Exact(scale)).value)[0] for counts, scale in parts),
        np.zeros(query.value.shape[1]),
    )


def concluded(
    plan: Any, counting: Counting, released: np.ndarray, scales: np.ndarray, asked: Asked, model: Model, number: int,
    records: int, charged: bool,
) -> Evaluation:  # fmt: skip
    """What noised counts of all clients say."""
    variance = float(np.sum(scales**2))
    found = [
        _as_measure(one) for one in measures(counting, released, variance, records, isinstance(model.loss, Softmax))
    ]
    found += _of_groups(counting, released, variance, records, asked.least_size)
    events = {group.evaluation for group in plan.groups}
    return Evaluation(
        number=number,
        model=asked.model,
        kind=KINDS.get(len(counting.classes), "classes"),
        records=records,
        clients=len(scales),
        classes=counting.classes,
        edges=tuple(counting.edges.tolist()),
        subgroup=asked.subgroup,
        least_size=asked.least_size,
        unit=plan.unit,
        relation=plan.relation,
        sensitivity=counting.sensitivity(plan.relation),
        noise_multiplier=max(event.noise_multiplier for event in events),
        noise=float(np.sqrt(variance)),
        epsilon=max(spent([(event, 1)], plan.delta, plan.accountant).epsilon for event in events),
        delta=plan.delta,
        charged=charged,
        counts=tuple(tuple(table.ravel().tolist()) for table in counting.split(released)),
        shapes=counting.shapes,
        measures=tuple(found),
    )


def require_simulated(folder: Path) -> None:
    """Refuse to look for held-out records of a run between real sites, which have them and measure once."""
    if own_file(folder, SUMMARY).is_file() and read_summary(folder).engine == SITES:
        raise InputError(
            f"the records that {folder} held out are at its sites, which measure a model once, when its run ends, got "
            f"another question; {_answered(folder)}"
        )


def _answered(folder: Path) -> str:
    known = read_evaluations(folder)
    if not known:
        return "lead a new run with evaluation.held_out in federation.toml."
    one = known[-1]
    column = "" if one.subgroup is None else f" --subgroup {one.subgroup}"
    options = f"--bins {len(one.edges) - 1}{column}{' --average' * (one.model != 'last')}"
    return (
        f"read what they measured with `fedspd evaluate {folder} {options}`, or lead a new run with another [measure]."
    )


def _of_groups(
    counting: Counting, released: np.ndarray, variance: float, records: int, least_size: int
) -> list[Measure]:
    found = group_measures(counting, released, variance, records, least_size)
    return [_as_measure(one, group) for group, one in found]


def _regrouped(one: Evaluation, least_size: int, model: Model) -> Evaluation:
    """The same counts with other subgroups left out: they were released already, so it costs nothing."""
    counting = counting_for(model, len(one.edges) - 1, one.subgroup)
    released = np.concatenate([np.array(table) for table in one.counts])
    grouped = _of_groups(counting, released, one.noise**2, one.records, least_size)
    whole = tuple(measure for measure in one.measures if measure.group is None)
    return replace(one, least_size=least_size, measures=(*whole, *grouped))


def _as_measure(found: Found, group: str | None = None) -> Measure:
    value, low, high = (float(each) for each in found.interval)
    return Measure(found.name, value if np.isfinite(value) else None, low, high, group, found.at)


def _held_out(folder: Path) -> dict[str, str]:
    path = own_file(folder, HELD_OUT)
    if not path.is_file():
        raise InputError(
            f"a run is measured on records that it held out, got {folder}, which held out none; run it again with "
            "--set evaluation.held_out=0.2."
        )
    try:
        held = json.loads(path.read_text("utf-8"))
        return {"run": str(held["run"]), "digest": str(held["digest"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} must be as fedspd run writes it, got something else; put it back.") from error
