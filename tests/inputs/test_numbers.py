"""Numbers that must stay numbers: at the ends of every range a run ends with finite, honest ones, or is refused."""

import warnings
from math import inf, isfinite, isnan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedspd
from fedspd import FedSPDClassifier, FedSPDRegressor
from fedspd.assemble import Run
from fedspd.privacy import WHOLE_SHARD, WITHOUT_REPLACEMENT, RecordSampling, plan_proved
from fedspd.privacy.accounting import FixedSize, Gaussian, Poisson, calibrate, spent

QUICK = {"run.rounds": 2, "data.encode": "declared"}
epsilons = st.floats(-6, 3).map(lambda exponent: 10.0**exponent)
deltas = st.floats(-300, -1).map(lambda exponent: 10.0**exponent)
multipliers = st.floats(-1, 9).map(lambda exponent: 10.0**exponent)


def finite(run: Run) -> None:
    """Every number of a finished run that is there is one; nothing spent exceeds the budget."""
    summary = run.summary
    assert np.isfinite(run.weights).all()
    assert np.isfinite(run.average).all()
    assert isfinite(summary.weights_norm or 0.0)
    assert summary.epsilon_spent_max is not None
    assert summary.epsilon is not None
    assert 0 <= summary.epsilon_spent_max <= summary.epsilon * (1 + 1e-9)
    assert 0 < (summary.noise_multiplier or 0.0) < inf
    if summary.test_accuracy is not None and not isnan(summary.test_accuracy):
        assert 0 <= summary.test_accuracy <= 1


def fitted(x: np.ndarray, y: np.ndarray, bounds: tuple[float, float], **changes: Any) -> Run:
    usual = {"epsilon": 1.0, "delta": 1e-6, "clients": 2, "random_state": 0, "settings": QUICK, "classes": (0, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return FedSPDClassifier(**usual | changes, bounds=bounds).fit(x, y).run_


@pytest.mark.parametrize("size", [1e300, 1e-300, 1.0, 1e150], ids=str)
def test_features_of_any_size_become_finite_weights(size: float) -> None:
    rng = np.random.default_rng(0)
    finite(fitted(size * rng.uniform(-1, 1, (40, 3)), rng.integers(0, 2, 40), (-size, size)))


def test_features_far_outside_their_bounds_are_moved_onto_them() -> None:
    rng = np.random.default_rng(0)
    finite(fitted(rng.choice([-1e300, 0.0, 1e300], (40, 3)), rng.integers(0, 2, 40), (0, 1)))


@pytest.mark.parametrize("value", [0.0, 1.0, 0.5])
def test_constant_columns_and_constant_labels_are_learned_from(value: float) -> None:
    finite(fitted(np.full((40, 3), value), np.zeros(40, int), (0, 1)))


@pytest.mark.parametrize(("records", "clients"), [(20, 20), (20, 1), (2, 2), (1, 1)])
def test_one_record_per_client_and_one_client_are_enough(records: int, clients: int) -> None:
    rng = np.random.default_rng(0)
    finite(fitted(rng.uniform(0, 1, (records, 2)), np.arange(records) % 2, (0, 1), clients=clients))


@pytest.mark.parametrize("columns", [1, 10_000])
def test_one_column_and_very_many_are_learned_from(columns: int) -> None:
    rng = np.random.default_rng(0)
    finite(fitted(rng.uniform(0, 1, (10, columns)), np.arange(10) % 2, (0, 1)))


@pytest.mark.slow
def test_100000_columns_are_learned_from() -> None:
    rng = np.random.default_rng(0)
    finite(fitted(rng.uniform(0, 1, (4, 100_000)), np.arange(4) % 2, (0, 1)))


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_a_target_of_any_size_is_predicted_in_its_bounds(size: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 1, (40, 2)), size * rng.uniform(-1, 1, 40)
    made = FedSPDRegressor(
        epsilon=1.0, delta=1e-6, bounds=(0, 1), clients=2, random_state=0, target_bounds=(-size, size), settings=QUICK
    ).fit(x, y)
    finite(made.run_)
    assert (np.abs(made.predict(x)) <= size).all()


@settings(max_examples=25, deadline=None)
@given(epsilon=epsilons, delta=deltas)
@example(epsilon=1e-6, delta=1e-300)
@example(epsilon=1e3, delta=1e-5)
@example(epsilon=1e4, delta=1e-300)
def test_every_budget_becomes_finite_noise_that_keeps_it(epsilon: float, delta: float) -> None:
    multiplier = calibrate(Gaussian, 20, epsilon, delta)
    assert 0 < multiplier < inf
    assert spent({Gaussian(multiplier): 20}, delta).epsilon <= epsilon


@settings(max_examples=15, deadline=None)
@given(multiplier=multipliers, delta=deltas, rounds=st.sampled_from([1, 20, 1000]))
@example(multiplier=0.1, delta=1e-5, rounds=100_000)
@example(multiplier=1e9, delta=1e-300, rounds=100_000)
def test_what_is_spent_is_a_number_and_not_below_what_an_attack_reaches(
    multiplier: float, delta: float, rounds: int
) -> None:
    for event in (Gaussian(multiplier), FixedSize(multiplier, 325, 50), Poisson(multiplier, 0.1)):
        bound = spent({event: rounds}, delta)
        assert not isnan(bound.epsilon)
        assert bound.epsilon >= 0
        assert bound.epsilon >= (bound.lower_bound or 0.0)


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=5), epsilon=epsilons)
@example(sizes=[1, 10**6], epsilon=1e-6)
@example(sizes=[1], epsilon=1e3)
def test_shards_of_one_record_to_a_million_have_a_plan(sizes: list[int], epsilon: float) -> None:
    plan = plan_proved(epsilon, 1e-9, RecordSampling(WHOLE_SHARD), np.array(sizes), 10)
    assert np.isfinite(plan.noise_multipliers).all()
    assert (plan.budgets <= epsilon * (1 + 1e-9)).all()


@pytest.mark.parametrize("size", [2, 1000, 10**6])
def test_a_draw_of_one_record_from_any_shard_has_a_plan(size: int) -> None:
    plan = plan_proved(1.0, 1e-9, RecordSampling(WITHOUT_REPLACEMENT, 1), np.array([size]), 10)
    assert np.isfinite(plan.noise_multipliers).all()


@pytest.mark.parametrize("rounds", [1, 100_000])
def test_one_round_and_100000_have_a_plan(rounds: int) -> None:
    plan = plan_proved(1.0, 1e-5, RecordSampling(WHOLE_SHARD), np.array([300]), rounds)
    assert np.isfinite(plan.noise_multipliers).all()
    assert (plan.budgets <= 1.0 + 1e-9).all()


@settings(max_examples=30, deadline=None)
@given(
    epsilon=epsilons, delta=st.floats(-300, -5).map(lambda exponent: 10.0**exponent),
    step=st.floats(-9, 9).map(lambda exponent: 10.0**exponent), norm=st.floats(-6, 6).map(lambda e: 10.0**e),
)  # fmt: skip
def test_a_run_ends_finite_or_says_that_it_diverged(epsilon: float, delta: float, step: float, norm: float) -> None:
    changed = {
        "data.name": "digits", "partition.clients": 5, "run.participants": 5, "run.rounds": 3,
        "privacy.epsilon": epsilon, "privacy.delta": delta, "algorithm.step_scale": step, "data.row_norm": norm,
        "metrics.criterion": False, "data.bias": 0.0,
    }  # fmt: skip
    run = fedspd.run("proved", changed)
    if not run.summary.diverged:
        finite(run)
