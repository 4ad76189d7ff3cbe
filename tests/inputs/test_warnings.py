"""Numbers that mean little are not told as if nothing had happened: runs that diverged, budgets that protect nobody."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fedspd.estimators import FedSPDClassifier
from fedspd.report.of_runs.terminal import warnings
from tests.inputs.typed import typed

QUICK = (
    "run", "--data", "digits", "--clients", "5", "--set", "run.rounds=2", "--set", "metrics.criterion=false",
    "--out", "made",
)  # fmt: skip


@pytest.mark.parametrize("step", ["1e300", "1e30"])
def test_a_run_that_diverged_says_so_and_prints_no_accuracy(tmp_path: Path, step: str) -> None:
    done = typed(tmp_path, *QUICK, "--set", f"algorithm.step_scale={step}")
    assert (done.code, done.err) == (0, "")
    assert "diverged" in done.out
    assert "accuracy  " not in done.out
    assert "%  (averaged" not in done.out
    assert max(len(word) for word in done.out.split()) < 40, "no number is printed with a hundred digits"
    assert typed(tmp_path, "report", "made").code == 0
    assert "Diverged: " in (tmp_path / "made" / "report.html").read_text("utf-8")


def test_json_says_that_a_run_diverged(tmp_path: Path) -> None:
    assert json.loads(typed(tmp_path, *QUICK, "--set", "algorithm.step_scale=1e300", "--json").out)["diverged"] is True


def test_a_sweep_calls_no_run_best_that_diverged_and_says_which_did(tmp_path: Path) -> None:
    words = ("--data", "breast-cancer", "--clients", "5", "--grid", "algorithm.step_scale=1e300,1", "--seeds", "1")
    more = ("--set", "run.rounds=2", "--set", "metrics.criterion=false", "--engine", "numpy", "--out", "made", "--json")
    done = typed(tmp_path, "sweep", *words, *more)
    assert done.code == 0
    assert [point["best"] for point in json.loads(done.out)["points"]] == ["diverged", "yes"]
    assert "Diverged: " in (tmp_path / "made" / "report.html").read_text("utf-8")


def test_a_card_measures_no_model_of_a_run_that_diverged(tmp_path: Path) -> None:
    assert typed(tmp_path, *QUICK, "--set", "algorithm.step_scale=1e300").code == 0
    told = json.loads(typed(tmp_path, "card", "made", "--json").out)
    assert (told["measures"], told["model"]["diverged"]) == ([], True)


def test_an_estimator_without_a_test_set_warns_that_it_diverged() -> None:
    rng = np.random.default_rng(0)
    made = FedSPDClassifier(
        epsilon=1.0, delta=1e-6, bounds=(0, 1), clients=4, random_state=0,
        settings={"algorithm.step_scale": 1e30, "run.rounds": 2},
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="The run diverged: "):
        made.fit(rng.uniform(0, 1, (80, 3)), np.arange(80) % 2)
    assert made.run_.summary.diverged


def test_a_run_that_did_not_diverge_prints_its_accuracy(tmp_path: Path) -> None:
    done = typed(tmp_path, *QUICK)
    assert "diverged" not in done.out
    assert "%  (averaged" in done.out


@pytest.mark.parametrize(("data", "trivial"), [("breast-cancer", "the majority class"), ("diabetes", "the mean")])
def test_a_model_that_is_worse_than_none_says_so_and_what_would_help(tmp_path: Path, data: str, trivial: str) -> None:
    words = ("run", "--data", data, "--clients", "5", "--out", "made", "--set", "run.seed=1")
    weak = typed(tmp_path, *words, "--epsilon", "0.01", "--delta", "1e-5")
    said = " ".join(weak.out.split())
    assert f"worse than always predicting {trivial}: noise outweighs what the records say; a larger epsilon" in said
    assert ("bounds of the target that are no wider" in said) == (data == "diabetes")
    assert typed(tmp_path, "report", "made").code == 0
    assert "Beware: worse than always" in (tmp_path / "made" / "report.html").read_text("utf-8")


def test_a_model_that_learned_something_is_not_called_worse_than_none(tmp_path: Path) -> None:
    good = typed(tmp_path, "run", "--data", "digits", "--clients", "5", "--epsilon", "8", "--delta", "1e-5")
    assert "worse than" not in good.out


def test_a_weak_budget_carries_a_warning(tmp_path: Path) -> None:
    weak = typed(tmp_path, *QUICK, "--set", "privacy.epsilon=11")
    assert "Warning: epsilon is above 10, where what is proved protects little" in weak.out
    assert typed(tmp_path, "report", "made").code == 0
    assert "Warning: epsilon is above 10" in (tmp_path / "made" / "report.html").read_text("utf-8")


def test_a_delta_that_is_allowed_by_name_carries_a_warning(tmp_path: Path) -> None:
    large = ("--set", "privacy.delta=1e-2", "--set", "privacy.allow_large_delta=true")
    assert "Warning: delta is not below 1 / 1" in typed(tmp_path, *QUICK, *large).out


def test_budgets_that_protect_carry_no_warning() -> None:
    assert warnings(10.0, 1e-5, 99_999) == []
    assert len(warnings(10.001, 1e-5, 100_001)) == 2


def test_an_accountant_warns_of_what_it_finds(tmp_path: Path) -> None:
    words = ("account", "--sampling", "whole-shard", "--noise-multiplier", "0.1", "--participations", "20")
    assert "Warning: epsilon is above 10" in typed(tmp_path, *words, "--delta", "1e-5").out
    assert json.loads(typed(tmp_path, *words, "--delta", "1e-5", "--json").out)["warnings"]


def test_an_empty_value_unsets_what_a_preset_has(tmp_path: Path) -> None:
    done = typed(tmp_path, "run", "--set", "run.participants=", "--set", "run.rounds=1", "--json", "--out", "made")
    assert json.loads(done.out)["participants"] == 100
