"""Charts as pictures: every series, band, line and axis that was asked for is there."""

import math
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from PIL import Image

import fedspd
from fedspd.errors import InputError
from fedspd.report import Chart, Series, draw, to_png
from fedspd.report.figures import run_charts, run_figure
from fedspd.report.palette import SERIES, style

X = (1.0, 2.0, 3.0)
CHART = Chart(
    "Accuracy", "round", "%",
    (Series("a", X, (70.0, None, 90.0), (69.0, None, 89.0), (71.0, None, 91.0)), Series("b", X, (50.0, 60.0, 65.0))),
    references=(("majority class", 76.0),),
)  # fmt: skip


@pytest.fixture(scope="module")
def run() -> fedspd.Run:
    return fedspd.run("proved", {"run.rounds": 3, "metrics.criterion": False})


def lines(axes: Any, chart: Chart = CHART) -> dict[str, Any]:
    return dict(zip([series.name for series in chart.series], axes.get_lines(), strict=False))


def words(axes: Any) -> set[str]:
    return {text.get_text() for text in axes.texts}


def test_every_series_is_a_line_of_its_own_color_and_dashes_with_gaps_where_numbers_are_missing() -> None:
    drawn = lines(draw([CHART]).axes[0])
    assert list(drawn) == ["a", "b"]
    assert np.isnan(drawn["a"].get_ydata()).tolist() == [False, True, False]
    assert drawn["b"].get_ydata().tolist() == [50.0, 60.0, 65.0]
    assert to_hex(drawn["a"].get_color()) != to_hex(drawn["b"].get_color())
    assert drawn["a"].is_dashed() != drawn["b"].is_dashed()


def test_a_band_is_filled_only_for_the_series_that_has_one() -> None:
    bands = [part for part in draw([CHART]).axes[0].collections if isinstance(part, PolyCollection)]
    assert len(bands) == 1
    heights = np.concatenate([np.asarray(path.vertices)[:, 1] for path in bands[0].get_paths()])
    assert (heights.min(), heights.max()) == (69.0, 91.0)


def test_references_are_named_dashed_lines() -> None:
    axes = draw([CHART]).axes[0]
    assert "majority class" in words(axes)
    assert any(np.all(np.asarray(line.get_ydata()) == 76.0) and line.is_dashed() for line in axes.get_lines())


def test_axes_are_logarithmic_and_points_marked_only_where_asked() -> None:
    plain, special = (draw([chart]).axes[0] for chart in (CHART, replace(CHART, log_x=True, log_y=True, markers=True)))
    assert (plain.get_xscale(), plain.get_yscale(), lines(plain)["b"].get_marker()) == ("linear", "linear", "None")
    assert (special.get_xscale(), special.get_yscale(), lines(special)["b"].get_marker()) == ("log", "log", "o")


def test_a_single_point_is_marked_since_a_line_through_it_is_invisible() -> None:
    chart = replace(CHART, series=(Series("one", (1.0,), (2.0,)),))
    assert lines(draw([chart]).axes[0], chart)["one"].get_marker() == "o"


@pytest.mark.parametrize(("count", "grid"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 3)), (8, (3, 3))])
def test_charts_stand_in_rows_of_at_most_three(count: int, grid: tuple[int, int]) -> None:
    figure = draw([replace(CHART, title=f"Chart {place}") for place in range(count)], "All")
    assert [axes.get_title() for axes in figure.axes] == [f"Chart {place}" for place in range(count)]
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == grid  # pyright: ignore[reportOptionalMemberAccess]
    assert figure.get_suptitle() == "All"


def test_charts_of_the_same_series_share_one_legend_and_others_have_their_own() -> None:
    shared = draw([CHART, CHART])
    assert [text.get_text() for text in shared.legends[0].get_texts()] == ["a", "b"]
    assert all(axes.get_legend() is None for axes in shared.axes)
    own = draw([CHART, replace(CHART, series=CHART.series[:1])])
    assert own.legends == []
    assert own.axes[0].get_legend() is not None


