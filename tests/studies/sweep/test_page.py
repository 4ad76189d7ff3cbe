"""Sweeps as people see them: tables with the same values in both formats, honest best points, figures of all shapes."""

import csv
from collections.abc import Callable
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from PIL import Image

from fedspd.report import folders_page
from fedspd.report.figures import to_png
from fedspd.report.numbers import at_most
from fedspd.report.page import Chart, Measured
from fedspd.report.text import grid_markdown
from fedspd.studies.sweep import Sweep, run_sweep, save_sweep, sweep_study
from fedspd.studies.sweep.charts import left_out, sweep_charts, sweep_figure
from fedspd.studies.sweep.plan import plan_sweep
from fedspd.studies.sweep.points import best, points_grid, points_of
from fedspd.studies.sweep.rows import COLUMNS, Row
from tests.studies.made import TINY

EPSILONS, SCALES = "privacy.epsilon=3,0.1,1", "algorithm.step_scale=log:0.1:10:3"
Measure = Callable[[dict[str, Any], int], dict[str, Any]]


def made(*grids: str, seeds: int = 2, **fixed: str) -> Sweep:
    return plan_sweep("proved", grids, seeds, 0, {name.replace("__", "."): value for name, value in fixed.items()})


def rows_of(sweep: Sweep, measure: Measure) -> list[Row]:
    """Rows as a sweep leaves them, with numbers by hand."""
    common: Row = {name: {str: "text", int: 5, float: 0.25, bool: False}[kind] for name, kind in COLUMNS.items()}
    common |= {"guarantee": "proved", "majority_accuracy": 0.76}
    return [{**point, "seed": seed, **common, **measure(point, seed)} for point in sweep.points for seed in sweep.seeds]


def rising(point: dict[str, Any], seed: int) -> dict[str, Any]:
    """Better with epsilon, best at a step scale of 1, one point of percent between two seeds."""
    scale = point.get("algorithm.step_scale", 1.0)
    accuracy = 0.80 + 0.01 * point.get("privacy.epsilon", 1.0) - (0.02 if scale != 1.0 else 0.0) + 0.01 * seed
    return {"test_accuracy": accuracy, "test_loss": 1 - accuracy}


def flat(point: dict[str, Any], seed: int) -> dict[str, Any]:
    return {"test_accuracy": 0.8 + seed / 100}


def always(**numbers: Any) -> Measure:
    """The same for every run."""
    return lambda point, seed: numbers


def drawn(sweep: Sweep, measure: Measure = rising, metric: str = "test_accuracy") -> tuple[Chart, ...]:
    return sweep_charts(sweep, points_of(sweep, rows_of(sweep, measure)), metric)


def marked(sweep: Sweep, measure: Measure, metric: str) -> list[dict[str, Any]]:
    places = best(sweep, points_of(sweep, rows_of(sweep, measure)), metric)
    return [sweep.points[place] for place in places]


def save(sweep: Sweep, measure: Measure, folder: Path) -> None:
    rows = rows_of(sweep, measure)
    save_sweep(sweep_study(sweep, rows, "test_accuracy"), sweep, rows, "test_accuracy", folder)


def test_csv_and_parquet_hold_the_same_values_with_their_types(tmp_path: Path) -> None:
    def thirds(point: dict[str, Any], seed: int) -> dict[str, Any]:
        return {"objective": None if seed else 1 / 3, "guarantee": "as published"}

    sweep = made("privacy.epsilon=0.1,inf", "data.log_capital=true,false", "run.participants=5,7", "data.split=test")
    save(sweep, thirds, tmp_path)
    table = pyarrow.parquet.read_table(tmp_path / "table.parquet")
    names = ["privacy.epsilon", "data.log_capital", "run.participants", "data.split", "seed", *COLUMNS]
    assert table.column_names == names
    assert table.to_pylist() == rows_of(sweep, thirds)
    kinds = {name: str(table.schema.field(name).type) for name in names}
    assert [kinds[name] for name in names[:5]] == ["double", "bool", "int64", "string", "int64"]
    stored = {float: "double", int: "int64", str: "string", bool: "bool"}
    assert all(kinds[name] == stored[kind] for name, kind in COLUMNS.items())
    with (tmp_path / "table.csv").open(newline="") as file:
        texts = list(csv.DictReader(file))
    read = {"double": float, "int64": int, "string": str, "bool": {"true": True, "false": False}.__getitem__}
    assert [
        {name: None if text == "" else read[kinds[name]](text) for name, text in row.items()} for row in texts
    ] == table.to_pylist()


