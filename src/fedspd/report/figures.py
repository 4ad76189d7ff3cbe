"""Charts as pictures, and the charts of a run: what the paper plots (accuracy, ALFV) and what it cost."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from fedspd.errors import InputError
from fedspd.escaping import escaped_lines
from fedspd.report.numbers import reported, seed_words
from fedspd.report.page import Chart, Measured, Series
from fedspd.report.palette import INK, RULE, style
from fedspd.results import History, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIAGNOSTIC = "A simulator's diagnostic, not covered by the guarantee."
ROUND = "communication round"
PER_ROW = 3
TITLE_WIDTH = 48  # letters in a line of a title
NOTE_WIDTH, NOTE_LINE = 72, 0.14  # letters in a line of a note below a whole figure, for each column; inches a line
LEGEND = {"frameon": False, "fontsize": 8, "handlelength": 3}


def run_charts(summary: Summary, history: History) -> tuple[Chart, Chart, Chart]:
    """Test accuracy or what is explained, augmented Lagrangian and privacy spent against rounds."""
    rounds = tuple(history["round"])
    stated = summary.epsilon if summary.guarantee != "none" else None
    lagrangian = Chart(
        "Augmented Lagrangian (ALFV)", ROUND, "sum over clients", (Series("ALFV", rounds, tuple(history["alfv"])),),
        note=DIAGNOSTIC,
    )  # fmt: skip
    privacy = Chart(
        f"Privacy spent ({summary.guarantee})", ROUND, f"epsilon at delta {summary.delta:g}",
        tuple(
            Series(name, rounds, tuple(reported(float(spent), up=True) for spent in history[column]))
            for name, column in (("largest client", "epsilon_max"), ("mean client", "epsilon_mean"))
        ),
        references=() if stated is None else (("stated", stated),),
    )  # fmt: skip
    return _reached(summary, history), lagrangian, privacy


def _reached(summary: Summary, history: History) -> Chart:
    """Test accuracy, or what is explained of a number or a count."""
    rounds = tuple(history["round"])
    if np.isfinite(history["test_explained"]).any():
        series = Series("explained", rounds, tuple(100 * history["test_explained"]))
        return Chart("Explained of the test set", ROUND, "%", (series,), references=(("mean", 0.0),))
    majority = summary.majority_accuracy  # unknown where there is no test set
    return Chart(
        "Test accuracy", ROUND, "%", (Series("test accuracy", rounds, tuple(100 * history["test_accuracy"])),),
        references=(("majority class", 100 * majority),) if majority is not None and math.isfinite(majority) else (),
    )  # fmt: skip


def run_figure(summary: Summary, history: History) -> "Figure":
    """The charts of a finished run side by side."""
    title = f"{summary.title}: {summary.clients} clients, {summary.participants} per round, {seed_words(summary)}"
    return draw(_known_charts(summary, history), title)


def has_charts(summary: Summary, history: History) -> bool:
    """Whether a run has anything to draw."""
    return bool(_known_charts(summary, history))


def _known_charts(summary: Summary, history: History) -> list[Chart]:
    return [chart for chart in run_charts(summary, history) if _has_values(chart)]


def _has_values(chart: Chart) -> bool:
    """Whether there is anything to draw: between real sites nobody knows a simulator's diagnostics."""
    return any(value is not None and math.isfinite(value) for series in chart.series for value in series.y)


