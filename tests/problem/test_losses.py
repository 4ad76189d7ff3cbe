"""Losses: slopes are derivatives, curvature is the largest second derivative, and large scores do no harm."""

from math import exp, log1p, sqrt
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax, xlogy

from fedspd.errors import InputError
from fedspd.problem import Huber, LeastSquares, Loss, Poisson, Softmax, SquaredHinge

RECORDS = 4
ALL: dict[str, Any] = {f"softmax-{classes}": Softmax(classes) for classes in (2, 3, 4, 5)}
ALL |= {"least-squares": LeastSquares(), "squared-hinge": SquaredHinge()}
every_classifier = pytest.mark.parametrize("loss", list(ALL.values()), ids=list(ALL))
NUMERIC: dict[str, Any] = {
    "least-squares-number": LeastSquares(of_classes=False), "huber": Huber(0.4), "poisson": Poisson(20.0, 2.0),
    "poisson-0-1": Poisson(1.0, 1.0),
}  # fmt: skip
ALL |= NUMERIC
every_loss = pytest.mark.parametrize("loss", ALL.values(), ids=ALL.keys())
light = settings(deadline=None, max_examples=25)


def numbers(*shape: int, size: float = 10.0) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=st.floats(-size, size, allow_subnormal=False))


def classes_of(loss: Loss) -> int:
    return max(loss.outputs, 2)


def labels_of(loss: Loss) -> st.SearchStrategy[np.ndarray]:
    if loss in NUMERIC.values():
        least, most = (0.0, loss.most) if isinstance(loss, Poisson) else (-1.0, 1.0)
        return arrays(np.float64, RECORDS, elements=st.floats(least, most, allow_subnormal=False))
    return arrays(np.int64, RECORDS, elements=st.integers(0, classes_of(loss) - 1))


@every_loss
@given(data=st.data())
@light
def test_slopes_are_the_derivatives_of_values(loss: Loss, data: st.DataObject) -> None:
    scores, labels = data.draw(numbers(RECORDS, loss.outputs)), data.draw(labels_of(loss))
    scores = off_kinks(loss, scores, labels)
    h = 1e-5
    for output in range(loss.outputs):
        step = h * np.eye(loss.outputs)[output]
        numerical = (loss.values(scores + step, labels) - loss.values(scores - step, labels)) / (2 * h)
        # rounding: 1e-16 of a value of at most 121, over h; truncation: below h squared
        np.testing.assert_allclose(loss.slopes(scores, labels)[:, output], numerical, atol=1e-8, rtol=1e-8)


