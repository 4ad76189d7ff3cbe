"""One client's objective: clipped gradients, what one record can do to them, and how smooth the loss is."""

from math import inf, sqrt
from statistics import median_low
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedspd.problem import Huber, LeastSquares, Loss, Objective, Poisson, Softmax, SquaredHinge, Unregularized

LOSSES: dict[str, Any] = {
    "softmax-2": Softmax(2),
    "softmax-4": Softmax(4),
    "least-squares": LeastSquares(),
    "squared-hinge": SquaredHinge(),
    "huber": Huber(1.5),
    "poisson": Poisson(1.0, 0.3),
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
@example(seed=6867)  # of certain classes, where only the last digits of a sum are left
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


PERSONS = np.array([0, 1, 1, 1, 2])  # whom each record is about
SHARES = np.broadcast_to(1 / np.bincount(PERSONS)[PERSONS], (CLIENTS, RECORDS))


@every_loss
@seeds
@light
def test_with_shares_it_is_the_mean_over_persons_of_the_means_of_their_clipped_gradients(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    objective = Objective(loss, Unregularized(), G)
    found = objective.gradient(weights, features, labels, np.full(CLIENTS, 3.0), SHARES).mean
    one = np.ones(CLIENTS)
    each = [objective.gradient(weights, features[:, [n]], labels[:, [n]], one).mean for n in range(RECORDS)]
    means = [np.mean([each[n] for n in np.flatnonzero(person == PERSONS)], axis=0) for person in range(3)]
    np.testing.assert_allclose(found, np.mean(means, axis=0), rtol=1e-12, atol=1e-13)


@every_loss
@seeds
@light
def test_replacing_a_person_by_one_with_other_rows_moves_it_by_at_most_2g_over_persons(loss: Loss, seed: int) -> None:
    """The other one has two rows where there were three, of which rows of zeros fill the place."""
    weights, features, labels = draw(loss, seed)
    objective, persons = Objective(loss, Unregularized(), G), np.full(CLIENTS, 3.0)
    before = objective.gradient(weights, features, labels, persons, SHARES).mean
    _, others, other_labels = draw(loss, seed + 1)
    features[:, 1:3], features[:, 3], labels[:, 1:4] = others[:, 1:3], 0.0, other_labels[:, 1:4]
    shares = SHARES.copy()
    shares[:, 1:4] = 1 / 2
    moved = np.linalg.norm(objective.gradient(weights, features, labels, persons, shares).mean - before, axis=(1, 2))
    assert np.all(moved <= 2 * G / 3 * (1 + 1e-12))


@every_loss
def test_turning_all_rows_of_a_person_around_attains_2g_over_persons(loss: Loss) -> None:
    weights, features, _ = draw(loss, 0)
    weights, labels = 0 * weights, np.ones((CLIENTS, RECORDS), int)
    features[:, 1:4] = 100.0
    objective, persons = Objective(loss, Unregularized(), G), np.full(CLIENTS, 3.0)
    before = objective.gradient(weights, features, labels, persons, SHARES).mean
    features[:, 1:4] = -100.0
    moved = np.linalg.norm(objective.gradient(weights, features, labels, persons, SHARES).mean - before, axis=(1, 2))
    np.testing.assert_allclose(moved, 2 * G / 3, rtol=1e-12)


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
            quotient = (ahead - behind) / (2 * h)
            # the hinge bends by 2 within h of its kink, so its difference quotient may be off by h
            tolerance = h if isinstance(loss, SquaredHinge) else 1e-8
            if isinstance(loss, Huber | Poisson):  # these bend, too, and one record of all may lie on its kink
                on_kink = ~np.isclose(gradients[..., column, output], quotient, atol=tolerance, rtol=1e-7)
                assert on_kink.sum() <= 1
                tolerance = np.where(on_kink, h, tolerance)
            assert np.all(np.abs(gradients[..., column, output] - quotient) <= tolerance + 1e-7 * np.abs(quotient))


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


@pytest.mark.parametrize("loss", [loss for loss in LOSSES.values() if not isinstance(loss, Poisson)])
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
def test_the_clipped_share_counts_the_records_whose_gradient_is_longer_than_the_bound(loss: Loss, seed: int) -> None:
    weights, features, labels = draw(loss, seed)
    objective = Objective(loss, Unregularized(), G)
    result = objective.gradient(weights, features, labels, BATCH)
    each = objective.record_gradients(weights, features, labels)
    by_hand = [sum(float(np.linalg.norm(one)) > G for one in records) / RECORDS for records in each]
    np.testing.assert_allclose(result.clipped, by_hand)
    assert result.bound == G
    assert not np.any(Objective(loss, Unregularized(), inf).gradient(weights, features, labels, BATCH).clipped)


@every_loss
@pytest.mark.parametrize("records", [1, 4, 5])
@seeds
@light
def test_the_median_gradient_is_the_mean_of_record_gradients_clipped_to_their_own_median(
    loss: Loss, records: int, seed: int
) -> None:
    """Of an even number of norms the lower one of the two in the middle."""
    weights, features, labels = draw(loss, seed)
    features, labels = 0.1 * features[:, :records], labels[:, :records]
    objective, sizes = Objective(loss, Unregularized(), G), np.array([3.0, 5.0, 7.0])
    result = objective.median_gradient(weights, features, labels, sizes)
    each = objective.record_gradients(weights, features, labels)
    for client in range(CLIENTS):
        norms = [float(np.linalg.norm(one)) for one in each[client]]
        middle = median_low(norms)
        if middle < 1e-9:  # the hinge is closed for most records, and nothing is measured in units of zero
            continue
        total = sum(one * min(1.0, middle / norm) for one, norm in zip(each[client], norms, strict=True) if norm > 0)
        np.testing.assert_allclose(np.ravel(result.bound[client]), middle, rtol=1e-12)
        np.testing.assert_allclose(result.mean[client], total / sizes[client], rtol=1e-12, atol=1e-13)
        longer = sum(norm > middle * (1 + 1e-9) for norm in norms)
        assert result.clipped[client] * records == pytest.approx(longer)
        assert longer <= records // 2


def test_the_median_gradient_does_not_know_the_clip_norm() -> None:
    small, large = (Objective(Softmax(2), Unregularized(), norm) for norm in (1e-3, inf))
    one, two = (objective.median_gradient(*draw(Softmax(2), 0), BATCH) for objective in (small, large))
    np.testing.assert_array_equal(one.mean, two.mean)


@every_loss
def test_rows_of_zeros_are_no_records_of_which_to_take_a_median(loss: Loss) -> None:
    weights, features, labels = draw(loss, 0)
    filled = np.concatenate([features, np.zeros_like(features)], axis=1), np.concatenate([labels, labels], axis=1)
    objective = Objective(loss, Unregularized(), G)
    plain, padded = (objective.median_gradient(weights, *batch, BATCH) for batch in ((features, labels), filled))
    np.testing.assert_allclose(padded.bound, plain.bound, rtol=1e-12)
    np.testing.assert_allclose(padded.mean, plain.mean, rtol=1e-12, atol=1e-13)


@every_loss
def test_where_most_gradients_vanish_the_median_gradient_is_still_a_number(loss: Loss) -> None:
    weights, features, labels = draw(loss, 0)
    result = Objective(loss, Unregularized(), G).median_gradient(weights, 0 * features, labels, BATCH)
    assert not np.any(result.mean)
    assert np.isfinite(result.bound).all()


@every_loss
@given(seed=st.integers(0, 2**32), row_norm=st.floats(0.1, 10), clip_norm=st.floats(0.1, 10) | st.just(inf))
@light
def test_no_clipped_record_gradient_is_longer_than_the_bound(
    loss: Loss, seed: int, row_norm: float, clip_norm: float
) -> None:
    weights, features, labels = draw(loss, seed)
    features *= row_norm / np.linalg.norm(features, axis=2, keepdims=True)
    objective = Objective(loss, Unregularized(), clip_norm)
    for record in range(RECORDS):
        one = features[:, record : record + 1], labels[:, record : record + 1]
        lengths = np.linalg.norm(objective.gradient(100 * weights, *one, np.ones(CLIENTS)).mean, axis=(1, 2))
        assert np.all(lengths <= objective.gradient_bound(row_norm) * (1 + 1e-12))
    assert objective.gradient_bound(row_norm) <= clip_norm


@pytest.mark.parametrize("classes", [2, 4])
def test_a_record_that_a_confident_softmax_gets_wrong_attains_the_largest_gradient(classes: int) -> None:
    objective = Objective(Softmax(classes), Unregularized(), inf)
    row = np.array([[[0.0, 3.0, 0.0, 0.0]]])
    weights = np.zeros((1, COLUMNS, classes))
    weights[0, 1, 0] = 100.0
    gradient = objective.gradient(weights, row, np.array([[1]]), np.ones(1)).mean
    assert np.linalg.norm(gradient) == pytest.approx(objective.largest_gradient(3.0), rel=1e-12)
    assert objective.gradient_bound(3.0) == objective.largest_gradient(3.0) == pytest.approx(3 * sqrt(2))
    assert Objective(Softmax(classes), Unregularized(), 0.5).gradient_bound(3.0) == 0.5


@pytest.mark.parametrize("loss", [LeastSquares(), SquaredHinge()])
def test_a_slope_without_a_bound_is_bounded_by_clipping_alone(loss: Loss) -> None:
    assert Objective(loss, Unregularized(), inf).largest_gradient(0.0) == inf
    assert Objective(loss, Unregularized(), inf).gradient_bound(1.0) == inf
    assert Objective(loss, Unregularized(), 0.5).gradient_bound(1.0) == 0.5


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
        (objective.gradient(*strict, strict_batch).clipped, objective.gradient(*arrays, BATCH).clipped),
        (objective.median_gradient(*strict, strict_batch).mean, objective.median_gradient(*arrays, BATCH).mean),
        (objective.median_gradient(*strict, strict_batch).bound, objective.median_gradient(*arrays, BATCH).bound),
        (objective.record_gradients(*strict), objective.record_gradients(*arrays)),
        (objective.losses(*strict), objective.losses(*arrays)),
    ):
        assert type(result) is type(strict[0])
        np.testing.assert_allclose(np.asarray(result), plain, rtol=1e-13, atol=1e-14)