def test_a_point_is_the_mean_over_seeds_with_its_standard_error() -> None:
    sweep = made(EPSILONS, seeds=3)
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, rising)), "test_accuracy")
    assert grid.columns == ("privacy.epsilon", "test accuracy, %", "test loss", "objective", "wall seconds", "best")
    value, error, _ = grid.rows[0][1]  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    assert (grid.rows[0][0], value) == (3.0, pytest.approx(84.0))
    assert error == pytest.approx(1 / 3**0.5), "seeds at 83, 84 and 85"


def test_one_seed_has_no_standard_error_and_is_said_to_be_one() -> None:
    sweep = made(EPSILONS, seeds=1)
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, rising)), "test_accuracy")
    assert [row[1].error for row in grid.rows if isinstance(row[1], Measured)] == [None] * 3
    assert grid.note.startswith("Means over one seed;")


def test_the_best_point_has_the_highest_accuracy_or_the_lowest_loss() -> None:
    sweep = made(SCALES)
    for metric in ("test_accuracy", "test_loss"):
        assert marked(sweep, rising, metric) == [{"algorithm.step_scale": 1.0}]


def test_the_best_is_sought_within_a_budget_and_a_partition_since_those_are_not_chosen() -> None:
    sweep = made(EPSILONS, SCALES)
    assert marked(sweep, rising, "test_accuracy") == [
        {"privacy.epsilon": epsilon, "algorithm.step_scale": 1.0} for epsilon in (3.0, 0.1, 1.0)
    ]
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, rising)), "test_accuracy")
    assert "The best is marked for each privacy.epsilon." in grid.note
    assert [row[1] for row in grid.rows if row[-1] == "yes"] == [1.0] * 3
    assert marked(made(EPSILONS), rising, "test_accuracy") == [{"privacy.epsilon": 3.0}]


def test_a_point_with_a_run_that_diverged_has_no_mean_and_is_never_the_best() -> None:
    def diverging(point: dict[str, Any], seed: int) -> dict[str, Any]:
        gone = point["algorithm.step_scale"] == 1.0 and seed == 1
        return rising(point, seed) | ({"test_accuracy": None} if gone else {})

    sweep = made(SCALES)
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, diverging)), "test_accuracy")
    assert [row[1] is None for row in grid.rows] == [False, True, False]
    assert [row[-1] for row in grid.rows] == ["yes", None, None]
    (chart,) = drawn(sweep, diverging)
    assert [y is None for y in chart.series[0].y] == [False, True, False]


def test_a_metric_without_a_better_end_marks_nothing_and_speaks_of_no_choice() -> None:
    sweep = made(SCALES)
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, rising)), "weights_norm")
    assert {row[-1] for row in grid.rows} == {None}
    assert "best" not in grid.note


def test_a_choice_by_the_training_records_says_nothing_of_the_test_split() -> None:
    sweep = made(SCALES)
    grid = points_grid(sweep, points_of(sweep, rows_of(sweep, rising)), "objective")
    assert "The best is marked." in grid.note
    assert "split" not in grid.note
    assert "is charged to a budget" in grid.note