def off_kinks(loss: Loss, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Scores that stand aside from where slopes have a kink."""
    match loss:
        case SquaredHinge():
            kinks = [-1.0 + 0 * labels, 1.0 + 0 * labels]
        case Huber():
            kinks = [labels - loss.threshold, labels + loss.threshold]
        case Poisson():
            kinks = [np.log(loss.most / loss.center) + 0 * labels]
        case _:
            kinks = []
    for kink in kinks:
        scores = np.where(np.abs(scores - kink[:, None]) < 1e-3, scores + 0.01, scores)
    return scores


@pytest.mark.parametrize(
    "loss", [Softmax(2), LeastSquares(), SquaredHinge(), *NUMERIC.values()], ids=lambda loss: type(loss).__name__
)
@given(data=st.data())
@light
def test_bends_are_the_derivatives_of_slopes_along_the_margin(loss: Loss, data: st.DataObject) -> None:
    margins, labels = data.draw(numbers(RECORDS, 1)), data.draw(labels_of(loss))
    margins = off_kinks(loss, margins, labels)
    h = 1e-5
    numerical = (loss.slopes(margins + h, labels) - loss.slopes(margins - h, labels))[:, 0] / (2 * h)
    assert loss.bends(margins, labels).shape == labels.shape
    np.testing.assert_allclose(loss.bends(margins, labels), numerical, atol=1e-9, rtol=1e-9)
    if loss.outputs == 2:  # whole scores have the same margin
        scores = np.concatenate([0 * margins, margins], axis=1)
        np.testing.assert_array_equal(loss.bends(scores, labels), loss.bends(margins, labels))


def test_a_bend_along_one_margin_needs_two_classes() -> None:
    with pytest.raises(InputError, match="one margin needs two classes, got 3"):
        Softmax(3).bends(np.zeros((RECORDS, 3)), np.zeros(RECORDS))


@every_loss
@given(data=st.data(), size=st.floats(0.1, 20))
@light
def test_second_differences_are_between_zero_and_the_curvature(loss: Loss, data: st.DataObject, size: float) -> None:
    scores, labels = data.draw(numbers(RECORDS, loss.outputs)), data.draw(labels_of(loss))
    direction = data.draw(numbers(RECORDS, loss.outputs))
    step = size * direction / np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-3)
    ahead, here, behind = (loss.values(scores + sign * step, labels) for sign in (1, 0, -1))
    bend = ahead - 2 * here + behind
    slack = 1e-14 * (1 + np.abs(ahead) + np.abs(behind))
    assert np.all(bend >= -slack), "not convex along this line"
    assert np.all(bend <= loss.curvature * np.sum(step**2, axis=1) + slack)


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_softmax_attains_its_curvature_between_two_equal_classes(classes: int) -> None:
    scores, direction = np.full(classes, -60.0), np.zeros(classes)
    scores[:2], direction[:2] = 0.0, (1 / sqrt(2), -1 / sqrt(2))
    assert Softmax(classes).curvature == 0.5
    assert bend(Softmax(classes), scores, direction, label=0) == pytest.approx(0.5, rel=1e-6)


def test_least_squares_and_the_open_hinge_attain_their_curvature() -> None:
    assert bend(LeastSquares(), np.array([0.3]), np.array([1.0]), 1) == pytest.approx(LeastSquares().curvature)
    assert bend(SquaredHinge(), np.array([0.3]), np.array([1.0]), 1) == pytest.approx(SquaredHinge().curvature)


def test_huber_and_poisson_attain_their_curvature_and_their_slope_bound() -> None:
    poisson, near = Poisson(20.0, 2.0), np.array([np.log(10.0) - 1e-3])  # just below the most
    assert bend(Huber(0.4), np.array([0.3]), np.array([1.0]), 0) == pytest.approx(Huber(0.4).curvature)
    assert poisson.bends(near[None], np.zeros(1))[0] == pytest.approx(poisson.curvature, rel=2e-3)
    for loss in (Huber(0.4), poisson):
        slopes = [abs(loss.slopes(np.array([[score]]), np.zeros(1))[0, 0]) for score in (-30.0, 30.0)]
        assert max(slopes) == loss.slope_bound


@given(data=st.data())
@light
def test_no_label_whatever_makes_a_slope_longer_than_its_bound(data: st.DataObject) -> None:
    scores, labels = data.draw(numbers(RECORDS, 1, size=1e3)), data.draw(numbers(RECORDS, size=1e6))
    for loss in (Huber(0.4), Poisson(20.0, 2.0), Poisson(1.0, 0.3)):
        assert np.all(np.abs(loss.slopes(scores, labels)) <= loss.slope_bound)


def bend(loss: Loss, scores: np.ndarray, direction: np.ndarray, label: int, h: float = 1e-3) -> float:
    ahead, here, behind = (loss.values((scores + t * direction)[None], np.array([label]))[0] for t in (h, 0, -h))
    return float(ahead - 2 * here + behind) / h**2


@given(record=numbers(3, size=3), weights=numbers(3, 2, size=3), label=st.integers(0, 1))
@light
def test_two_classes_give_the_papers_logistic_loss(record: np.ndarray, weights: np.ndarray, label: int) -> None:
    b = np.eye(2)[label] - np.eye(2)[1 - label]
    papers = log1p(exp(-b @ weights.T @ record))
    assert Softmax(2).values((record @ weights)[None], np.array([label]))[0] == pytest.approx(papers, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
@given(data=st.data())
@light
def test_softmax_values_are_minus_log_probabilities(classes: int, data: st.DataObject) -> None:
    scores, labels = data.draw(numbers(RECORDS, classes)), data.draw(labels_of(Softmax(classes)))
    expected = -log_softmax(scores, axis=1)[np.arange(RECORDS), labels]
    np.testing.assert_allclose(Softmax(classes).values(scores, labels), expected, rtol=1e-11, atol=1e-14)


@every_classifier
@given(data=st.data())
@light
def test_the_predicted_class_is_the_label_with_the_least_loss(loss: Loss, data: st.DataObject) -> None:
    scores = data.draw(numbers(RECORDS, loss.outputs, size=0.9))  # where the hinge is open for both classes
    candidates = [loss.values(scores, np.full(RECORDS, label)) for label in range(classes_of(loss))]
    chosen = np.choose(np.asarray(loss.predict(scores), int), candidates)
    np.testing.assert_allclose(chosen, np.min(candidates, axis=0), rtol=1e-12)


@pytest.mark.parametrize("loss", NUMERIC.values(), ids=NUMERIC.keys())
@given(data=st.data())
@light
def test_a_predicted_number_or_rate_is_the_label_that_the_scores_miss_least(loss: Loss, data: st.DataObject) -> None:
    labels = data.draw(labels_of(loss))
    scores = np.log(np.maximum(labels, 0.01) / loss.center) if isinstance(loss, Poisson) else labels
    np.testing.assert_allclose(loss.predict(scores[:, None]), labels, rtol=1e-9, atol=0.02)
    np.testing.assert_allclose(loss.values(scores[:, None], labels), 0.0, atol=0.02)
    assert np.all(loss.values(data.draw(numbers(RECORDS, 1)), labels) >= -1e-12)


def test_poisson_is_half_the_deviance_over_the_most_and_straight_above_its_highest_rate() -> None:
    loss, counts, scores = Poisson(20.0, 2.0), np.array([0.0, 3.0, 20.0]), np.array([[-1.0], [0.5], [2.0]])
    rates = 2 * np.exp(scores[:, 0])
    half = rates - counts + xlogy(counts, counts / rates)
    np.testing.assert_allclose(loss.values(scores, counts), half / 20, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(loss.predict(scores), rates)
    beyond = np.array([[4.0], [5.0], [6.0]])
    assert np.all(loss.predict(beyond) == 20.0)
    np.testing.assert_allclose(np.diff(loss.values(beyond, np.full(3, 5.0))), 0.75)
    assert np.all(loss.predict(-beyond - 10) == 0.002)


@every_loss
@given(data=st.data())
@light
def test_the_contrast_of_weights_decides_values_and_predictions(loss: Loss, data: st.DataObject) -> None:
    features, weights = data.draw(numbers(RECORDS, 3)), data.draw(numbers(3, loss.outputs))
    labels = data.draw(labels_of(loss))
    full, short = features @ weights, features @ loss.contrast(weights)
    assert loss.contrast(weights).shape[1] == (1 if classes_of(loss) == 2 else loss.outputs)
    np.testing.assert_allclose(loss.values(short, labels), loss.values(full, labels), rtol=1e-10, atol=1e-10)
    clear = np.abs(short[:, 0]) > 1e-9  # not a tie, which rounding may break either way
    np.testing.assert_array_equal(loss.predict(short)[clear], loss.predict(full)[clear])


@every_loss
@pytest.mark.parametrize("size", [1e3, 1e4, 1e6])
def test_large_scores_give_finite_values_slopes_and_bends_without_a_warning(loss: Loss, size: float) -> None:
    signs = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * loss.outputs), axis=-1).reshape(-1, loss.outputs)
    for label in range(classes_of(loss)):
        labels = np.full(len(signs), label)
        assert np.isfinite(loss.values(size * signs, labels)).all()
        assert np.isfinite(loss.slopes(size * signs, labels)).all()
        if loss.clip_keeps_convex:
            assert np.isfinite(loss.bends(size * signs, labels)).all()


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_a_confident_softmax_is_as_wrong_as_its_margin(classes: int) -> None:
    scores = 1e4 * np.eye(classes)[:1]
    assert Softmax(classes).values(scores, np.array([0]))[0] == 0.0
    assert Softmax(classes).values(scores, np.array([1]))[0] == 1e4
    np.testing.assert_array_equal(
        Softmax(classes).slopes(scores, np.array([1]))[0], scores[0] / 1e4 - np.eye(classes)[1]
    )


@every_loss
@given(data=st.data())
@light
def test_losses_use_only_the_array_api_standard(loss: Loss, data: st.DataObject) -> None:
    scores, labels = data.draw(numbers(RECORDS, loss.outputs)), data.draw(labels_of(loss))
    strict_scores, strict_labels = array_api_strict.asarray(scores), array_api_strict.asarray(labels)
    if loss.clip_keeps_convex:
        bends = loss.bends(strict_scores, strict_labels)
        np.testing.assert_allclose(np.asarray(bends), loss.bends(scores, labels), rtol=1e-15)
    for strict, plain in (
        (loss.values(strict_scores, strict_labels), loss.values(scores, labels)),
        (loss.slopes(strict_scores, strict_labels), loss.slopes(scores, labels)),
        (loss.contrast(strict_scores), loss.contrast(scores)),
        (loss.predict(strict_scores), loss.predict(scores)),
    ):
        assert type(strict) is type(strict_scores)
        np.testing.assert_allclose(np.asarray(strict), plain, rtol=1e-15)