def draw(charts: Sequence[Chart], title: str = "") -> "Figure":
    """Charts in rows of at most three; one legend, and one look of a series, where most series are in all of them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # matplotlib takes half a second to import
    from matplotlib.figure import Figure

    if not charts:
        raise InputError("a figure needs at least one chart, got none; leave the figure out.")
    columns = min(len(charts), PER_ROW)
    rows = math.ceil(len(charts) / PER_ROW)
    figure = Figure(figsize=(max(4 * columns, 5), 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(series.name for chart in charts for series in chart.series))
    shared = len(charts) > 1 and all(len(names) < 2 * len(chart.series) > 2 for chart in charts)
    noted = len(charts) > 1 and charts[0].note != "" and len({chart.note for chart in charts}) == 1
    curves: dict[str, Any] = {}
    for place, chart in enumerate(charts):
        axes = figure.add_subplot(rows, columns, place + 1)
        drawn = {
            series.name: _draw_series(axes, series, names.index(series.name) if shared else number, chart.markers)
            for number, series in enumerate(chart.series)
        }
        _draw_frame(axes, chart, "" if noted else chart.note)
        curves = drawn | curves
        if not shared and len(drawn) > 1:
            axes.legend(drawn.values(), map(_plain, drawn), **LEGEND)
    note = _plain(fill(charts[0].note, NOTE_WIDTH * columns)) if noted else ""
    if shared:
        lines, ncols = [curves[name] for name in names], min(len(names), 4)
        figure.legend(
            lines, [*map(_plain, names)], loc="outside lower center", ncols=ncols, title=note or None, title_fontsize=7,
            **LEGEND,
        )  # fmt: skip
    elif noted:
        figure.supxlabel(note, fontsize=7, color=INK)
    if title:
        figure.suptitle(_plain(title), fontsize=10)
    if noted:
        figure.set_figheight(figure.get_figheight() + NOTE_LINE * (note.count("\n") + 1))
    return figure


def draw_alike(charts: Sequence[Chart], ticks: Mapping[float, str]) -> "Figure":
    """Charts with one vertical scale and the horizontal ticks given, if any; a legend of one chart stands beside it."""
    figure = draw(charts)
    limits = [axes.get_ylim() for axes in figure.axes]
    for axes in figure.axes:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        if ticks:
            axes.set_xticks(list(ticks), list(ticks.values()))
            axes.minorticks_off()
    inside = figure.axes[0].get_legend()
    if inside is not None:  # many lines would hide behind it
        names = [text.get_text() for text in inside.get_texts()]
        figure.legend(list(filter(None, inside.legend_handles)), names, loc="outside right center", **LEGEND)
        inside.remove()
        figure.set_size_inches(6.6, max(3.8, 0.18 * len(names) + 0.4))
    return figure


def draw_dots(title: str, x_label: str, names: Sequence[str], means: Sequence[Measured | None]) -> "Figure":
    """A line for each name, the first on top, with its mean and one standard error; None leaves it empty."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # matplotlib takes half a second to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 1.2 + 0.32 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for place, mean in enumerate(means):
        if mean is not None:
            axes.errorbar(mean.value, place, xerr=mean.error, fmt="o", markersize=5, color=style(0)[0], capsize=3)
    axes.set_yticks(range(len(names)), [_plain(name) for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(_plain(x_label), fontsize=9)
    axes.get_xaxis().get_major_formatter().set_useOffset(False)  # pyright: ignore[reportAttributeAccessIssue]
    axes.set_title(_plain(title), fontsize=10, color=INK)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure


def draw_ranges(title: str, x_label: str, names: Sequence[str], ranges: Sequence[tuple[float, float]]) -> "Figure":
    """A line for each name from what is proved to leak to what is claimed, on one axis that begins at zero."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # matplotlib takes half a second to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 1.6 + 0.36 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    colors = [style(place)[0] for place in (1, 0)]
    for place, ends in enumerate(ranges):
        axes.plot(ends, (place, place), color=RULE, linewidth=1)
        for end, color, marker in zip(ends, colors, "o|", strict=True):
            axes.plot(end, place, marker, color=color, markersize=5 if marker == "o" else 12, markeredgewidth=2)
    handles = [axes.plot([], [], mark, color=color)[0] for mark, color in zip("o|", colors, strict=True)]
    figure.legend(handles, ["proved to leak", "claimed at most"], loc="outside lower center", ncols=2, **LEGEND)
    axes.set_yticks(range(len(names)), [_plain(fill(name, TITLE_WIDTH)) for name in names], fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel(_plain(x_label), fontsize=9)
    axes.set_title(_plain(title), fontsize=10, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure


def to_png(figure: "Figure") -> bytes:
    """The picture without a date in it: same run, same bytes."""
    image = BytesIO()
    figure.savefig(image, format="png", dpi=130, metadata={"Software": None})
    return image.getvalue()


def _draw_series(axes: Any, series: Series, place: int, markers: bool) -> Any:
    """The line, with its band; None becomes a gap."""
    color, _, dashes = style(place)
    heights = np.array(series.y, dtype=float)
    marked = markers or np.isfinite(heights).sum() == 1  # a line through one point is invisible
    (line,) = axes.plot(
        series.x, heights, color=color, linestyle=(0, dashes) if dashes else "-", marker="o" if marked else None,
        markersize=4,
    )  # fmt: skip
    if series.low is not None:
        low, high = (np.array(edge, dtype=float) for edge in (series.low, series.high))
        axes.fill_between(series.x, low, high, color=color, alpha=0.16, linewidth=0)
    return line


def _draw_frame(axes: Any, chart: Chart, note: str) -> None:
    """References, title, labels and scales, and a note that other charts of the figure do not have."""
    for label, value in chart.references:
        axes.axhline(value, color=RULE, linestyle="--", linewidth=1)
        axes.annotate(
            _plain(label), (1, value), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
            color=INK, ha="right", fontsize=8,
        )  # fmt: skip
    pad = 14 if chart.references else 6  # points: the name of a line at the very top stands under the title
    axes.set_title(_plain(fill(chart.title, TITLE_WIDTH)), fontsize=10, color=INK, pad=pad)
    below = f"\n{_plain(fill(note, 60))}" if note else ""
    axes.set_xlabel(_plain(chart.x_label) + below, fontsize=9)
    axes.set_ylabel(_plain(chart.y_label), fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    for axis, scale, log in ((axes.xaxis, axes.set_xscale, chart.log_x), (axes.yaxis, axes.set_yscale, chart.log_y)):
        if log:
            scale("log")
            axis.set_major_formatter("{x:g}")
        else:
            axis.get_major_formatter().set_useOffset(False)


def _plain(text: str) -> str:
    """Text as it is: matplotlib would read what stands between dollar signs as a formula."""
    return escaped_lines(text).replace("$", r"\$")
