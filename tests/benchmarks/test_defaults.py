"""The benchmark of the defaults plays each run once, and its verdicts turn red on numbers that deserve it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.defaults.__main__ import main
from benchmarks.defaults.cells import BUILT_IN, EPSILONS, GOALS, Cell, grid, is_tuned
from benchmarks.defaults.checks import BY_CHANCE, FAILS, HOLDS, Result, Verdict, collect, verdicts
from benchmarks.defaults.page import Variant, cells_csv, charts, markdown, rows_told
from benchmarks.defaults.play import CLIP_NORMS, STEP_SCALES, Job, play_job, tune
from benchmarks.defaults.pool import play_all
from benchmarks.defaults.rows import RULE, TUNED, Row, append_rows, read_rows

FEW = Cell("breast-cancer", 2, "iid", 2, 1.0)
MORE = replace(FEW, epsilon=8.0)
PROGRAM = "0123456789ab"
SPREAD = (-0.2, -0.1, 0.0, 0.1, 0.2)


def result(cell: Cell, mean: float, trivial: float = 70.0, tuned: float | None = None) -> Result:
    """Scores around a mean, no two seeds alike; tuned ones in another order, so that differences vary, too."""
    scores = {seed: mean + spread for seed, spread in enumerate(SPREAD)}
    best = {} if tuned is None else {seed: tuned + spread for seed, spread in enumerate(SPREAD[::-1])}
    return Result(cell, scores, trivial, 50, best, "step_scale=1")


def verdict(asked: str, *results: Result, encode: str = "declared") -> Verdict:
    """The verdict whose question holds these words."""
    return next(one for one in verdicts({one.cell: one for one in results}, encode) if asked in one.asked)


def rising(data: str) -> list[Result]:
    return [result(Cell(data, 5, "iid", 5, epsilon), 80 + place) for place, epsilon in enumerate(EPSILONS)]


def test_the_grid_has_every_data_set_few_and_many_clients_and_both_deals() -> None:
    cells = grid(BUILT_IN)
    assert {cell.data for cell in cells} == set(BUILT_IN)
    assert {cell.clients for cell in cells if cell.data == "adult"} == {2, 5, 10, 20, 100, 1000}
    assert {cell.clients for cell in cells if cell.data == "diabetes"} == {2, 5, 10}
    assert {cell.deal for cell in cells if cell.data == "digits"} == {"iid", "dirichlet"}
    assert {cell.deal for cell in cells if cell.data == "diamonds"} == {"iid", "label-shards"}
    assert len(cells) == len(set(cells))
    assert {cell for goals in GOALS.values() for cell in goals} <= set(cells)
    assert {cell.clients for cell in cells if is_tuned(cell) and cell.data == "breast-cancer"} == {5, 20}


def test_two_cells_are_played_on_all_cores_with_the_same_numbers_in_every_process() -> None:
    job = Job(RULE, (FEW, MORE), (0, 1))
    rows = [row for some in play_all([job], {}, PROGRAM) for row in some]
    assert [row.key for row in rows] == job.keys()
    assert all(row.trivial == pytest.approx(72.5664) and row.rounds > 1 for row in rows)
    assert rows[-1].score > 90
    assert play_job(job, {}, PROGRAM) == rows


def test_a_part_is_played_once_and_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--rows", str(tmp_path), "--only", "breast-cancer", "--seeds", "1", "--part", "1/8", "--no-tuning"]
    assert main(["run", *options]) == 0
    assert "1 jobs with 5 runs" in capsys.readouterr().err
    assert main(["run", *options]) == 0
    assert "0 jobs with 0 runs to tell of, 5 known" in capsys.readouterr().err
    assert main(["check", *options]) == 0
    assert "No run diverges: **holds**. 0 of 5 cells" in capsys.readouterr().out


def test_a_line_that_was_cut_short_is_no_run_and_another_program_s_runs_are_not_ours(tmp_path: Path) -> None:
    row = Row(RULE, "adult", 5, "iid", 5, 1.0, 0, 0, 84.25, 76.38, 50, "", "", PROGRAM)
    path = tmp_path / "rows.csv"
    append_rows(path, [row])
    path.write_text(path.read_text() + "rule,adult,5,iid")
    append_rows(path, [replace(row, seed=1), replace(row, seed=2, program="older")])
    assert [one.seed for one in read_rows(tmp_path, PROGRAM)] == [0, 1]
    assert read_rows(tmp_path, PROGRAM)[0] == row


def test_tuning_chooses_a_point_of_the_grid_and_rounds_that_give_every_client_its_uploads() -> None:
    point = tune(FEW, {})
    assert point.step_scale in STEP_SCALES
    assert point.clip_norm in CLIP_NORMS
    assert point.settings(Cell("adult", 100, "iid", 20, 1.0))["run.rounds"] == 5 * point.uploads


def test_scores_that_rise_with_the_budget_hold_and_one_planted_fall_does_not() -> None:
    good = rising("credit")
    assert verdict("never falls", *good).outcome == HOLDS
    bad = [*good[:-1], result(good[-1].cell, good[-2].scores[2] - 3)]
    assert verdict("never falls", *bad).outcome == FAILS


def test_a_fall_hidden_in_small_steps_is_found() -> None:
    slow = [
        Result(cell, {seed: 80 - 0.1 * place + (-1) ** (seed + place) * 0.12 for seed in range(4)}, 70, 50, {}, "")
        for place, cell in enumerate(one.cell for one in rising("credit"))
    ]
    collected = {one.cell: one for one in slow}
    steps = [verdicts({one.cell: one for one in pair}, "declared")[0].outcome for pair in pairwise(collected.values())]
    assert steps == [HOLDS] * 4
    assert verdict("never falls", *slow).outcome == FAILS


def test_one_fall_among_hundreds_is_chance_unless_it_is_deep() -> None:
    many = [result(Cell("credit", clients, "iid", 1, 1.0), 80) for clients in range(300)]
    cell = replace(many[0].cell, clients=300)
    unlucky = result(cell, 69.8)
    assert verdict("below the trivial", *many).outcome == HOLDS
    assert verdict("below the trivial", *many, unlucky).outcome == BY_CHANCE
    hopeless = result(cell, 60)
    assert verdict("below the trivial", *many, hopeless).outcome == FAILS


def test_the_tuned_grid_may_be_ahead_by_little_in_most_cells_and_by_a_point_in_none() -> None:
    near = [result(Cell("adult", clients, "iid", clients, 1.0), 84, tuned=84.2) for clients in range(9)]
    one = Cell("adult", 9, "iid", 9, 1.0)
    assert verdict("20,000", *near, result(one, 84, tuned=84.9)).outcome == HOLDS
    assert verdict("20,000", *near, result(one, 84, tuned=85.1)).outcome == FAILS
    assert (
        verdict("20,000", *near[:8], *(result(replace(one, clients=c), 84, tuned=84.5) for c in (8, 9))).outcome
        == FAILS
    )
    small = result(replace(FEW, clients=5), 60, tuned=90)
    assert verdict("smaller data", small).outcome == "told only"


def test_adult_is_held_to_the_goals_of_its_encoding() -> None:
    reached = {encode: [result(cell, goal + 0.01) for cell, goal in goals.items()] for encode, goals in GOALS.items()}
    assert verdict("goals", *reached["declared"]).outcome == HOLDS
    assert verdict("goals", *reached["auto"], encode="auto").outcome == HOLDS
    assert verdict("goals", *reached["declared"], encode="auto").outcome == FAILS


def test_a_model_that_is_not_finite_fails_whatever_the_other_seeds_did() -> None:
    good = rising("credit")
    lost = Result(good[-1].cell, {**good[-1].scores, 3: float("nan")}, 70, 50, {}, "")
    for asked in ("never falls", "below the trivial", "diverges"):
        assert verdict(asked, *good[:-1], lost).outcome == FAILS


def test_an_odd_table_must_be_learned_from() -> None:
    cell = Cell("wide-number", 5, "iid", 5, 1.0)
    assert verdict("too wide", result(cell, 40, trivial=0)).outcome == HOLDS
    assert verdict("too wide", result(cell, 0.1, trivial=0)).outcome == FAILS


def test_the_page_tells_every_cell_and_draws_every_data_set() -> None:
    results: Mapping[Cell, Result] = {one.cell: one for one in (*rising("credit"), *rising("diamonds"))}
    variant = Variant("", results, verdicts(results, "declared"))
    assert len(cells_csv([variant]).splitlines()) == 1 + len(results)
    text = markdown([variant], missing=3)
    assert "3 runs are missing" in text
    assert "| credit | 5 | 70.00 | 80.00 ± 0.07 | 81.00 ± 0.07 |" in text
    first, second = charts(results, iid=True)
    assert (first.title, first.y_label, second.y_label) == ("credit (IID)", "accuracy, %", "R², %")
    assert first.references == (("trivial", 70.0),)
    assert not charts(results, iid=False)


def test_a_table_of_cells_tells_the_runs_it_was_made_of() -> None:
    row = Row(RULE, "adult", 5, "iid", 5, 1.0, 25, 0, 84.1234, 76.377, 50, "", "data.encode=declared", PROGRAM)
    tuned = replace(row, kind=TUNED, score=84.5, point="clip_norm=1")
    played = [row, replace(row, seed=7, score=float("nan")), tuned]
    results = collect(played)
    table = cells_csv([Variant(row.settings, results, verdicts(results, "declared"))])
    assert [str(one) for one in rows_told(table, PROGRAM)] == [str(one) for one in played]


def test_runs_by_rule_and_tuned_ones_meet_by_cell_and_seed() -> None:
    row = Row(RULE, "adult", 5, "iid", 5, 1.0, 0, 0, 84.0, 76.38, 50, "", "", PROGRAM)
    found = collect([row, replace(row, kind=TUNED, score=84.5, point="clip_norm=1")])
    assert found[row.cell].tuned == {0: 84.5}
    assert found[row.cell].point == "clip_norm=1"
    assert not collect([replace(row, kind=TUNED)])
