"""One client's objective: clipped gradients, what one record can do to them, and how smooth the loss is."""

from math import inf
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.problem import LeastSquares, Loss, Objective, Softmax, SquaredHinge, Unregularized

LOSSES: dict[str, Any] = {
    "softmax-2": Softmax(2),
    "softmax-4": Softmax(4),
    "least-squares": LeastSquares(),
    "squared-hinge": SquaredHinge(),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
seeds = given(seed=st.integers(0, 2**32))
light = settings(deadline=None, max_examples=25)
CLIENTS, RECORDS, COLUMNS = 3, 5, 4
G = 1.5
BATCH = np.full(CLIENTS, float(RECORDS))


def draw(loss: Loss, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stacked weights, features whose rows are now short, now long, and labels."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((CLIENTS, COLUMNS, loss.outputs))
    features = rng.standard_normal((CLIENTS, RECORDS, COLUMNS)) * rng.choice([0.1, 1, 30], (CLIENTS, RECORDS, 1))
    return weights, features, rng.integers(0, max(loss.outputs, 2), (CLIENTS, RECORDS))


@every_loss
@seeds
@light
def test_the_gradient_is_the_mean_of_individually_clipped_record_gradients(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    objective = Objective(loss, Unregularized(), G)
    result = objective.gradient(weights, features, labels, BATCH)
    each = objective.record_gradients(weights, features, labels)
    for client in range(CLIENTS):
        total = np.zeros((COLUMNS, loss.outputs))
        for record in range(RECORDS):
            one = each[client, record]
            norm = np.linalg.norm(one)
            total += one * min(1.0, G / norm) if norm > 0 else one
            np.testing.assert_allclose(result.norms[client, record], norm, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(result.mean[client], total / RECORDS, rtol=1e-12, atol=1e-13)


def test_some_records_of_these_draws_are_clipped_and_some_are_not() -> None:
    for loss in LOSSES.values():
        norms = Objective(loss, Unregularized(), G).gradient(*draw(loss, 0), BATCH).norms
        assert 0 < np.mean(np.asarray(norms) > G) < 1


@every_loss
@seeds
@light
def test_replacing_one_record_moves_the_gradient_by_at_most_2g_over_b(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    _, other_features, other_labels = draw(loss, seed + 1)
    objective = Objective(loss, Unregularized(), G)
    before = objective.gradient(weights, features, labels, BATCH).mean
    features[:, 2], labels[:, 2] = other_features[:, 2], other_labels[:, 2]
    moved = np.linalg.norm(objective.gradient(weights, features, labels, BATCH).mean - before, axis=(1, 2))
    assert np.all(moved <= 2 * G / RECORDS * (1 + 1e-12))


@every_loss
def test_turning_a_long_record_around_attains_2g_over_b(loss: Loss) -> None:
    """At zero weights every score is zero, so -a pulls exactly the other way than a."""
    weights, features, _ = draw(loss, 0)
    weights, labels = 0 * weights, np.ones((CLIENTS, RECORDS), int)
    features[:, 2] = 100.0
    objective = Objective(loss, Unregularized(), G)
    before = objective.gradient(weights, features, labels, BATCH).mean
    features[:, 2] = -100.0
    moved = np.linalg.norm(objective.gradient(weights, features, labels, BATCH).mean - before, axis=(1, 2))
    np.testing.assert_allclose(moved, 2 * G / RECORDS, rtol=1e-12)


@every_loss
def test_an_infinite_clip_norm_clips_nothing(loss: Loss) -> None:
    objective = Objective(loss, Unregularized(), inf)
    plain = np.mean(objective.record_gradients(*draw(loss, 1)), axis=1)
    np.testing.assert_allclose(objective.gradient(*draw(loss, 1), BATCH).mean, plain, rtol=1e-12, atol=1e-13)


@every_loss
@seeds
@light
def test_record_gradients_are_the_derivatives_of_losses(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    features /= np.maximum(np.linalg.norm(features, axis=2, keepdims=True), 1)
    objective, h = Objective(loss, Unregularized(), G), 1e-5
    gradients = objective.record_gradients(weights, features, labels)
    assert gradients.shape == (CLIENTS, RECORDS, COLUMNS, loss.outputs)
    for column in range(COLUMNS):
        for output in range(loss.outputs):
            step = np.zeros((COLUMNS, loss.outputs))
            step[column, output] = h
            ahead, behind = (objective.losses(weights + sign * step, features, labels) for sign in (1, -1))
            # the hinge bends by 2 within h of its kink, so its difference quotient may be off by h
            tolerance = h if isinstance(loss, SquaredHinge) else 1e-8
            np.testing.assert_allclose(gradients[..., column, output], (ahead - behind) / (2 * h), atol=tolerance)


@every_loss
@seeds
@light
def test_gradients_change_by_at_most_the_smoothness_times_the_way(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    others = draw(loss, seed + 1)[0]
    objective = Objective(loss, Unregularized(), inf)
    bound = objective.smoothness(float(np.linalg.norm(features, axis=2).max()))
    change = (
        objective.gradient(weights, features, labels, BATCH).mean
        - objective.gradient(others, features, labels, BATCH).mean
    )
    way = np.linalg.norm(weights - others, axis=(1, 2))
    assert np.all(np.linalg.norm(change, axis=(1, 2)) <= bound * way * (1 + 1e-12))


@every_loss
def test_along_a_record_shared_by_all_the_smoothness_is_attained(loss: Loss) -> None:
    record = np.array([3.0, 0.0, 4.0, 0.0])
    features, labels = np.tile(record, (1, RECORDS, 1)), np.ones((1, RECORDS), int)
    weights, direction = np.zeros((1, COLUMNS, loss.outputs)), np.zeros((1, COLUMNS, loss.outputs))
    if loss.outputs > 2:
        weights[..., 2:] = -20 * record[:, None]  # all but two classes out of the question
    h = 1e-4
    direction[..., -1 if loss.outputs == 1 else 1] = h * record
    direction[..., 0] = h * record if loss.outputs == 1 else -h * record
    objective = Objective(loss, Unregularized(), inf)
    change = objective.gradient(weights + direction, features, labels, BATCH[:1]).mean
    change = np.linalg.norm(change - objective.gradient(weights, features, labels, BATCH[:1]).mean)
    assert change / np.linalg.norm(direction) == pytest.approx(objective.smoothness(5.0), rel=1e-5)


@every_loss
@seeds
@light
def test_the_objective_uses_only_the_array_api_standard(loss: Loss, seed: int) -> None:
    arrays = draw(loss, seed)
    weights, features, labels = (array_api_strict.asarray(array) for array in arrays)
    strict = (weights, features, labels)
    strict_batch = array_api_strict.asarray(BATCH)
    objective = Objective(loss, Unregularized(), G)
    for result, plain in (
        (objective.gradient(*strict, strict_batch).mean, objective.gradient(*arrays, BATCH).mean),
        (objective.gradient(*strict, strict_batch).norms, objective.gradient(*arrays, BATCH).norms),
        (objective.record_gradients(*strict), objective.record_gradients(*arrays)),
        (objective.losses(*strict), objective.losses(*arrays)),
    ):
        assert type(result) is type(strict[0])
        np.testing.assert_allclose(np.asarray(result), plain, rtol=1e-13, atol=1e-14)
