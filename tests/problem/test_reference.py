"""The reference optimum satisfies the optimality condition of the problem as we state it, whoever solves it."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import PoissonRegressor

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
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
    reference_optimum,
)
from fedspd.problem.solve import solve

LOSSES: dict[str, Any] = {
    "softmax-2": Softmax(2),
    "softmax-3": Softmax(3),
    "least-squares": LeastSquares(),
    "squared-hinge": SquaredHinge(),
    "huber": Huber(0.3),
    "poisson": Poisson(1.0, 0.5),
}
REGULARIZERS: dict[str, Any] = {
    "none": Unregularized(),
    "l1": L1(0.4),
    "squared-l2": SquaredL2(0.6),
    "elastic-net": ElasticNet(0.8, 0.3),
    "group-l1": GroupL1(0.5),
    "box": Box(0.1),
}
RECORDS, COLUMNS = 60, 4
# Zero weights leave 1 to 5, near misses (below) 0.01 to 1, and the loosest solver (liblinear, which stops
# at a relative 1e-5) leaves 1e-6.
TOLERANCE = 1e-5
PROBLEMS = list(product(LOSSES, REGULARIZERS))
problems = pytest.mark.parametrize(("loss_name", "regularizer_name"), PROBLEMS)


def records(loss: Loss) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, noisy labels that no plane separates, and weights 1/m of clients of unequal size."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((RECORDS, COLUMNS))
    scores = features @ rng.standard_normal((COLUMNS, max(loss.outputs, 2))) + 2 * rng.standard_normal((RECORDS, 1))
    labels = np.argmax(scores + 2 * rng.standard_normal(scores.shape), axis=1)
    sizes = np.array([2, 3, 5, 10, 40])
    return features, labels, np.repeat(1 / sizes, sizes)


def found(*problem: Any) -> np.ndarray:
    """The optimum of a problem that has one."""
    optimum = reference_optimum(*problem)
    assert optimum is not None
    return optimum


def residual(loss: Loss, regularizer: Regularizer, x: np.ndarray) -> float:
    """|x - prox_R(x - gradient)|, zero at optima of the weighted problem and nowhere else."""
    features, labels, record_weights = records(loss)
    each = Objective(loss, regularizer, np.inf).record_gradients(x, features, labels)
    gradient = np.tensordot(record_weights, each, axes=1)
    return float(np.linalg.norm(x - regularizer.prox(x - gradient, 1.0)))


@problems
def test_the_reference_optimum_meets_first_order_optimality(loss_name: str, regularizer_name: str) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    x = found(loss, regularizer, *records(loss))
    assert x.shape == (COLUMNS, loss.outputs)
    assert residual(loss, regularizer, x) < TOLERANCE


@pytest.mark.parametrize(("loss_name", "regularizer_name"), [pair for pair in PROBLEMS if "box" not in pair])
def test_ignoring_the_record_weights_or_a_tenth_of_the_strength_would_be_noticed(
    loss_name: str, regularizer_name: str
) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    features, labels, record_weights = records(loss)
    even = np.full(RECORDS, record_weights.mean())
    assert residual(loss, regularizer, found(loss, regularizer, features, labels, even)) > 1000 * TOLERANCE
    if regularizer_name != "none":
        weaker = found(loss, regularizer.scaled(0.9), *records(loss))
        assert residual(loss, regularizer, weaker) > 1000 * TOLERANCE


def test_the_reference_optimum_of_many_classes_and_real_columns_is_one_and_warns_of_nothing(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """scikit-learn's solver for this ended far from it."""
    features, labels = load_digits(return_X_y=True)
    features = features[:400] / np.linalg.norm(features[:400], axis=1, keepdims=True)
    problem = Softmax(10), L1(1e-4), features, np.asarray(labels[:400]), np.full(400, 1 / 80)
    x = found(*problem)
    loss, regularizer = problem[:2]
    gradient = Objective(loss, regularizer, np.inf).record_gradients(x, features, problem[3]).sum(axis=0) / 80
    assert np.linalg.norm(x - regularizer.prox(x - gradient, 1.0)) < TOLERANCE
    assert not recwarn.list


def test_where_no_solver_comes_near_there_is_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedspd.problem.solve.STEPS", 3)
    assert reference_optimum(Softmax(3), L1(0.4), *records(Softmax(3))) is None


@problems
def test_the_reference_optimum_is_the_same_bits_every_time(loss_name: str, regularizer_name: str) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    first, again = (found(loss, regularizer, *records(loss)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_the_two_columns_of_a_binary_softmax_optimum_are_opposite() -> None:
    x = found(Softmax(2), L1(0.4), *records(Softmax(2)))
    np.testing.assert_array_equal(x[:, 0], -x[:, 1])
    assert x.any()


@pytest.mark.parametrize("loss_name", ["softmax-2", "softmax-3", "least-squares", "squared-hinge"])
@pytest.mark.parametrize("regularizer_name", ["l1", "squared-l2", "elastic-net"])
def test_our_solver_finds_what_scikit_learn_finds(loss_name: str, regularizer_name: str) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    ours, theirs = solve(loss, regularizer, *records(loss)), found(loss, regularizer, *records(loss))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_our_solver_finds_scikit_learns_poisson_regression() -> None:
    loss, strength = Poisson(1e4, 1.0), 1e-4
    features, labels, record_weights = records(loss)
    theirs = PoissonRegressor(alpha=strength * loss.most / record_weights.sum(), fit_intercept=False, tol=1e-10)
    theirs.fit(features, labels, sample_weight=record_weights)
    ours = found(loss, SquaredL2(strength), features, labels, record_weights)
    np.testing.assert_allclose(ours[:, 0], theirs.coef_, atol=1e-4)
    assert np.abs(ours).max() > 0.05