def test_a_series_that_some_charts_lack_is_in_the_one_legend_and_looks_alike_in_all_that_have_it() -> None:
    third, fourth = Series("c", X, (1.0, 2.0, 3.0)), Series("d", X, (2.0, 3.0, 4.0))
    whole, lacking = (replace(CHART, series=(*CHART.series, *more)) for more in ((third, fourth), (fourth,)))
    figure = draw([lacking, whole])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "d", "c"]
    assert all(axes.get_legend() is None for axes in figure.axes)
    first, second = (lines(axes, chart)["d"] for axes, chart in zip(figure.axes, (lacking, whole), strict=True))
    assert (first.get_color(), first.get_linestyle()) == (second.get_color(), second.get_linestyle())
    assert first.get_color() != lines(figure.axes[1], whole)["c"].get_color()


def test_no_chart_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="at least one chart"):
        draw([])


def test_names_are_written_as_they_are_and_never_read_as_formulas_or_left_out() -> None:
    hostile = r"$\frac{1}{0}$ and $\nonsense"
    lines = (Series(hostile, X, X), Series("_hidden", X, X))
    chart = Chart(hostile, hostile, hostile, lines, ((hostile, 1.0),), note=hostile)
    figure = draw([chart, chart], hostile)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [hostile.replace("$", r"\$"), "_hidden"]
    with Image.open(BytesIO(to_png(figure))) as image:
        assert len(np.unique(np.asarray(image.convert("L")))) > 10


def test_the_first_eight_series_differ_in_color_and_dashes_and_later_ones_in_the_pair() -> None:
    count = len(SERIES)
    assert len({style(place)[0] for place in range(count)}) == len({style(place)[2] for place in range(count)}) == count
    assert len({(style(place)[0], style(place)[2]) for place in range(3 * count)}) == 3 * count


def test_the_charts_of_a_run_are_its_accuracy_its_lagrangian_and_what_it_spent(run: fedspd.Run) -> None:
    accuracy, lagrangian, privacy = run_charts(run.summary, run.history)
    assert accuracy.series[0].y == tuple(100 * run.history["test_accuracy"])
    assert accuracy.references == (("majority class", 100 * run.summary["majority_accuracy"]),)
    assert lagrangian.series[0].y == tuple(run.history["alfv"])
    assert "diagnostic, not covered by the guarantee" in lagrangian.note
    assert [series.name for series in privacy.series] == ["largest client", "mean client"]
    assert privacy.references == (("stated", 1.0),)
    assert privacy.title == "Privacy spent (proved)"


def test_epsilon_in_a_chart_is_rounded_up_and_only_a_little(run: fedspd.Run) -> None:
    privacy = run_charts(run.summary, run.history)[2]
    for series, column in zip(privacy.series, ("epsilon_max", "epsilon_mean"), strict=True):
        for charted, spent in zip(series.y, run.history[column], strict=True):
            assert charted is not None
            assert spent <= charted < spent + 1e-4


def test_a_run_without_noise_states_nothing() -> None:
    loud = fedspd.run("published", {"run.rounds": 2, "metrics.criterion": False, "privacy.epsilon": math.inf})
    privacy = run_charts(loud.summary, loud.history)[2]
    assert privacy.references == ()
    assert to_png(run_figure(loud.summary, loud.history))


def test_the_same_run_gives_the_same_picture(run: fedspd.Run) -> None:
    assert to_png(run_figure(run.summary, run.history)) == to_png(run_figure(run.summary, run.history))


@pytest.mark.parametrize("names", [("a", "b"), ("a", "a")])
def test_a_note_that_all_charts_share_stands_once_below_them_and_within_the_picture(names: tuple[str, str]) -> None:
    note = "what two of the three lines rest on, in more words than stand below one chart. " * 5
    charts = [Chart(name, "x", "y", (Series(f"{name} 1", X, X), Series("b 2", X, X)), note=note) for name in names]
    figure = draw(charts)
    assert all(axes.get_xlabel() == "x" for axes in figure.axes)
    figure.draw_without_rendering()
    below = [legend.get_title() for legend in figure.legends] or [figure._supxlabel]  # pyright: ignore[reportAttributeAccessIssue]
    box = below[0].get_window_extent()
    assert below[0].get_text().split() == note.split()
    assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
    assert box.y1 < min(axes.get_window_extent().y0 for axes in figure.axes)
