"""The real queries in float64 against the same text in extended precision, up to the declared range of x_0."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.algorithms.base import Released, Told
from fedspd.algorithms.methods.dp_admm import DPADMM
from fedspd.algorithms.methods.dp_fedavg import DPFedAvg
from fedspd.algorithms.methods.dp_sgd import DPSGD
from fedspd.algorithms.methods.fedavg import FedAvg
from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.algorithms.moments import Moments
from fedspd.algorithms.parts.step_sizes import Constant
from fedspd.privacy.rounding import GradientSum, gradient_rounding, steps_rounding, sum_rounding
from fedspd.privacy.sensitivity import moment_sums, proximal_average
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    GroupL1,
    Huber,
    LeastSquares,
    Loss,
    Objective,
    Poisson,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
)
from fedspd.typing import Batches

wide = pytest.mark.skipif(
    bool(np.finfo(np.longdouble).eps > 2.0**-60), reason="extended precision is no wider than float64 on this processor"
)

REGULARIZERS: list[Callable[[Any], Any]] = [
    lambda kind: Unregularized(),
    lambda kind: L1(kind(0.3)),
    lambda kind: SquaredL2(kind(0.5)),
    lambda kind: ElasticNet(kind(0.4), kind(0.5)),
    lambda kind: GroupL1(kind(0.2)),
    lambda kind: Box(kind(40.0)),
]
METHODS = ["FedSPD", "FedSPD own start", "DPSGD", "DPADMM", "FedAvg", "FedProx"]
LOSSES: list[Loss] = [Softmax(2), Softmax(5), LeastSquares(), SquaredHinge(), Huber(0.4), Poisson(1.0, 0.3)]


class Case(NamedTuple):
    """Public settings and norms, and the seed of everything else."""

    method: str = "FedSPD"
    loss: Loss = LOSSES[0]
    regularizer: int = 1
    clip_norm: float = 0.5
    local_steps: int = 1
    gamma: float = 0.3
    rho: float = 0.05
    records: int = 20
    columns: int = 6
    center: float = 1.0  # |x_0|
    dual: float = 0.1
    own: float = 1.0  # |x̃|
    seed: int = 0


class Public(NamedTuple):
    """What the server sends and the client has released."""

    center: np.ndarray
    own: np.ndarray
    dual: np.ndarray


def public(case: Case) -> Public:
    """Random directions of the declared norms."""
    directions = np.random.default_rng(case.seed + 1).standard_normal((3, 1, case.columns, case.loss.outputs))
    norms = (case.center, case.own, case.dual)
    return Public(*(norm * way / np.linalg.norm(way) for norm, way in zip(norms, directions, strict=True)))


def query(case: Case, kind: Any) -> np.ndarray:
    """What the method computes, with every number of the type `kind`."""
    rng = np.random.default_rng(case.seed)
    features = rng.standard_normal((1, case.local_steps, case.records, case.columns))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=-1, keepdims=True))
    labels = rng.integers(0, max(2, case.loss.outputs), features.shape[:-1])
    objective = Objective(case.loss, REGULARIZERS[case.regularizer](kind), kind(case.clip_norm))
    gamma, rho, steps = kind(case.gamma), kind(case.rho), case.local_steps
    method: Any = {
        "FedSPD": lambda: FedSPD(objective, 3, rho, steps, gamma, 1.0),
        "FedSPD own start": lambda: FedSPD(objective, 3, rho, steps, gamma, 1.0, "own"),
        "DPSGD": lambda: DPSGD(objective, Constant(gamma)),
        "DPADMM": lambda: DPADMM(objective, 3, rho, Constant(gamma)),
        "FedAvg": lambda: DPFedAvg(FedAvg(objective, steps, Constant(gamma), kind(0.0)), 1.0),
        "FedProx": lambda: DPFedAvg(FedAvg(objective, steps, Constant(gamma), rho), 1.0),
    }[case.method]()
    batches = Batches(features.astype(kind), labels, np.array([case.records], kind))
    center, own, dual = (values.astype(kind) for values in public(case))
    told, client = Told(center[0], gamma), Released(own, dual)
    found, kept = method.query(told, client, batches)
    assert kept is None
    assert found.value.dtype == kind
    return np.asarray(found.value)


def bound(case: Case) -> float:
    """What a client enlarges its sensitivity by, twice."""
    size = float(case.records)
    batch = GradientSum(case.clip_norm, 1.0, case.loss.curvature, case.columns, case.loss.outputs, case.records, size)
    if case.method == "DPSGD":
        return gradient_rounding(batch, case.center)
    penalty = 0.0 if case.method == "FedAvg" else case.rho
    subgradient = np.linalg.norm(REGULARIZERS[case.regularizer](float).subgradient(public(case).own))
    start, pull = {
        "FedSPD": (case.center, penalty * case.center + case.dual),
        "FedSPD own start": (case.own, penalty * case.center + case.dual),
        "DPADMM": (case.own, penalty * (2 * case.center + case.own) + case.dual + float(subgradient)),
        "FedAvg": (case.center, 0.0),
        "FedProx": (case.center, penalty * case.center),
    }[case.method]
    return steps_rounding(batch, case.local_steps, case.gamma, penalty, start, pull)


def error(case: Case) -> float:
    """Distance of the float64 query from the one in extended precision."""
    return float(np.linalg.norm(query(case, np.float64).astype(np.longdouble) - query(case, np.longdouble)))


norms = st.floats(-3.0, 3.0).map(lambda power: 10.0**power)
cases = st.builds(
    Case,
    method=st.sampled_from(METHODS),
    loss=st.sampled_from(LOSSES),
    regularizer=st.integers(0, len(REGULARIZERS) - 1),
    clip_norm=st.floats(0.01, 2.0),
    local_steps=st.just(1),
    gamma=st.floats(0.01, 100.0),
    rho=st.floats(0.01, 10.0),
    records=st.integers(1, 60),
    columns=st.integers(1, 30),
    center=norms,
    dual=norms,
    own=norms,
    seed=st.integers(0, 2**32),
)


def several_steps(case: Case, local_steps: int) -> Case:
    """The same with Q > 1, where the sensitivity proof allows it."""
    if case.loss == Softmax(5) or case.method in ("DPSGD", "DPADMM"):
        return case
    return case._replace(local_steps=local_steps, gamma=max(case.gamma, case.loss.curvature / 2))


@wide
@given(cases, st.integers(1, 5))
@settings(deadline=None, max_examples=300)
def test_no_query_is_further_from_its_real_value_than_the_bound(case: Case, local_steps: int) -> None:
    case = several_steps(case, local_steps)
    assert error(case) <= bound(case)


@wide
@pytest.mark.parametrize("method", METHODS)
def test_the_bound_is_within_a_factor_of_ten_thousand_of_the_worst_that_was_seen(method: str) -> None:
    tried = [Case(method, columns=2, center=1e3, own=1e3, seed=seed) for seed in range(100)]
    assert 1e-4 < max(error(case) / bound(case) for case in tried) <= 1


@wide
@pytest.mark.parametrize("method", ["FedSPD", "FedAvg", "FedProx", "DPADMM"])
def test_a_bound_that_ignored_the_norm_of_what_the_server_sends_would_be_exceeded(method: str) -> None:
    """The first test is sharp."""
    at_the_edge = [Case(method, gamma=100.0, rho=50.0, center=1e3, seed=seed) for seed in range(20)]
    assert max(error(case) for case in at_the_edge) > bound(at_the_edge[0]._replace(center=0.0))


def two_labels(weights: float, ones: int, records: int) -> np.ndarray:
    """The query of FedSPD-DP on equal rows of norm 1, some of label 1, at weights the same for both classes."""
    method = FedSPD(Objective(Softmax(2), Unregularized(), sqrt(0.5)), 1, 0.5, 1, 0.5, 1.0)
    center = np.full((1, 1, 2), weights)
    labels = (np.arange(records) < ones).astype(np.int64)
    batches = Batches(np.ones((1, 1, records, 1)), labels[None, None], np.array([float(records)]))
    return np.asarray(method.query(Told(center[0], 0.5), Released(center, 0 * center), batches)[0].value)


def test_a_server_that_sends_a_huge_model_moves_the_query_fifty_times_further_and_only_the_enlarged_bound_holds() -> (
    None
):
    records, sensitivity = 100, 2 * sqrt(0.5) / 100
    honest = np.linalg.norm(two_labels(1.0, 25, records) - two_labels(1.0, 26, records))
    assert honest == pytest.approx(sensitivity)
    huge = 2.4e15 + 0.5  # float64 numbers are half a unit apart here: the mean gradient is rounded at 1/4
    attacked = float(np.linalg.norm(two_labels(huge, 25, records) - two_labels(huge, 26, records)))
    assert attacked == pytest.approx(50 * sensitivity)
    batch = GradientSum(sqrt(0.5), 1.0, 0.5, 1, 2, records, records)
    for norm, allows in ((1e3, False), (sqrt(2) * huge, True)):
        rounding = steps_rounding(batch, 1, 0.5, 0.5, norm, 0.5 * norm)
        assert (attacked <= sensitivity + 2 * rounding) == allows


@wide
def test_at_such_a_model_rounding_alone_exceeds_the_sensitivity() -> None:
    case = Case(records=1, center=2.4e15, clip_norm=0.01)
    assert error(case) > 2 * case.clip_norm / (case.records * (case.gamma + case.rho))


def test_for_adult_the_enlargement_is_below_a_millionth_of_the_sensitivity() -> None:
    """Five clients, the step sizes of the rules at epsilon 1, x_0 up to 1,000, the dual up to 0.5."""
    gamma = rho = 0.00504
    batch = GradientSum(0.5, 1.0, 0.5, 82, 2, 6500, 6500.0)
    rounding = steps_rounding(batch, 1, gamma, rho, 1e3, rho * 1e3 + 0.5)
    sensitivity = proximal_average("replace-one", 0.5, 6500, 1, gamma, rho)
    assert 2 * rounding / sensitivity == pytest.approx(5.9e-7, rel=0.01)
    assert 2 * gradient_rounding(batch, 1e3) / (2 * 0.5 / 6500) < 1e-6
    assert 2 * sum_rounding(6500, 10) / moment_sums("replace-one", 7, 5) < 1e-6


@given(st.integers(1, 300), st.integers(1, 6), st.integers(0, 2**32))
@settings(deadline=None)
def test_the_sums_for_scaling_are_no_further_from_their_real_values_than_the_bound(
    rows: int, numeric: int, seed: int
) -> None:
    """Real values by whole numbers: a sum of fractions is exact."""
    rng = np.random.default_rng(seed)
    table = rng.uniform(-1.0, 1.0, (rows, numeric)) * 10.0 ** -rng.integers(0, 4, numeric)
    table = np.concatenate([table, rng.integers(0, 2, (rows, 2)).astype(float)], axis=1)
    moments = Moments(np.arange(numeric + 2) < numeric, 1, 0.1)
    computed = np.asarray(moments.query(table, np.array([0, rows])).value)[0]
    exact = [[Fraction(value) for value in column] for column in table.T.tolist()]
    sums = [sum(column) for column in exact] + [sum(value**2 for value in column) for column in exact[:numeric]]
    gaps = [float(Fraction(value) - real) for value, real in zip(computed.tolist(), sums, strict=True)]
    assert np.linalg.norm(gaps) <= sum_rounding(rows, 2 * numeric)
    assert gaps[numeric : numeric + 2] == [0.0, 0.0], "levels are whole numbers"


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
@settings(deadline=None)
def test_means_over_persons_rows_are_no_further_from_their_real_values_than_the_bound(
    persons: int, most: int, seed: int
) -> None:
    """Levels are no whole numbers any more, so they count too."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, most + 1, persons)
    rows, shares = int(times.sum()), np.repeat(1 / times, times)
    table = np.concatenate([rng.uniform(-1.0, 1.0, (rows, 2)), np.eye(2)[rng.integers(0, 2, rows)]], axis=1)
    moments = Moments(np.array([True, True, False, False]), 1, 0.1)
    computed = np.asarray(moments.query(table, np.array([0, rows]), shares).value)[0].tolist()
    real = [Fraction(1, int(count)) for count in np.repeat(times, times)]
    exact = [[Fraction(value) for value in column] for column in table.T.tolist()]
    sums = [sum(w * value for w, value in zip(real, column, strict=True)) for column in exact]
    sums += [sum(w * value**2 for w, value in zip(real, column, strict=True)) for column in exact[:2]]
    gaps = [float(Fraction(value) - one) for value, one in zip(computed, sums, strict=True)]
    assert np.linalg.norm(gaps) <= sum_rounding(persons, 6, most)


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32))
@settings(deadline=None)
def test_a_gradient_over_persons_is_no_further_from_its_real_value_than_the_bound(
    persons: int, most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    times = rng.integers(1, most + 1, persons)
    rows = rng.standard_normal((1, int(times.sum()), 4))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=-1, keepdims=True))
    labels, weights = rng.integers(0, 2, rows.shape[:2]), 3 * rng.standard_normal((1, 4, 2))

    def gradient(kind: Any) -> np.ndarray:
        shares = np.repeat(1 / times.astype(kind), times)[None]
        objective = Objective(Softmax(2), Unregularized(), kind(0.3))
        found = objective.gradient(weights.astype(kind), rows.astype(kind), labels, np.array([persons], kind), shares)
        return np.asarray(found.mean)

    batch = GradientSum(0.3, 1.0, 0.5, 4, 2, persons, float(persons), most)
    apart = float(np.linalg.norm(gradient(np.float64).astype(np.longdouble) - gradient(np.longdouble)))
    assert apart <= gradient_rounding(batch, float(np.linalg.norm(weights)))


@given(st.floats(1.0, 100.0), st.integers(1, 5))
def test_every_public_number_that_grows_makes_the_bound_grow(factor: float, local_steps: int) -> None:
    batch = GradientSum(0.5, 1.0, 0.5, 10, 2, 50, 50.0)
    before = steps_rounding(batch, local_steps, 1.0, 0.1, 3.0, 0.5)
    assert steps_rounding(batch, local_steps, 1.0, 0.1, 3.0 * factor, 0.5) >= before
    assert steps_rounding(batch, local_steps, 1.0, 0.1, 3.0, 0.5 * factor) >= before
    for name in ("gradient_bound", "row_norm", "smoothness"):
        longer = replace(batch, **{name: getattr(batch, name) * factor})
        assert steps_rounding(longer, local_steps, 1.0, 0.1, 3.0, 0.5) >= before
    for name in ("columns", "outputs", "records"):
        longer = replace(batch, **{name: int(getattr(batch, name) * factor)})
        assert steps_rounding(longer, local_steps, 1.0, 0.1, 3.0, 0.5) >= before
