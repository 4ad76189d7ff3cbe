"""Measurements on private records as people see them: tables, a calibration curve, a ROC band, residuals."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from fedspd.report.figures import TITLE_WIDTH, draw_dots
from fedspd.report.page import Cell, Chart, Grid, Measured, Section, Series
from fedspd.results.counted import counted
from fedspd.results.evaluation import Evaluation, Measure
from fedspd.results.inference import Inference

ABOUT = (
    "Measured on records that were never trained on. Their counts were released with noise and charged to the budget. "
    "Intervals are of 95 % and hold both the sampling of records and the privacy noise."
)


IN_PARTS = "Residuals are in parts of the target's range, each as the middle of its bin."


def evaluation_text(one: Evaluation) -> str:
    """What was released, and what it cost, in a sentence or two."""
    parts = f" {IN_PARTS}" if one.kind == "residuals" else ""
    groups = "" if one.subgroup is None else f", by {one.subgroup}"
    whose, which = counted(one.records, f"held-out {one.unit}"), "averaged" if one.model == "average" else "last"
    return (
        f"Measurement {one.number}, of the {which} model: counts of {whose}{groups}, with noise of standard deviation "
        f"{one.noise:.1f} on each; epsilon {one.epsilon:.3g} by itself at delta {one.delta:g}, {_paid(one.charged)}."
        f"{parts}"
    )


def evaluation_grids(one: Evaluation) -> tuple[Grid, ...]:
    """Measures of all records, and of every subgroup."""
    plain = [_row(measure, one.unit) for measure in one.measures if measure.at is None and measure.group is None]
    grids = [Grid("On held-out records", ("measure", "value", "from", "to"), tuple(plain))]
    grouped = [(measure.group, *_row(measure, one.unit)) for measure in one.measures if measure.group is not None]
    if one.subgroup is not None:
        note = f"Subgroups of fewer than {counted(one.least_size, one.unit)}, by their noised number, are left out."
        columns = (one.subgroup, "measure", "value", "from", "to")
        grids.append(Grid(f"By {one.subgroup}", columns, tuple(grouped), note))
    return tuple(grids)


def evaluation_charts(one: Evaluation) -> tuple[Chart, ...]:
    """Calibration and ROC of classes, or the distribution of residuals."""
    if one.kind == "residuals":
        found = one.curve("share of residuals")
        return (
            Chart(
                "Residuals on held-out records", "residual, in parts of the target's range", "share of records",
                (_band("share", [measure.at or 0.0 for measure in found], found),), markers=True,
            ),
        )  # fmt: skip
    charts = []
    observed = one.curve("observed share")
    if observed:
        at = [measure.at or 0.0 for measure in observed]
        what = one.classes[1] if one.kind == "scores" else "right predictions"
        charts.append(
            Chart(
                "Calibration", f"predicted probability{'' if one.kind == 'scores' else ' of the predicted class'}",
                f"observed share of {what}", (_band("observed", at, observed), Series("ideal", (0.0, 1.0), (0.0, 1.0))),
                markers=True,
            )
        )  # fmt: skip
    if one.kind == "scores":
        charts.append(_roc(one))
    return tuple(charts)


def evaluation_sections(evaluations: Sequence[Evaluation]) -> tuple[Section, ...]:
    """A section for each measurement."""
    return tuple(
        Section(
            f"Measurement {one.number} on private records", (ABOUT, evaluation_text(one)), evaluation_charts(one),
            evaluation_grids(one),
        )
        for one in evaluations
    )  # fmt: skip


def _roc(one: Evaluation) -> Chart:
    """True against false positive rate, where both are known; the band is that of the true one."""
    true, false = one.curve("true positive rate"), one.curve("false positive rate")
    known = [(x.value, y) for x, y in zip(false, true, strict=True) if x.value is not None and y.value is not None]
    known.sort(key=lambda pair: pair[0])
    ends = (Measure("", 0.0, 0.0, 0.0), Measure("", 1.0, 1.0, 1.0))
    points = [ends[0], *(measure for _, measure in known), ends[1]]
    return Chart(
        "ROC", "false positive rate", "true positive rate",
        (_band("model", [0.0, *(x for x, _ in known), 1.0], points), Series("chance", (0.0, 1.0), (0.0, 1.0))),
        markers=True, note="The band is the interval of the true positive rate at each threshold.",
    )  # fmt: skip


def _band(name: str, at: Sequence[float], found: Sequence[Measure]) -> Series:
    """Values with their intervals; a gap where too little is known."""
    low, high = (
        tuple(None if measure.value is None else getattr(measure, end) for measure in found) for end in ("low", "high")
    )
    return Series(name, tuple(at), tuple(measure.value for measure in found), low, high)


def _row(measure: Measure, unit: str = "record") -> tuple[Cell, ...]:
    """A measure with its interval; how many there are is a number of units."""
    many = measure.name == "records"
    digits, ends = 0 if many else 4, (measure.value, measure.low, measure.high)
    return (f"{unit}s" if many else measure.name, *(None if value is None else round(value, digits) for value in ends))


def inference_text(one: Inference) -> str:
    """What was released, what it cost, and what is in doubt."""
    said = (
        "Intervals are of 95 % and hold the sampling of records, all privacy noise and what the last step may have "
        f"left. They are of a regression without a penalty {one.regression}. Levels are held against the first one."
        if one.doubt is None
        else f"No interval would be honest: {one.doubt}."
    )
    return (
        f"Release {one.number}, of {'one Newton step' if one.steps == 1 else f'{one.steps} Newton steps'}: sums over "
        f"{counted(one.records, f'held-out {one.unit}')}, epsilon {one.epsilon:.3g} by itself at delta {one.delta:g}, "
        f"{_paid(one.charged)}. {said}"
    )


def _paid(charged: bool) -> str:
    return "charged to the ledger" if charged else "within the plan, without a ledger"


def inference_grid(one: Inference) -> Grid:
    """Coefficients with intervals, and odds ratios beside them where there are classes."""
    odds = {measure.name: measure for measure in one.odds_ratios}
    rows = tuple(
        (*_row(measure), *(_row(odds[measure.name])[1:] if measure.name in odds else (None,) * 3 * bool(odds)))
        for measure in one.coefficients
    )
    columns = ("feature", "coefficient", "from", "to", *(("odds ratio", "from ", "to ") if odds else ()))
    return Grid(f"{inference_title(one)}, in original units", columns, rows)


def inference_title(one: Inference) -> str:
    """Of which regression coefficients are."""
    return f"Coefficients of a regression on {', '.join(one.columns)} alone" if one.columns else "Coefficients"


def inference_sections(inferences: Sequence[Inference]) -> tuple[Section, ...]:
    """A section for each regression that was asked for."""
    return tuple(
        Section(inference_title(one), (inference_text(one),), (), (inference_grid(one),) if one.coefficients else ())
        for one in inferences
    )


def forest(one: Inference) -> Any:
    """A line for each feature: the logarithm of its odds ratio, or its coefficient, with the interval.

    Units differ, so that some intervals are too short to be seen: the odds ratio or coefficient is written out too.
    """
    shown = one.coefficients[1:]
    names = [
        f"{told.name}: {told.value or 0.0:.4g} ({told.low:.4g} to {told.high:.4g})" for told in one.odds_ratios or shown
    ]
    means = [Measured(measure.value or 0.0, (measure.high - measure.low) / 2, 4) for measure in shown]
    label = "logarithm of the odds ratio that is written" if one.odds_ratios else "coefficient"
    title = fill(f"{inference_title(one)}, with 95 % intervals", TITLE_WIDTH)
    figure = draw_dots(title, f"{label}, per unit of the feature", names, means)
    figure.axes[0].axvline(0.0, color="#999999", linestyle="--", linewidth=1)
    return figure
