"""The figure of a sweep: a metric against a setting, or dots where no setting has a place on an axis."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedspd.report.figures import DIAGNOSTIC, draw_alike, draw_dots
from fedspd.report.page import Chart, banded, numbered
from fedspd.results import ABOUT
from fedspd.studies.sweep.grid import Axis
from fedspd.studies.sweep.grid import points as product_of
from fedspd.studies.sweep.plan import Sweep
from fedspd.studies.sweep.points import Point, label, shown_value

if TYPE_CHECKING:
    from fedspd.report.figures import Figure

MOST_CHARTS, MOST_LINES, MOST_DOTS, MOST_TICKS = 30, 40, 100, 8  # a picture has an end


def sweep_figure(sweep: Sweep, points: Sequence[Point], metric: str) -> "Figure":
    """The picture: lines over the first numeric setting, or dots."""
    across = _horizontal(sweep)
    if across is None:
        shown = points[:MOST_DOTS]
        return draw_dots(
            _title(sweep, metric, sweep.axes),
            label(sweep, metric),
            [named(point.settings) for point in shown],
            [point.mean(metric) for point in shown],
        )
    values = _finite(across)
    ticks = {value: _short(across.name, value) for value in values} if len(values) <= MOST_TICKS else {}
    return draw_alike(sweep_charts(sweep, points, metric), ticks)


def sweep_charts(sweep: Sweep, points: Sequence[Point], metric: str) -> tuple[Chart, ...]:
    """The first numeric setting across, a line for each value of the next one, a chart for each of all others."""
    across = _horizontal(sweep)
    if across is None:
        return (_dots_chart(sweep, points, metric),)
    lines, panels = _others(sweep, across)
    charts = []
    for panel in product_of(panels)[:MOST_CHARTS]:
        here = [point for point in points if panel.items() <= point.settings.items()]
        title = named(panel) or _title(sweep, metric, [across])
        charts.append(_lines_chart(title, label(sweep, metric), metric, across, lines, here))
    return tuple(charts)


def left_out(sweep: Sweep) -> str:
    """Which points are in the tables and not in the figure, if any."""
    across = _horizontal(sweep)
    if across is None:
        return f"The figure shows the first {MOST_DOTS} points." if len(sweep.points) > MOST_DOTS else ""
    lines, panels = (math.prod(len(axis.values) for axis in axes) for axes in _others(sweep, across))
    if lines <= MOST_LINES and panels <= MOST_CHARTS:
        return ""
    return f"The figure shows at most {MOST_CHARTS} charts of {MOST_LINES} lines, of {panels} charts of {lines} lines."


def named(settings: Mapping[str, Any]) -> str:
    """Settings in a few words: without their section, and the name of a method alone."""
    keys = ((name.partition(".")[2], _short(name, value)) for name, value in settings.items())
    return ", ".join(text if key == "name" else f"{key} {text}" for key, text in keys)


def _horizontal(sweep: Sweep) -> Axis | None:
    """The setting that lies across: the first one with at least two finite numbers."""
    return next((axis for axis in sweep.axes if len(_finite(axis)) > 1), None)


def _others(sweep: Sweep, across: Axis) -> tuple[list[Axis], list[Axis]]:
    """The setting that makes lines, if there is one, and those that make charts."""
    others = [axis for axis in sweep.axes if axis is not across and len(axis.values) > 1]
    return others[:1], others[1:]


def _finite(axis: Axis) -> list[float]:
    return sorted(value for value in axis.values if math.isfinite(value)) if axis.numeric else []


def _lines_chart(
    title: str, words: str, metric: str, across: Axis, other: Sequence[Axis], points: Sequence[Point]
) -> Chart:
    lines = product_of(other)[:MOST_LINES]
    names = numbered([named(line) or words for line in lines])
    at = {(_of(other, point), point.settings[across.name]): point for point in points}
    series, beyond = [], []
    for name, line in zip(names, lines, strict=True):
        own = tuple(line.values())
        series.append(banded(name, _finite(across), [at[own, x].mean(metric) for x in _finite(across)]))
        infinite = at.get((own, math.inf))
        mean = None if infinite is None else infinite.mean(metric)
        beyond += [] if mean is None else [(f"{named({across.name: math.inf})}", mean.value)]
    alone = len(lines) == 1
    note = "" if alone or not beyond else f"Without a place on this axis: {across.name} = inf; see the table."
    return Chart(
        title, across.name, words, tuple(series),
        references=(*_majority(points, metric), *(beyond if alone else ())),
        log_x=across.log, markers=True, note=" ".join(filter(None, (_diagnostic(metric), note))),
    )  # fmt: skip


def _of(axes: Sequence[Axis], point: Point) -> tuple[Any, ...]:
    return tuple(point.settings[axis.name] for axis in axes)


def _dots_chart(sweep: Sweep, points: Sequence[Point], metric: str) -> Chart:
    """A dot for each point, beside each other."""
    shown = points[:MOST_DOTS]
    names = numbered([named(point.settings) for point in shown])
    series = tuple(banded(names[place], [place + 1.0], [point.mean(metric)]) for place, point in enumerate(shown))
    return Chart(
        _title(sweep, metric, sweep.axes), "point", label(sweep, metric), series, markers=True, note=_diagnostic(metric)
    )


def _majority(points: Sequence[Point], metric: str) -> tuple[tuple[str, float], ...]:
    """What guessing reaches, where some point is no better: elsewhere the line would only press the curves together."""
    guessed = {row["majority_accuracy"] for point in points for row in point.rows}
    means = [mean.value for point in points if (mean := point.mean(metric)) is not None]
    if metric not in ("test_accuracy", "test_accuracy_average") or len(guessed) != 1 or not means:
        return ()
    majority = 100 * guessed.pop()
    return (("majority class", majority),) if min(means) <= majority else ()


def _title(sweep: Sweep, metric: str, axes: Sequence[Axis]) -> str:
    plain = label(sweep, metric).removesuffix(", %")
    return f"{plain[:1].upper()}{plain[1:]} by {' and '.join(axis.name for axis in axes)}"


def _diagnostic(metric: str) -> str:
    return DIAGNOSTIC if ABOUT[metric].kind == "diagnostic" else ""


def _short(name: str, value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(shown_value(name, value))
