"""Studies as people see them: tables, pages, folders; what was chosen and at what price is always said."""

import csv
import io
import re
import tomllib
from math import inf
from pathlib import Path

import numpy as np
import pytest

from fedspd.algorithms import METHODS, label
from fedspd.config import changed, parse
from fedspd.report import Measured, folders_page
from fedspd.report.figures import draw, to_png
from fedspd.report.page import Page
from fedspd.studies.compare import Cell, Entry, comparison_study
from fedspd.studies.compare.charts import bytes_charts, epsilon_charts
from fedspd.studies.compare.tables import leaderboard
from fedspd.studies.folder import StudyReport, save_study
from fedspd.studies.lineup import BY_RULE, OURS
from fedspd.studies.reproduce import Reproduced, reproduction_study, verdicts
from fedspd.studies.reproduce.page import curves_grid, reproduction_page, study_charts
from fedspd.studies.tuning import PROTOCOL
from tests.studies.made import CENTRAL, ROUNDS, SEEDS, entry, once, paper

pytestmark = pytest.mark.slow

NOT_CHARGED = "not charged"


def entries() -> list[Entry]:
    """Two situations, in one of which a rival is ahead and in the other one diverged."""
    reached: dict[tuple[str, float, str], list[float | None]] = {
        ("full", 1.0, OURS): [0.84, 0.842],
        ("full", 1.0, "DP-SGD"): [0.841, 0.8435],
        ("full", 1.0, "DP-ADMM"): [0.80, 0.81],
        ("full", 8.0, OURS): [0.85, 0.851],
        ("full", 8.0, "DP-SGD"): [0.84, 0.83],
        ("full", inf, "FedAvg"): [0.85, 0.85],
        ("20%", 1.0, OURS): [0.83, 0.832],
        ("20%", 1.0, "DP-ADMM"): [0.5, None],
        **{("full", 1.0, method): [0.8, 0.81] for method in BY_RULE},
    }
    return [entry(Cell("iid", share, epsilon, name), value) for (share, epsilon, name), value in reached.items()]


@pytest.fixture(scope="module")
def reproduced() -> list[Reproduced]:
    return paper(1)


@pytest.fixture(scope="module")
def reproduction(reproduced: list[Reproduced]) -> StudyReport:
    return reproduction_study(reproduced, verdicts(reproduced), SEEDS)


@pytest.fixture(scope="module")
def comparison() -> StudyReport:
    return comparison_study(entries(), [CENTRAL], 2)


