"""A reproduction: the paper's totals, proved totals recomposed, and curves that ran with what was chosen for them."""

from math import ceil, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedspd.algorithms import METHODS
from fedspd.assemble import prepare_experiment, run
from fedspd.config import Config, changed
from fedspd.privacy.accounting import FixedSize, Gaussian, calibrate, spent
from fedspd.studies.reproduce import Lines, Reproduced, count_runs, load_studies, reproduce
from fedspd.studies.reproduce.run import total_loss
from fedspd.studies.tuning import TRIALS, tune
from tests.studies.made import SMALL, SMALL_SEEDS, STEEP

pytestmark = pytest.mark.slow

PRIVACY = load_studies("fig6")[0]


@pytest.fixture
def small(small_runs: Path) -> list[Reproduced]:
    calls: list[None] = []
    before = len(list(small_runs.iterdir()))
    reproduced = reproduce([PRIVACY, SMALL], SMALL_SEEDS, lambda: calls.append(None))
    assert len(list(small_runs.iterdir())) == before, "all runs were known"
    assert len(calls) == count_runs([PRIVACY, SMALL], SMALL_SEEDS) == 3 * SMALL_SEEDS + TRIALS
    return reproduced


def lossy(name: str, label: str) -> Config:
    (found,) = [c.config for s in load_studies("fig6") if s.name == name for c in s.curves if c.label == label]
    return found


@pytest.mark.parametrize(
    ("panel", "label", "total"),
    [
        ("fcp", "FedSPD-DP, without replacement", 0.5074),
        ("pcp", "FedSPD-DP, without replacement", 0.2269),
        ("fcp", "FedSPD-DP, with replacement", 0.4680),
        ("pcp", "FedSPD-DP, with replacement", 0.2093),
        ("fcp", "DP-ADMM", 3.0400),
        ("pcp", "DP-ADMM", 1.3595),
    ],
)
def test_after_100_rounds_the_papers_formulas_give_the_totals_computed_by_hand(
    panel: str, label: str, total: float
) -> None:
    """3.04 q 0.1 sqrt(n / (1 - q)) with q = 50 of 325.61 records, or 1 - (1 - 1/m)^50; DP-ADMM: 3.04 0.1 sqrt(n)."""
    rounds, loss = total_loss(lossy(f"published-{panel}", label))
    records, share = 32561 / 100, 1.0 if panel == "fcp" else 0.2
    rate = 50 / records if "without" in label else 1 - (1 - 1 / records) ** 50
    growth = rate / sqrt(1 - rate) if "DP-ADMM" not in label else 1.0
    by_hand = [3.04 * 0.1 * growth * sqrt(share * t) for t in range(5, 101, 5)]
    assert rounds.tolist() == list(range(5, 101, 5))
    np.testing.assert_allclose(loss, by_hand, rtol=1e-12)
    assert loss[-1] == pytest.approx(total, abs=5e-5)


@pytest.mark.parametrize("panel", ["fcp", "pcp"])
def test_proved_totals_are_those_of_the_events_recomposed(panel: str) -> None:
    """A round's noise is that of one Gaussian release at (0.1, 1e-4); 50 of 325 records are drawn by FedSPD-DP."""
    share = {"fcp": 1.0, "pcp": 0.2}[panel]
    multiplier = calibrate(Gaussian, 1, 0.1, 1e-4)
    assert 0.0999 < spent([(Gaussian(multiplier), 1)], 1e-4).epsilon <= 0.1
    own = "FedSPD-DP, without replacement"
    algorithm: Any = prepare_experiment(lossy(f"proved-{panel}", own)).simulation.algorithm
    contraction = algorithm.inverse_step / (algorithm.inverse_step + algorithm.penalty)
    events = {"DP-ADMM": Gaussian(multiplier), own: FixedSize(multiplier, 325, 50, 5, contraction)}
    for label, event in events.items():
        rounds, loss = total_loss(lossy(f"proved-{panel}", label))
        for place in (0, 7, 19):
            count = ceil(share * rounds[place] - 1e-9)
            assert loss[place] == pytest.approx(spent([(event, count)], 1e-4).epsilon, rel=1e-9), label
        assert (np.diff(loss) > 0).all()


def test_where_nothing_is_trained_there_are_totals_and_no_runs(small: list[Reproduced]) -> None:
    privacy, _ = small
    assert privacy.study is PRIVACY
    for lines in privacy.lines:
        assert lines.results == ()
        assert lines.rounds is not None
        assert lines.loss is not None
        np.testing.assert_array_equal(lines.loss, total_loss(lines.curve.config)[1])


def test_a_tuned_curve_runs_with_what_was_chosen_and_the_others_as_they_are(small: list[Reproduced]) -> None:
    lines = small[1].line("tuned")
    assert lines.chosen == tune([STEEP])[0]
    assert lines.chosen in METHODS["dp-sgd"].grid
    assert small[1].line("plain").chosen == small[1].line("published").chosen == {}
    for label in ("tuned", "plain", "published"):
        found = small[1].line(label)
        for seed in (0, 1):
            expected = run(changed(found.curve.config, found.chosen | {"run.seed": seed}))
            for column in ("test_accuracy", "alfv", "noise_scale", "inverse_step"):
                np.testing.assert_array_equal(found.results[seed].history[column], expected.history[column])
            assert found.results[seed].summary["penalty"] == expected.summary["penalty"]
    untuned = run(STEEP).history["inverse_step"]
    assert not np.array_equal(lines.results[0].history["inverse_step"], untuned), "tuning must have changed something"


def test_results_are_measured_on_the_test_records_with_the_seeds_from_0_on(small: list[Reproduced]) -> None:
    for lines in small[1].lines:
        assert [result.summary["seed"] for result in lines.results] == [0, 1]
        assert {result.summary["majority_accuracy"] for result in lines.results} == {12435 / 16281}


def test_curves_are_paired_by_seed_through_the_same_deal(small: list[Reproduced]) -> None:
    orders = [
        [np.asarray(
            prepare_experiment(changed(line.curve.config, line.chosen | {"run.seed": seed})).simulation.shards.order
         ) for line in small[1].lines]
        for seed in (0, 1)
    ]  # fmt: skip
    for deals in orders:
        for deal in deals[1:]:
            np.testing.assert_array_equal(deal, deals[0])
    assert not np.array_equal(orders[0][0], orders[1][0])


@pytest.mark.parametrize("figure", ["fig2", "fig3", "fig4", "fig5"])
def test_all_curves_of_a_figure_have_the_same_deal_with_the_same_seed(figure: str) -> None:
    deals = {
        (c.config.partition, c.config.data.split, c.config.run.seed) for s in load_studies(figure) for c in s.curves
    }
    assert len(deals) == 1


def test_a_column_is_stacked_by_seed(small: list[Reproduced]) -> None:
    lines: Lines = small[1].line("plain")
    assert lines.column("alfv").shape == (2, 2)
    np.testing.assert_array_equal(lines.column("alfv")[1], lines.results[1].history["alfv"])


def test_the_number_of_runs_counts_trials_of_tuned_curves_only() -> None:
    counts = {figure: count_runs(load_studies(figure), 10) for figure in ("fig2", "fig5", "fig6")}
    assert counts == {"fig2": 80, "fig5": 18 * 10 + 16 * TRIALS, "fig6": 0}
