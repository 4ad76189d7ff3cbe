"""In the proved mode nothing is computed from records without noise and a charge."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fedspd import InputError, config, run
from fedspd.algorithms import Moments, choose_levels
from fedspd.assemble import Experiment, prepare_experiment
from fedspd.assemble.records.scaling import Memory, memory
from fedspd.data import AdultSettings, declare, finish, read_adult
from fedspd.privacy.sensitivity import moment_sums
from fedspd.typing import Query, Release
from tests.support.tables import known

DECLARED = declare(read_adult(AdultSettings(log_capital=True)))
SMALL = {"data.encode": "declared", "partition.clients": 10, "run.participants": 2}
MOMENTS = Moments(DECLARED.numeric, DECLARED.categorical, floor=0.3)


def test_declared_features_keep_to_their_public_ranges_on_both_tables() -> None:
    for table in (DECLARED.train, known(DECLARED.test)):
        numeric = table.features[:, DECLARED.numeric]
        assert numeric.min() >= -1
        assert numeric.max() <= 1
        assert set(np.unique(table.features[:, ~DECLARED.numeric])) == {0.0, 1.0}
    assert (int(DECLARED.numeric.sum()), DECLARED.categorical) == (5, 7)


def test_the_sensitivity_of_adults_moments_is_the_root_of_34() -> None:
    assert pytest.approx(34**0.5) == MOMENTS.sensitivity


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
def test_no_record_moves_the_moments_further_and_a_worst_case_attains_it(relation: str) -> None:
    """Two categorical columns of three levels (one dropped) and one numeric column, on a grid of all records."""
    levels = [np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    rows = np.array([
        [*first, *second, u] for first, second, u in product(levels, levels, np.linspace(-1, 1, 41))
    ])  # fmt: skip
    moments = Moments(np.array([False] * 4 + [True]), 2, 0.1, relation)
    sums = np.asarray(moments.query(rows, np.arange(len(rows) + 1)).value)
    others = sums if relation == "replace-one" else np.zeros((1, sums.shape[1]))
    moved = np.linalg.norm(sums[:, None] - others[None], axis=2)
    assert moved.max() == pytest.approx(moment_sums(relation, 2, 1))


def test_moments_without_noise_are_the_columns_means_and_deviations() -> None:
    features = DECLARED.train.features
    query = MOMENTS.query(features, np.array([0, 10_000, len(features)]))
    mean, deviation = MOMENTS.scaling(Release(query.value), len(features))
    np.testing.assert_allclose(mean, features.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(deviation, np.maximum(features.std(axis=0), 0.3), atol=1e-9)


def test_rows_never_exceed_the_declared_norm_and_carry_the_bias_in_full() -> None:
    rows = finish(DECLARED.train.features, np.zeros(81), np.full(81, 0.3), bias=0.25, row_norm=1.0)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    assert (rows[:, -1] == 0.25).all()


def test_the_scaling_of_a_proved_run_depends_on_records_through_the_noised_sums_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Freeze the release: then all features of the run follow from the declared rows alone."""
    settings = config.load("proved", SMALL | {"run.rounds": 5})
    frozen = Release(np.full((10, 86), 1000.0))
    monkeypatch.setattr("fedspd.engine.release.release", lambda query, noise: frozen)
    simulation = prepare_experiment(settings).simulation
    mean, deviation = replace(MOMENTS, floor=settings.data.deviation_floor).scaling(frozen, 32561)
    rows = DECLARED.train.features[simulation.shards.order]
    np.testing.assert_array_equal(simulation.shards.features, finish(rows, mean, deviation, 0.25, 1.0))


