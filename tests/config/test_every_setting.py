"""No setting is accepted without effect: each of them, changed alone, changes a run or is refused. For every method."""

from math import inf
from typing import Any

import numpy as np
import pytest

from fedspd import InputError, run
from fedspd.algorithms import METHODS
from fedspd.assemble import Run
from fedspd.config import Config, changed, load
from fedspd.config.conditions import lacks
from fedspd.config.sections import SECTIONS
from tests.support.small_runs import small_run

OTHERS: dict[str, tuple[Any, ...]] = {
    "data.columns": ("all",),
    "data.log_capital": (True, False),
    "data.encode": ("auto", "declared"),
    "data.scaling": ("min-max", "noisy-moments", "z-score", "none"),
    "data.moments_share": (0.3,),
    "data.deviation_floor": (0.6,),
    "data.bias": (0.4,),
    "data.row_norm": (0.6,),
    "data.split": ("validation",),
    "partition.kind": ("label-shards",),
    "partition.clients": (11,),
    "partition.alpha": (0.5,),
    "partition.at_least": (2,),
    "partition.shards_per_client": (3,),
    "partition.column": ("sex",),
    "partition.exponent": (0.5,),
    "partition.seed": (5,),
    "problem.loss": ("squared-hinge",),
    "problem.threshold": (0.3,),
    "problem.clip_norm": (0.05,),
    "problem.regularizer": ("elastic-net", "none"),
    "problem.strength": (0.7,),
    "problem.counts": ("records", "clients"),
    "problem.ratio": (0.9,),
    "problem.per_client": ("full", "share"),
    "privacy.epsilon": (2.0,),
    "privacy.budget": ("round",),
    "privacy.delta": (1e-7,),
    "privacy.allow_large_delta": (True,),
    "privacy.noise_multiplier": (3.0,),
    "privacy.unit": ("person", "client"),
    "privacy.accountant": ("rdp",),
    "privacy.trust": ("secure-sums",),
    "privacy.cohorts": (1,),
    "privacy.threshold": (5,),
    "privacy.colluders": (0,),
    "privacy.epsilon_alone": (1.2,),
    "run.rounds": (4,),
    "run.rounds_at_most": (3,),
    "run.participants": (7,),
    "run.selection": ("fixed",),
    "run.most_stale": (2,),
    "run.most_participations": (1,),
    "run.absence": (0.4,),
    "run.min_participants": (10,),
    "run.average_last": (3,),
    "run.seed": (1,),
    "metrics.objective_every": (0,),
    "metrics.spent_every_round": (False,),
    "metrics.lagrangian": (False,),
    "evaluation.held_out": (0.3,),
    "evaluation.share": (0.1,),
    "algorithm.penalty": (0.37,),
    "algorithm.local_steps": (3,),
    "algorithm.batch_size": (20,),
    "algorithm.sampling": ("poisson", "with-replacement"),
    "algorithm.max_batch": (60,),
    "algorithm.start": ("own",),
    "algorithm.inverse_step": (3.3,),
    "algorithm.step_scale": (0.5,),
    "algorithm.penalty_share": (0.7,),
    "algorithm.topology": ("ring",),
    "algorithm.edge_probability": (0.9,),
    "algorithm.growth": (1.5,),
    "algorithm.label_epsilon": (1.0,),
    "algorithm.bands": (2,),
    "algorithm.relaxation": (0.9,),
    "algorithm.momentum": (0.5,),
    "algorithm.averaging": (True,),
    "algorithm.diameter": (7.0,),
    "algorithm.dual_diameter": (3.0,),
    "algorithm.gradient_deviation": (4.0,),
}
"""Values for each setting, of which at least one differs from what a run has."""
ELSEWHERE = {"data.name", "run.engine", "metrics.criterion", "algorithm.name"}
"""One value only, another program, a costly optimum, another method: other tests change these."""
QUICK = ("fedspd", "fedavg")
EVERY_METHOD = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in METHODS]


def numbers(finished: Run) -> dict[str, Any]:
    """What a run leaves behind, but for its time and for what was set."""
    kept = {key: value for key, value in finished.summary.to_dict().items() if key not in ("wall_seconds", "seed")}
    arrays = {"weights": finished.weights, "average": finished.average}
    arrays |= {name: np.asarray(column, float) for name, column in finished.history.columns.items()}
    return {key: repr(value) for key, value in kept.items()} | {key: array.tobytes() for key, array in arrays.items()}