@pytest.fixture(scope="module")
def saved(
    reproduction: StudyReport, comparison: StudyReport, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    def make(root: Path) -> None:
        for name, study in (("reproduction", reproduction), ("comparison", comparison)):
            (root / name).mkdir()
            save_study(study, root / name)

    root = once(tmp_path_factory, "saved-studies", make)
    return {name: root / name for name in ("reproduction", "comparison")}


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_the_folder_of_a_reproduction_holds_page_report_tables_and_a_picture_of_every_panel(
    saved: dict[str, Path], reproduced: list[Reproduced]
) -> None:
    pictures = {f"{item.study.figure}-{item.study.name}.png" for item in reproduced}
    assert len(pictures) == 14
    assert {path.name for path in saved["reproduction"].iterdir()} == pictures | {
        "page.json", "report.html", "verdict.csv", "verdict.md", "curves.csv",
    }  # fmt: skip


def test_the_folder_of_a_comparison_holds_page_report_tables_and_both_figures(saved: dict[str, Path]) -> None:
    assert {path.name for path in saved["comparison"].iterdir()} == {
        "page.json", "report.html", "leaderboard.csv", "leaderboard.md", "behind.csv", "behind.md",
        "summary.csv", "summary.md", "accuracy-epsilon-adult.png", "accuracy-bytes-adult.png",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["reproduction", "comparison"])
def test_a_study_folder_is_a_report_with_the_same_page(
    name: str, saved: dict[str, Path], request: pytest.FixtureRequest
) -> None:
    page: Page = request.getfixturevalue(name).page
    assert folders_page([saved[name]]) == page


def test_two_studies_are_joined_with_every_statement_of_both(saved: dict[str, Path]) -> None:
    joined = folders_page([saved["reproduction"], saved["comparison"]])
    assert "Reproduction of Section V" in joined.title
    assert "All methods at equal privacy" in joined.title
    assert sum(PROTOCOL in statement for statement in joined.privacy) == 2


@pytest.mark.parametrize("name", ["reproduction", "comparison"])
def test_every_page_that_rests_on_tuning_says_how_it_was_done_and_that_it_is_not_charged(
    name: str, saved: dict[str, Path], request: pytest.FixtureRequest
) -> None:
    page: Page = request.getfixturevalue(name).page
    assert PROTOCOL in page.privacy
    assert NOT_CHARGED in PROTOCOL
    html = (saved[name] / "report.html").read_text("utf-8")
    assert html.count(NOT_CHARGED) >= 1
    assert html.index(NOT_CHARGED) < html.index("<table")


@pytest.mark.parametrize(("study", "table"), [("comparison", "leaderboard"), ("reproduction", "verdict")])
def test_a_table_that_leaves_the_page_still_says_that_tuning_is_not_charged(
    study: str, table: str, saved: dict[str, Path]
) -> None:
    """Decided in ADR 12: every table that rests on it says so."""
    assert NOT_CHARGED in (saved[study] / f"{table}.md").read_text()


def test_a_reproduction_without_a_tuned_curve_does_not_speak_of_tuning() -> None:
    for figure in ("fig2", "fig6"):
        page = reproduction_page(paper(1, figure), [], SEEDS)
        assert not any(NOT_CHARGED in statement for statement in page.privacy)


def test_each_variant_comes_with_its_own_statement_and_only_with_that() -> None:
    both = reproduction_page(paper(1, "fig6"), [], SEEDS).privacy
    published = [item for item in paper(1, "fig6") if item.study.variant == "published"]
    assert len(both) == 2
    (alone,) = reproduction_page(published, [], SEEDS).privacy
    assert "Do not rely on it" in alone
    assert "No bound is proved" in alone
    (proved,) = set(both) - {alone}
    assert all(words in proved for words in ("upper bound", "one record of a client", "replace-one", "server included"))


def test_the_statement_of_a_comparison_names_unit_neighbors_delta_adversary_and_what_has_no_privacy(
    comparison: StudyReport,
) -> None:
    statement = comparison.page.privacy[0]
    for words in (
        "(epsilon, 1e-05)", "end to end", "proved", "one record of a client", "replace-one", "scaling charged",
        "server included", "total over all rounds", "have no privacy",
    ):  # fmt: skip
        assert words in statement


def test_what_was_chosen_stands_beside_the_curve_it_was_chosen_for(
    reproduction: StudyReport, reproduced: list[Reproduced]
) -> None:
    (figure5,) = [section for section in reproduction.page.sections if section.title == "Figure 5"]
    (grid,) = figure5.grids
    assert NOT_CHARGED in grid.title
    tuned = [
        (
            item.study.title,
            label(lines.curve.config.algorithm.name, lines.curve.label),
            ", ".join(f"{key.removeprefix('algorithm.')} {value:.4g}" for key, value in lines.chosen.items()),
        )
        for item in reproduced
        for lines in item.lines
        if item.study.figure == "fig5" and lines.curve.tuned
    ]
    assert len(tuned) == 16
    assert [(row[0], row[2], row[3]) for row in grid.rows] == tuned
    assert "step_scale 0.25" in {row[3] for row in grid.rows}


def test_every_configuration_on_the_page_of_a_reproduction_is_the_one_that_ran(
    reproduction: StudyReport, reproduced: list[Reproduced]
) -> None:
    """With what was chosen: otherwise nobody can run a tuned curve again from its page."""
    shown = [parse(tomllib.loads(text)) for _, text in reproduction.page.configurations]
    ran = [changed(lines.curve.config, lines.chosen) for item in reproduced for lines in item.lines]
    assert shown == ran


def test_every_configuration_on_the_page_of_a_comparison_is_the_one_that_ran(comparison: StudyReport) -> None:
    shown = [parse(tomllib.loads(text)) for _, text in comparison.page.configurations]
    assert shown == [made.config for made in entries()]
    assert len({name for name, _ in comparison.page.configurations}) == len(entries())


def test_figures_are_the_same_bytes_from_call_to_call(reproduced: list[Reproduced], comparison: StudyReport) -> None:
    (panel,) = [item for item in reproduced if item.study.name == "published-fcp"]
    for charts in (study_charts(panel), comparison.figures["accuracy-epsilon-adult"]):
        first, again = (to_png(draw(charts)) for _ in range(2))
        assert first == again
        assert first.startswith(b"\x89PNG")


def test_curves_are_means_over_seeds_with_bands_of_one_standard_error(reproduced: list[Reproduced]) -> None:
    item = reproduced[0]
    accuracy, alfv = study_charts(item)
    for place, series in enumerate(accuracy.series):
        runs = 100 * np.array([result.history["test_accuracy"] for result in item.lines[place].results])
        error = np.sqrt(((runs - runs.mean(axis=0)) ** 2).sum(axis=0) / (SEEDS - 1) / SEEDS)
        np.testing.assert_allclose(series.y, runs.mean(axis=0))  # pyright: ignore
        np.testing.assert_allclose(series.high, runs.mean(axis=0) + error)  # pyright: ignore
        np.testing.assert_allclose(series.low, runs.mean(axis=0) - error)  # pyright: ignore
        assert series.name == item.lines[place].curve.label
        assert series.x == tuple(range(1, ROUNDS + 1))
    assert accuracy.references == (("majority class", 76.0),)
    assert "not covered by the guarantee" in alfv.note
    assert "as published" in accuracy.title


def test_with_one_seed_a_curve_is_drawn_without_a_band_of_unknown_width() -> None:
    chart = study_charts(paper(1, "fig2", seeds=1)[0])[0]
    assert all(series.low == series.y == series.high for series in chart.series)


def test_every_point_of_every_curve_is_in_the_tidy_table(reproduced: list[Reproduced], saved: dict[str, Path]) -> None:
    head, *rows = rows_of((saved["reproduction"] / "curves.csv").read_text())
    assert head == ["figure", "panel", "measure", "curve", "round", "mean", "s.e."]
    points = sum(ROUNDS * len(item.lines) * (1 if item.study.measure == "privacy" else 2) for item in reproduced)
    assert len(rows) == len(curves_grid(reproduced).rows) == points
    (last,) = [
        row for row in rows
        if row[:2] == ["fig6", "published-fcp"] and row[3] == "DP-ADMM" and float(row[4]) == ROUNDS
    ]  # fmt: skip
    assert float(last[5]) == pytest.approx(3.0 * ROUNDS**0.5)
    assert float(last[6]) == 0.0


def test_every_verdict_is_a_row_of_the_table_and_every_claim_a_row_of_the_overview(
    reproduction: StudyReport, reproduced: list[Reproduced], saved: dict[str, Path]
) -> None:
    found = verdicts(reproduced)
    head, *rows = rows_of((saved["reproduction"] / "verdict.csv").read_text())
    places = [head.index(name) for name in ("claim", "variant", "verdict", "measured", "test", "source")]
    names = {"published": "as published", "proved": "proved"}
    assert [[row[place] for place in places] for row in rows] == [
        [v.claim, names[v.variant], v.verdict, v.measured, v.test, v.source] for v in found
    ]
    (overview,) = reproduction.told
    assert [row[0] for row in overview.rows] == list(dict.fromkeys(v.claim for v in found))
    for row in overview.rows:
        assert row[1:] == tuple(
            next(v.verdict for v in found if (v.claim, v.variant) == (row[0], variant)) for variant in names
        )


def board() -> list[dict]:
    grid = leaderboard(entries(), [CENTRAL])
    return [dict(zip(grid.columns, row, strict=True)) for row in grid.rows]


def test_the_leaderboard_has_every_method_best_first_in_its_situation_and_who_diverged_last() -> None:
    order = [(row["takes part"], row["epsilon"], row["method"]) for row in board()[: len(entries())]]
    assert order == [
        ("full", 1.0, "DP-SGD"), ("full", 1.0, OURS), ("full", 1.0, "DP-ADMM"),
        *(("full", 1.0, method) for method in BY_RULE),
        ("full", 8.0, OURS), ("full", 8.0, "DP-SGD"), ("full", None, "FedAvg"),
        ("20%", 1.0, OURS), ("20%", 1.0, "DP-ADMM"),
    ]  # fmt: skip


def test_the_leaderboard_shows_means_errors_bytes_rounds_and_what_was_chosen() -> None:
    (row,) = [row for row in board() if (row["method"], row["epsilon"]) == ("DP-SGD", 1.0)]
    assert row["accuracy, %"].value == pytest.approx(84.225)
    assert row["accuracy, %"].error == pytest.approx(0.125)
    assert row["log-loss"].value == pytest.approx(1 - 0.84225)
    assert (row["MB up"], row["rounds"], row["chosen"]) == (0.648, 5, "step_scale 0.25")
    (diverged,) = [row for row in board() if row["method"] == "DP-ADMM" and row["takes part"] == "20%"]
    assert diverged["accuracy, %"] is None


def test_all_records_together_stand_in_the_leaderboard_without_a_budget() -> None:
    last = board()[-1]
    assert last["epsilon"] is None
    assert last["accuracy, %"].value == CENTRAL.score


def test_accuracy_is_drawn_against_epsilon_for_every_private_method_beside_the_central_one() -> None:
    full, partial = epsilon_charts(entries(), CENTRAL)
    lines = {series.name: series for series in full.series}
    assert lines.keys() == {OURS, "DP-SGD", "DP-ADMM", *BY_RULE}
    assert lines[OURS].x == (1.0, 8.0)
    np.testing.assert_allclose(lines[OURS].y, [84.1, 85.05])  # pyright: ignore
    assert full.log_x
    assert [value for _, value in full.references] == [84.62]
    assert [series.name for series in partial.series] == [OURS, "DP-ADMM"]
    assert partial.series[1].y == (None,), "what diverged is a gap"


def test_accuracy_is_drawn_against_bytes_round_by_round_at_the_budget_nearest_to_1() -> None:
    full, _ = bytes_charts(entries(), CENTRAL)
    assert "epsilon 1" in full.title
    own = next(series for series in full.series if series.name == OURS)
    np.testing.assert_allclose(own.x, 0.648 * np.arange(1, 6) / 5)
    np.testing.assert_allclose(own.y[-1], 84.1)  # pyright: ignore


def test_a_reconstruction_is_called_one_in_every_table_and_figure_of_a_study(reproduction: StudyReport) -> None:
    """As curve, as rival in a claim, and in the words beside it."""
    reached: dict[str, list[float | None]] = {"DP-FedAvg": [0.85, 0.86], OURS: [0.84, 0.842]}
    compared = [entry(Cell("iid", "full", 1.0, method), values) for method, values in reached.items()]
    titles = "|".join(method.card.title for method in METHODS.values() if method.card.reconstruction)
    bare = re.compile(rf"({titles})(?!( as published)? \(reconstruction\))")
    for study in (reproduction, comparison_study(compared, [CENTRAL], 2)):
        grids = [*study.grids.values(), *study.told, *study.data.values()]
        grids += [grid for section in study.page.sections for grid in section.grids]
        texts = [cell for grid in grids for row in grid.rows for cell in row if isinstance(cell, str)]
        texts += [series.name for charts in study.figures.values() for chart in charts for series in chart.series]
        texts += [name for name, _ in study.page.configurations]
        assert not [text for text in texts if bare.search(text)]
        named = [text for text in texts if "DP-FedAvg (reconstruction)" in text]
        assert len(named) > 8, "the study has it in several places"
    assert not any("(reconstruction)" in str(row) for row in leaderboard(entries(), [CENTRAL]).rows)


def test_a_comparison_says_how_many_duels_are_won_and_lists_every_one_that_is_not(comparison: StudyReport) -> None:
    stands = comparison.page.sections[1]
    assert stands.text[0].startswith("Of 4 duels")
    (row,) = stands.grids[0].rows
    assert row[4] == "DP-SGD"
    assert isinstance(row[5], Measured)
    assert row[5].value == pytest.approx(0.125)


def test_a_comparison_without_private_methods_has_a_table_and_no_figure() -> None:
    """A figure of nothing was once refused, after all runs were done."""
    study = comparison_study([entry(Cell("iid", "full", inf, "FedAvg"), [0.84, 0.85])], [CENTRAL], 2)
    assert (study.figures, list(study.grids)) == ({}, ["leaderboard"])
    assert [row[5] for row in study.grids["leaderboard"].rows] == ["FedAvg", "l1 logistic regression"]
