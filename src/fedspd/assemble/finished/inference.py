"""Coefficients with intervals from one more release: noised Newton steps on the records that a run held out."""

from contextlib import nullcontext
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from fedspd.assemble.finished.evaluation import charge, noised, open_held_out, require_held_out, require_simulated
from fedspd.assemble.records.held_out import Apart
from fedspd.errors import InputError
from fedspd.evaluate.coordinates import Coordinates, coordinates_of, coordinates_on
from fedspd.evaluate.newton import FROM_ZERO, Inferred, Released, Step, records_needed, stepped
from fedspd.privacy.accounting import spent
from fedspd.privacy.ledger import Ledger
from fedspd.results import alone
from fedspd.results.evaluation import Measure
from fedspd.results.inference import Inference, read_inference, write_inference
from fedspd.scoring.model import Model, load_model
from fedspd.statement import file_anew
from fedspd.typing import INFERENCE


def infer_folder(
    folder: Path, ledger: Path | None = None, again: bool = False, columns: tuple[str, ...] = ()
) -> Inference:
    """Coefficients of a run's model with intervals: those that its folder has, or new ones, which are charged.

    Args:
        folder: of the run.
        ledger: that the run was charged to; None: the one in its folder.
        again: another step from where the last one ended, for another charge.
        columns: of a regression of its own; none: the model's.
    """
    columns = tuple(sorted(columns))  # one question, in whatever order it is asked
    known = read_inference(folder, columns)
    if known is not None and not again:
        return known
    model = load_model(folder, average=True)
    require_simulated(folder)
    with alone(folder), Ledger(ledger or folder / "ledger.sqlite") as opened:
        known = read_inference(folder, columns)  # somebody may have asked in between
        found = infer(open_held_out(folder, opened), model, opened, known, columns)
        write_inference(folder, found)
        file_anew(folder, opened)
    return found


def infer_run(apart: Apart | None, model: Model, columns: tuple[str, ...] = ()) -> Inference:
    """A step by the process that trained the model, from where the last one on these columns ended."""
    apart = require_held_out(apart)
    apart.require_unspent()
    columns = tuple(sorted(columns))
    before = [one for one in apart.inferred if one.columns == columns]
    with nullcontext() if apart.ledger is None else Ledger(apart.ledger) as opened:
        found = infer(apart, model, opened, before[-1] if before else None, columns)
    apart.inferred.append(found)
    return found


def infer(
    apart: Apart, model: Model, ledger: Ledger | None, before: Inference | None = None, columns: tuple[str, ...] = ()
) -> Inference:
    """Charge every client, then release its sums with noise, and say what they mean.

    Args:
        apart: the records that were held out.
        model: whose coefficients are asked for.
        ledger: what is charged; None: nothing is, in a simulation that keeps counts in memory.
        before: an earlier step, which this one goes on from.
        columns: of a regression of its own; none: the model's.
    """
    where = coordinates_on(model.recipe.schema, columns) if columns else coordinates_of(model)
    if before is not None:
        where = where._replace(start=np.array(before.start))
    shares = (1.0,) if before is not None or not columns or where.kind == "number" else FROM_ZERO
    _require_reach(where, apart, shares[-1], columns)  # all that can be refused is, before anything is charged
    number = 1 if ledger is None else charge(apart, ledger, INFERENCE)
    found = _stepped(where, apart, shares)
    events: list[Any] = [group.evaluation for group in apart.plan.groups]
    coefficients = told(where, found)
    return Inference(
        number=number,
        kind=where.kind,
        columns=columns,
        regression=_in_words(columns),
        coefficients=coefficients,
        odds_ratios=tuple(map(odds_ratio, coefficients[1:])) if where.kind == "classes" else (),
        doubt=found.doubt,
        start=tuple(found.estimates.tolist()),
        steps=len(shares),
        records=apart.units,
        sensitivity=_sensitivity(where, apart),
        noise_multiplier=max(event.noise_multiplier for event in events),
        epsilon=max(spent([(event, 1)], apart.plan.delta, apart.plan.accountant).epsilon for event in events),  # pyright: ignore[reportArgumentType]
        delta=apart.plan.delta,
        charged=ledger is not None,
        unit=apart.plan.unit,
    )


def _stepped(where: Coordinates, apart: Apart, shares: tuple[float, ...]) -> Inferred:
    """What steps find that share one charge."""
    rows, labels = where.rows(apart.table), np.asarray(apart.table.labels, float)

    def release(step: Step, share: float) -> Released:
        query = step.query(rows, labels, apart.weights, apart.places, len(apart.names))
        scales = apart.plan.evaluation_scale(step.sensitivity(apart.plan.relation)) / sqrt(share)
        return noised(query, scales), float(np.sum(scales**2))

    return stepped(where.kind, where.bound, where.start, shares, release, apart.units)


def _sensitivity(where: Coordinates, apart: Apart) -> float:
    return Step(where.kind, where.bound, where.start).sensitivity(apart.plan.relation)


def _require_reach(where: Coordinates, apart: Apart, share: float, columns: tuple[str, ...]) -> None:
    """Refuse what noise would surely drown, by public numbers, while it costs nothing."""

    def needed(widths: tuple[int, ...]) -> float:
        part = where._replace(widths=widths, start=np.zeros(1 + sum(max(1, width) for width in widths)))
        scales = apart.plan.evaluation_scale(_sensitivity(part, apart)) / sqrt(share)
        return records_needed(where.kind, widths, float(np.linalg.norm(scales)))

    if apart.units >= (wanted := needed(where.widths)):
        return
    narrow = tuple(sorted(where.widths))
    fit = sum(apart.units >= needed(narrow[:count]) for count in range(1, len(narrow)))
    fewer = (
        f"name at most {fit} of them with --columns, those of few levels first" if fit else "no single one is enough"
    )
    raise InputError(
        f"noise would surely drown coefficients of {len(where.widths)} columns ({len(where.start)} with their levels "
        f"and the constant): at this budget they need more than {wanted:.0f} held-out records or persons, got "
        f"{apart.units}; nothing was charged. Fewer columns: {fewer}. Or run again with a larger evaluation.held_out, "
        "evaluation.share or privacy.epsilon, or under privacy.trust = secure-sums."
    )


def _in_words(columns: tuple[str, ...]) -> str:
    if not columns:
        return "on all columns of the model"
    return (
        f"on {', '.join(columns)} alone, a smaller model of its own: its coefficients are not those of a model with "
        "more columns"
    )


def told(where: Coordinates, found: Inferred) -> tuple[Measure, ...]:
    """In original units; nothing where something is in doubt."""
    if found.doubt is not None:
        return ()
    ends = (each + where.shift for each in found.intervals(where.transform))
    told = zip(where.names, *(each.tolist() for each in ends), strict=True)
    return tuple(Measure(name, value, low, high) for name, value, low, high in told)


def odds_ratio(one: Measure) -> Measure:
    """Of a coefficient for classes."""
    value, low, high = (float(np.exp(min(end or 0.0, 700.0))) for end in (one.value, one.low, one.high))
    return Measure(one.name, value, low, high)