def settings_of(name: str) -> list[str]:
    config = base_of(name)
    keys = [f"{section}.{key}" for section in SECTIONS for key in config.declared(section)]
    return [key for key in keys if key not in ELSEWHERE]


def base_of(name: str) -> Config:
    """Unequal shards, so that what counts the same matters; a criterion where a setting is of use there alone."""
    return small_run(name, partition__kind="power-law", partition__exponent=0.3)


def outcome(config: Config, key: str, value: Any) -> dict[str, Any] | None:
    """What the run comes to with one setting changed; None where it is refused."""
    reset = {"partition.exponent": None} if key == "partition.kind" else {}
    measured = {"metrics.criterion": True} if key == "algorithm.dual_diameter" else {}
    try:
        return numbers(run(changed(config, {**reset, **measured, key: value})))
    except InputError:
        return None


def test_every_setting_that_exists_is_changed_below() -> None:
    known = {key for name in METHODS.built_in for key in settings_of(name)}
    assert known == set(OTHERS)


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_every_setting_of_a_method_has_an_effect_or_is_refused(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    config = base_of(name)
    usual, present = numbers(run(config)), config.to_dict()
    criterion = (
        numbers(run(changed(config, {"metrics.criterion": True}))) if "dual_diameter" in METHODS[name].keys else {}
    )
    for key in settings_of(name):
        section, _, short = key.partition(".")
        for value in OTHERS[key]:
            if value == config.section(section)[short]:
                continue
            found = outcome(config, key, value)
            before = criterion if key == "algorithm.dual_diameter" else usual
            assert found != before, f"{key} = {value} changes nothing"
            if found is not None:
                read = changed(config, {key: value} | ({"partition.exponent": None} if key == "partition.kind" else {}))
                assert short in read.to_dict()[section], f"{key} has an effect and is written down"
        assert short in present[section] or config.section(section)[short] is None or lacks(config, key)


@pytest.mark.parametrize("name", METHODS)
def test_a_setting_of_another_method_is_refused_by_name_with_those_that_have_it(name: str) -> None:
    foreign = {key for other in METHODS.values() for key in other.keys} - METHODS[name].keys
    for key in foreign:
        with pytest.raises(
            InputError, match=rf"^algorithm\.{key} is no setting of {name}, got it; leave it out, or use"
        ):
            small_run(name, **{f"algorithm__{key}": OTHERS[f"algorithm.{key}"][0]})


def test_a_budget_beside_a_noise_multiplier_is_refused() -> None:
    with pytest.raises(InputError, match=r"^privacy.epsilon would have no effect, got 0.1; it needs that privacy"):
        load("proved", {"privacy.epsilon": 0.1, "privacy.noise_multiplier": 1.0})


def test_overrides_of_a_configuration_are_applied_and_misspelled_ones_refused() -> None:
    config = small_run("fedspd")
    assert run(config, {"run.seed": 7}).config.run.seed == 7
    with pytest.raises(InputError, match=r"^unknown key run.sed; did you mean 'seed'\?$"):
        run(config, {"run.sed": 7})


def test_an_unknown_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"got 'dp-adm'; did you mean 'dp-admm'\?$"):
        load("proved", {"algorithm.name": "dp-adm"})


def test_what_a_preset_sets_gives_way_and_what_a_file_sets_does_not(tmp_path: Any) -> None:
    assert "epsilon" not in small_run("fedavg").to_dict()["privacy"], "the preset's budget is none of its settings"
    file = tmp_path / "mine.toml"
    file.write_text('[algorithm]\nname = "fedavg"\ninverse_step = 1.0\n[privacy]\nepsilon = 1.0\n')
    with pytest.raises(
        InputError, match=r"^privacy.epsilon would have no effect, got 1.0; it needs a method with privacy"
    ):
        load(file)


def test_infinite_budgets_are_for_methods_as_published() -> None:
    assert run(small_run("fedspd-published", privacy__epsilon=inf)).summary.guarantee == "none"