@pytest.mark.parametrize(
    ("split", "said"), [("test", 'optimistic; choose with data.split = "validation".'), ("validation", "held out")]
)
def test_every_output_says_what_a_choice_is_worth_and_that_nothing_is_charged(
    split: str, said: str, tmp_path: Path
) -> None:
    sweep = made(SCALES, data__split=split)
    save(sweep, rising, tmp_path)
    study = sweep_study(sweep, rows_of(sweep, rising), "test_accuracy")
    for text in (grid_markdown(study.grids["points"]), study.told[0].note, (tmp_path / "points.md").read_text()):
        assert said in text
        assert "No run and no choice among them is charged to a budget or a ledger." in text
    assert any("is charged to a budget" in statement for statement in study.page.privacy)
    assert study.told[0].columns[1] == f"{split} accuracy, %"


def test_a_page_with_pure_and_other_methods_says_how_the_pure_ones_were_converted() -> None:
    def named(point: dict[str, Any], seed: int) -> dict[str, Any]:
        return {"algorithm": point["algorithm.name"]}

    def stated(*names: str) -> list[str]:
        sweep = made(f"algorithm.name={','.join(names)}")
        privacy = sweep_study(sweep, rows_of(sweep, named), "test_accuracy").page.privacy
        return [text for text in privacy if text.startswith("Conversion: ")]

    assert stated("fedspd", "dp-sgd") == []
    (text,) = stated("fedspd", "dp-radmm", "one-shot")
    assert text.startswith("Conversion: DP-RADMM, one shot release with spherical Laplace noise")


def test_a_page_states_the_privacy_of_every_kind_of_run_it_holds() -> None:
    kinds = {0: "proved", 1: "none", 2: "as published"}

    def mixed(point: dict[str, Any], seed: int) -> dict[str, Any]:
        return flat(point, seed) | {"guarantee": kinds[seed]}

    for seeds, told in ((1, 2), (2, 3), (3, 4)):
        sweep = made(SCALES, seeds=seeds)
        privacy = sweep_study(sweep, rows_of(sweep, mixed), "test_accuracy").page.privacy
        assert len(privacy) == told
        assert all(any(f"“{kinds[seed]}”" in text for text in privacy) for seed in range(seeds))


def test_a_sweep_over_trust_says_of_secure_sums_who_must_not_collude_and_what_holds_if_they_do(tmp_path: Path) -> None:
    settings = TINY | {"privacy.epsilon": 0.5}
    sweep = plan_sweep("proved", ["privacy.trust=each-upload,secure-sums"], 1, 0, settings)
    rows, _ = run_sweep(sweep, tmp_path / "runs", "numpy")
    each, sums = rows
    assert (each["trust"], each["epsilon_alone"], each["colluders"]) == ("each-upload", None, None)
    assert (sums["trust"], sums["unit"], sums["threshold"], sums["colluders"]) == ("secure-sums", "record", 4, 1)
    assert sums["epsilon_alone"] > sums["epsilon"]
    study = sweep_study(sweep, rows, "test_accuracy")
    anyone, relied = (text for text in study.page.privacy if "“proved”" in text)
    assert "trust each-upload" in anyone
    assert anyone.endswith("the server included.")
    assert "trust secure-sums" in relied
    assert "the server included" not in relied
    assert "only if at most 1 of the 5 (a sum holds 4 or more) members of a cohort collude" in relied
    assert at_most(sums["epsilon_alone"]) in relied
    for grid in (study.grids["points"], study.told[0]):
        assert grid.columns[2:5] == ("epsilon", "epsilon alone", "colluders")
        (_, alone, none), (_, second, colluders) = (row[2:5] for row in grid.rows)
        assert (alone, none, colluders) == (None, None, 1)
        assert second == pytest.approx(sums["epsilon_alone"], abs=1e-4)
        assert second >= sums["epsilon_alone"], "rounded, it is still a bound"
    save_sweep(study, sweep, rows, "test_accuracy", tmp_path)
    for name in ("table.csv", "points.csv"):
        assert "epsilon_alone" in (tmp_path / name).read_text().replace("epsilon alone", "epsilon_alone"), name
    assert pyarrow.parquet.read_table(tmp_path / "table.parquet").to_pylist() == rows


