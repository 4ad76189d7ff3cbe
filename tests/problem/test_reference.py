"""The reference optimum satisfies the optimality condition of the problem as we state it, not as scikit-learn does."""

from typing import Any

import numpy as np
import pytest

from fedspd.errors import InputError
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    GroupL1,
    LeastSquares,
    Loss,
    Objective,
    Regularizer,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
    reference_optimum,
    reference_solver,
)

LOSSES: dict[str, Any] = {
    "softmax-2": Softmax(2),
    "softmax-3": Softmax(3),
    "least-squares": LeastSquares(),
    "squared-hinge": SquaredHinge(),
}
REGULARIZERS: dict[str, Any] = {
    "none": Unregularized(),
    "l1": L1(0.4),
    "squared-l2": SquaredL2(0.6),
    "elastic-net": ElasticNet(0.8, 0.3),
}
SUPPORTED = [
    (loss, regularizer)
    for loss in LOSSES
    for regularizer in REGULARIZERS
    if not (loss == "squared-hinge" and regularizer in ("none", "elastic-net"))
]
RECORDS, COLUMNS = 60, 4
# Zero weights leave 1 to 5, near misses (below) 0.01 to 1, and the loosest solver (liblinear, which stops
# at a relative 1e-5) leaves 1e-6.
TOLERANCE = 1e-5
problems = pytest.mark.parametrize(("loss_name", "regularizer_name"), SUPPORTED)


def records(loss: Loss) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, noisy labels that no plane separates, and weights 1/m of clients of unequal size."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((RECORDS, COLUMNS))
    scores = features @ rng.standard_normal((COLUMNS, max(loss.outputs, 2))) + 2 * rng.standard_normal((RECORDS, 1))
    labels = np.argmax(scores + 2 * rng.standard_normal(scores.shape), axis=1)
    sizes = np.array([2, 3, 5, 10, 40])
    return features, labels, np.repeat(1 / sizes, sizes)


def residual(loss: Loss, regularizer: Regularizer, x: np.ndarray) -> float:
    """|x - prox_R(x - gradient)|, zero at optima of the weighted problem and nowhere else."""
    features, labels, record_weights = records(loss)
    each = Objective(loss, regularizer, np.inf).record_gradients(x, features, labels)
    gradient = np.tensordot(record_weights, each, axes=1)
    return float(np.linalg.norm(x - regularizer.prox(x - gradient, 1.0)))


@problems
def test_the_reference_optimum_meets_first_order_optimality(loss_name: str, regularizer_name: str) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    x = reference_optimum(loss, regularizer, *records(loss))
    assert x.shape == (COLUMNS, loss.outputs)
    assert residual(loss, regularizer, x) < TOLERANCE


@problems
def test_ignoring_the_record_weights_or_a_tenth_of_the_strength_would_be_noticed(
    loss_name: str, regularizer_name: str
) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    features, labels, record_weights = records(loss)
    even = np.full(RECORDS, record_weights.mean())
    assert residual(loss, regularizer, reference_optimum(loss, regularizer, features, labels, even)) > 1000 * TOLERANCE
    if regularizer_name != "none":
        weaker = reference_optimum(loss, regularizer.scaled(0.9), *records(loss))
        assert residual(loss, regularizer, weaker) > 1000 * TOLERANCE


@problems
def test_the_reference_optimum_is_the_same_bits_every_time(loss_name: str, regularizer_name: str) -> None:
    loss, regularizer = LOSSES[loss_name], REGULARIZERS[regularizer_name]
    first, again = (reference_optimum(loss, regularizer, *records(loss)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_the_two_columns_of_a_binary_softmax_optimum_are_opposite() -> None:
    x = reference_optimum(Softmax(2), L1(0.4), *records(Softmax(2)))
    np.testing.assert_array_equal(x[:, 0], -x[:, 1])
    assert x.any()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("regularizer", [Box(0.5), GroupL1(0.5)], ids=["box", "group-l1"])
def test_a_regularizer_without_a_trusted_solver_is_refused_with_a_remedy(loss: Loss, regularizer: Regularizer) -> None:
    with pytest.raises(InputError, match=rf"{type(regularizer).__name__}; set metrics.criterion = false"):
        reference_optimum(loss, regularizer, *records(loss))


@pytest.mark.parametrize("regularizer", [Unregularized(), ElasticNet(0.8, 0.3)], ids=["none", "elastic-net"])
def test_a_squared_hinge_without_a_trusted_solver_is_refused_before_any_record_is_read(
    regularizer: Regularizer,
) -> None:
    with pytest.raises(InputError, match=rf"l1 or squared-l2 alone, got {type(regularizer).__name__}; set metrics"):
        reference_solver(SquaredHinge(), regularizer, 1.0)
