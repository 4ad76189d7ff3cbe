"""`fedspd select`: one release for all candidates, charged, of which the best is read off."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from fedspd import run
from fedspd.assemble.finished.selection import SELECTION, _score, select
from fedspd.errors import InputError
from fedspd.evaluate.scoring import score_query, score_sensitivity
from fedspd.privacy.ledger import Ledger, create_ledger
from fedspd.report import save_run
from tests.support.command import run_script

SETTINGS = {
    "evaluation.held_out": 0.3, "partition.clients": 4, "run.participants": 4, "partition.seed": 1,
    "metrics.criterion": False, "privacy.epsilon": 4.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model that was trained, one that was not, and one that held out less, on one ledger."""
    home = tmp_path_factory.mktemp("selection")
    create_ledger(home / "shared.sqlite")
    changes = ({"run.rounds": 1, "problem.clip_norm": 1e-4}, {"run.rounds": 20}, {"evaluation.held_out": 0.2})
    with Ledger(home / "shared.sqlite") as ledger:
        for seed, change in enumerate(changes):
            settings = SETTINGS | {"run.seed": seed, "run.rounds": 2} | change
            finished = run("proved", settings, ledger=ledger, ledger_epsilon=14.0)
            (folder := home / f"run-{seed}").mkdir()
            save_run(folder, finished.record(), finished.model())
    return [home / f"run-{seed}" for seed in range(3)]


def test_the_better_model_is_chosen_for_one_charge_and_read_again_for_free(runs: list[Path]) -> None:
    ledger = runs[0].parent / "shared.sqlite"
    first = select(runs[:2], ledger)
    assert first.chosen == 1
    assert select(runs[:2], ledger) == first
    assert first.sensitivity == pytest.approx(sqrt(2))
    with Ledger(ledger) as opened:
        assert [charged.times for charged in opened.charges() if charged.mechanism == SELECTION] == [1] * 4
    again = select(runs[:2], ledger, again=True)
    assert again.scores != first.scores
    with Ledger(ledger) as opened:
        assert [charged.times for charged in opened.charges() if charged.mechanism == SELECTION] == [2] * 4


def test_the_order_of_runs_is_no_other_question_and_other_models_are(runs: list[Path]) -> None:
    ledger = runs[0].parent / "shared.sqlite"
    first = select(runs[:2], ledger)
    assert select([runs[1], runs[0]], ledger) == first
    averaged = select(runs[:2], ledger, average=True)
    assert (averaged.model, averaged.number) == ("average", first.number + 1)
    assert averaged.scores != first.scores


def test_scores_are_within_what_can_be_whatever_the_noise(runs: list[Path]) -> None:
    for noise, mean in ((400.0, 1.3), (400.0, -0.4), (1.0, 5.0)):
        one = _score("a", mean, noise, 1000)
        assert 0.0 <= one.low <= (one.value or 0.0) <= one.high <= 1.0


def test_runs_that_cannot_be_held_against_each_other_are_refused(runs: list[Path]) -> None:
    ledger = runs[0].parent / "shared.sqlite"
    with pytest.raises(InputError, match=r"must have held out the same records, got others in .*run-2"):
        select([runs[0], runs[2]], ledger)
    for wrong in ([runs[0]], [runs[0], runs[0]]):
        with pytest.raises(InputError, match="at least two runs, each named once"):
            select(wrong, ledger)


@pytest.mark.parametrize("models", [1, 2, 5])
def test_no_neighbor_moves_the_scores_further_than_their_sensitivity_and_one_moves_them_so_far(models: int) -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for attempt in range(200):
        scores, owners, weights = rng.random((9, models)), rng.integers(0, 2, 9), np.ones(9)
        scores[4] = attempt == 0 or rng.random(models)
        other = scores.copy()
        other[4] = 0.0 if attempt == 0 else rng.integers(0, 2, models)
        moved = [np.asarray(score_query(each, weights, owners, 2).value) for each in (scores, other)]
        distance = np.linalg.norm(moved[0] - moved[1], axis=1)
        assert distance[1 - owners[4]] == 0
        worst = max(worst, float(distance.max()) / score_sensitivity(models))
    assert worst == pytest.approx(1.0)


def test_the_command_says_which_and_what_it_cost(runs: list[Path]) -> None:
    done = run_script(runs[0].parent, "select", "run-0", "run-1", "--ledger", "shared.sqlite")
    assert done.code == 0, done.err
    assert "Chosen: " in done.out