def test_planting_a_scaling_that_skips_the_noise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same check on a program that scales by the records themselves fails."""
    settings = config.load("proved", SMALL | {"run.rounds": 5})
    frozen = Release(np.full((10, 86), 1000.0))

    def leaking(self: Moments, features: np.ndarray, offsets: np.ndarray, shares: None) -> Query:
        leak.append(features.mean(axis=0))
        return query(self, features, offsets, shares)

    leak: list[np.ndarray] = []
    query, scaling = Moments.query, Moments.scaling
    monkeypatch.setattr(Moments, "query", leaking)
    monkeypatch.setattr(Moments, "scaling", lambda *args: (leak[0], scaling(*args)[1]))
    monkeypatch.setattr("fedspd.engine.release.release", lambda query, noise: frozen)
    simulation = prepare_experiment(settings).simulation
    monkeypatch.setattr(Moments, "scaling", scaling)
    mean, deviation = replace(MOMENTS, floor=settings.data.deviation_floor).scaling(frozen, 32561)
    rows = DECLARED.train.features[simulation.shards.order]
    assert not np.array_equal(simulation.shards.features, finish(rows, mean, deviation, 0.25, 1.0))


def test_levels_are_left_out_exactly_where_noise_would_drown_them() -> None:
    """Public numbers alone decide: at (1, 1e-4) over 100 clients of 325 records they stay, at (0.1, 1e-4) they go."""
    assert choose_levels(MOMENTS, 3.1858 / 0.1**0.5, 32561, 100).levels
    assert not choose_levels(MOMENTS, 24.509 / 0.1**0.5, 32561, 100).levels


def test_without_levels_the_release_has_numeric_columns_only_and_less_sensitivity() -> None:
    fewer = replace(MOMENTS, levels=False)
    features = DECLARED.train.features
    query = fewer.query(features, np.array([0, 10_000, len(features)]))
    assert np.asarray(query.value).shape == (2, 10)
    assert fewer.sensitivity == pytest.approx(20**0.5)
    mean, deviation = fewer.scaling(Release(query.value), len(features))
    numeric = DECLARED.numeric
    np.testing.assert_allclose(mean[numeric], features.mean(axis=0)[numeric], atol=1e-12)
    np.testing.assert_allclose(deviation[numeric], np.maximum(features.std(axis=0)[numeric], 0.3), atol=1e-9)
    assert (mean[~numeric] == 0).all()
    assert (deviation[~numeric] == 0.5).all()


def test_a_run_remembers_the_moments_it_was_scaled_by_and_no_others() -> None:
    small = SMALL | {"run.rounds": 2, "metrics.criterion": False}
    scaled, plain = (run("proved", small | changes).recipe for changes in ({}, {"data.scaling": "min-max"}))
    assert scaled.mean is not None
    assert scaled.deviation is not None
    assert (scaled.mean.shape, scaled.deviation.shape) == ((81,), (81,))
    assert (scaled.deviation >= 0.3).all()
    np.testing.assert_array_equal(plain.mean, 0)
    np.testing.assert_array_equal(plain.deviation, 1)


@pytest.mark.parametrize("scaling", ["z-score", "none"])
def test_a_proved_run_refuses_a_scaling_that_reads_records_or_is_the_twin_of_another(scaling: str) -> None:
    with pytest.raises(InputError, match=rf"^data.scaling must be noisy-moments or min-max .*, got {scaling}[,;]"):
        prepare_experiment(config.load("proved", {"data.scaling": scaling}))


def asked(kept: Memory, **changes: Any) -> Experiment:
    common = {"partition.clients": 10, "run.participants": 2, "run.rounds": 5, "run.seed": 3, "partition.seed": 0}
    named = {name.replace("__", "."): value for name, value in changes.items()}
    return prepare_experiment(config.load("proved", common | named), known=kept)


def test_runs_that_share_records_budget_and_seed_share_what_was_scaled_whatever_their_method() -> None:
    kept = memory()
    first = asked(kept)
    for other in ({"algorithm__name": "dp-sgd"}, {"algorithm__step_scale": 0.5}, {"run__participants": 4}):
        assert asked(kept, **other).simulation.shards is first.simulation.shards
    np.testing.assert_array_equal(asked(memory()).simulation.shards.features, first.simulation.shards.features)


@pytest.mark.parametrize(
    "change",
    [
        {"run__seed": 4},
        {"privacy__epsilon": 2.0},
        {"data__deviation_floor": 0.2},
        {"data__split": "validation"},
        {"partition__seed": 1},
        {"data__moments_share": 0.2},
    ],
)
def test_what_moments_depend_on_is_never_taken_from_another_run(change: dict[str, Any]) -> None:
    kept = memory()
    first = asked(kept).simulation.shards.features
    other = asked(kept, **change).simulation.shards.features
    np.testing.assert_array_equal(other, asked(memory(), **change).simulation.shards.features)
    assert other.shape != first.shape or not np.array_equal(other, first)


def test_a_secret_seed_is_remembered_nowhere() -> None:
    def refuse(asked: Any) -> Any:
        raise AssertionError("it was remembered")

    assert asked(refuse, run__seed=None).config.run.seed is None
    with pytest.raises(AssertionError):
        asked(refuse)