def test_a_page_names_the_unit_and_the_neighbors_of_its_runs_and_not_always_a_record() -> None:
    def stated(unit: str, relation: str) -> str:
        sweep = made(SCALES)
        rows = rows_of(sweep, always(unit=unit, relation=relation))
        return sweep_study(sweep, rows, "test_accuracy").page.privacy[0]

    assert "for one record of a client under replace-one neighbors" in stated("record", "replace-one")
    assert "for all records of one person at a client under replace-one" in stated("person", "replace-one")
    assert "for all records of one client under replace-one" in stated("client", "replace-one")
    assert "under zero-out neighbors" in stated("record", "zero-out")


def test_the_folder_is_a_report_with_the_same_page_and_holds_all_files(tmp_path: Path) -> None:
    sweep = made(EPSILONS, SCALES)
    save(sweep, rising, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "page.json", "report.html", "points.csv", "points.md", "table.csv", "table.parquet", "sweep.png",
    }  # fmt: skip
    page = folders_page([tmp_path])
    assert page == sweep_study(sweep, rows_of(sweep, rising), "test_accuracy").page
    with Image.open(tmp_path / "sweep.png") as image:
        assert image.format == "PNG"


def test_the_first_number_lies_across_in_order_and_every_value_of_the_second_is_a_line_with_a_band() -> None:
    (chart,) = drawn(made(EPSILONS, SCALES))
    assert (chart.x_label, chart.y_label, chart.log_x) == ("privacy.epsilon", "test accuracy, %", True)
    assert [series.name for series in chart.series] == ["step_scale 0.1", "step_scale 1", "step_scale 10"]
    line = chart.series[1]
    assert line.x == (0.1, 1.0, 3.0)
    assert line.y == pytest.approx((80.6, 81.5, 83.5))
    assert line.low == pytest.approx((80.1, 81.0, 83.0))
    assert line.high == pytest.approx((81.1, 82.0, 84.0))


def test_a_name_before_the_first_number_is_a_line_and_a_third_setting_makes_small_multiples() -> None:
    sweep = made("algorithm.name=fedspd,dp-sgd", "algorithm.step_scale=lin:1:3:3", EPSILONS)
    charts = drawn(sweep)
    assert [chart.title for chart in charts] == ["epsilon 3", "epsilon 0.1", "epsilon 1"]
    assert {tuple(series.name for series in chart.series) for chart in charts} == {("fedspd", "dp-sgd")}
    assert {(chart.x_label, chart.log_x) for chart in charts} == {("algorithm.step_scale", False)}
    assert charts[0].series[0].y == pytest.approx((83.5, 81.5, 81.5))
    assert charts[1].series[0].y == pytest.approx((80.6, 78.6, 78.6))
    figure = sweep_figure(sweep, points_of(sweep, rows_of(sweep, rising)), "test_accuracy")
    assert len({axes.get_ylim() for axes in figure.axes}) == 1, "small multiples share their scale"


def test_a_reconstruction_is_called_one_in_the_table_and_the_figure() -> None:
    sweep = made("algorithm.name=dp-fedavg,dp-sgd", "algorithm.step_scale=lin:1:3:3")
    points, names = points_of(sweep, rows_of(sweep, rising)), ["dp-fedavg (reconstruction)", "dp-sgd"]
    assert [series.name for series in drawn(sweep)[0].series] == names
    assert list(dict.fromkeys(row[0] for row in points_grid(sweep, points, "test_accuracy").rows)) == names


def test_without_a_number_every_point_is_a_dot_with_its_name() -> None:
    sweep = made("algorithm.name=fedspd,dp-sgd", "data.log_capital=true,false", "privacy.epsilon=1")
    figure = sweep_figure(sweep, points_of(sweep, rows_of(sweep, flat)), "test_accuracy")
    names = [f"{name}, log_capital {taken}, epsilon 1" for name in ("fedspd", "dp-sgd") for taken in ("true", "false")]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == names
    (chart,) = drawn(sweep, flat)
    assert [series.name for series in chart.series] == names


def test_infinity_has_no_place_on_the_axis_and_is_a_reference_or_a_note() -> None:
    def measure(point: dict[str, Any], seed: int) -> dict[str, Any]:
        return {"test_accuracy": 0.9 if point["privacy.epsilon"] == inf else 0.8}

    (alone,) = drawn(made("privacy.epsilon=1,3,inf"), measure)
    assert alone.references == (("epsilon inf", 90.0),)
    (several,) = drawn(made("privacy.epsilon=1,3,inf", SCALES), measure)
    assert several.references == ()
    assert several.note == "Without a place on this axis: privacy.epsilon = inf; see the table."
    assert {series.x for series in (*alone.series, *several.series)} == {(1.0, 3.0)}


def test_guessing_is_drawn_where_some_point_is_no_better_and_nowhere_else() -> None:
    assert drawn(made(SCALES), always(test_accuracy=0.7))[0].references == (("majority class", 76.0),)
    assert drawn(made(SCALES))[0].references == ()


def test_a_metric_that_needs_records_is_marked_as_a_diagnostic() -> None:
    for metric, marked_so in (("objective", True), ("criterion", True), ("test_accuracy", False), ("uploads", False)):
        (chart,) = drawn(made(SCALES), metric=metric)
        assert ("diagnostic" in chart.note) == marked_so


@pytest.mark.parametrize(
    "grids",
    [
        ("algorithm.penalty=lin:1:1.0001:9",),
        ("privacy.epsilon=1,3", "algorithm.penalty=lin:1:1.0001:9"),
        pytest.param(
            ("privacy.epsilon=1,3", "algorithm.penalty=1,2", "run.participants=lin:1:100:100"), marks=pytest.mark.slow
        ),
        ("privacy.epsilon=1,3", "algorithm.penalty=lin:1:400:400"),
        pytest.param(("privacy.epsilon=lin:1:150:150", "algorithm.penalty=lin:1:40:40"), marks=pytest.mark.slow),
        ("partition.column=" + ",".join(f"${number}" for number in range(120)),),
    ],
)
def test_close_values_many_charts_many_lines_and_many_dots_can_all_be_drawn(
    grids: tuple[str, ...], tmp_path: Path
) -> None:
    """After hours of running is no time to fail."""
    sweep = made(*grids, seeds=1)
    save(sweep, flat, tmp_path)
    with Image.open(tmp_path / "sweep.png") as image:
        assert max(image.size) < 10_000
    assert left_out(sweep).startswith("The figure shows ") == (len(grids) == 3 or "400" in grids[-1] or "$" in grids[0])
    told = sweep_study(sweep, rows_of(sweep, flat), "test_accuracy").told[0]
    assert len(told.rows) <= 40


def test_numbers_that_are_all_missing_are_drawn_as_nothing_and_break_nothing() -> None:
    for sweep in (made(SCALES), made("data.log_capital=true,false")):
        points = points_of(sweep, rows_of(sweep, always(criterion=None)))
        assert to_png(sweep_figure(sweep, points, "criterion"))
        assert best(sweep, points, "criterion") == []


def test_the_same_sweep_is_the_same_picture_bit_for_bit() -> None:
    sweep = made(EPSILONS, SCALES)
    points = points_of(sweep, rows_of(sweep, rising))
    first, second = (to_png(sweep_figure(sweep, points, "test_accuracy")) for _ in range(2))
    assert first == second
    with Image.open(BytesIO(first)) as image:
        assert image.width > image.height
