"""The loss of flipped labels: no bias, convex, and as steep as it says."""

from math import exp, log, sqrt

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedspd.privacy.mechanism import randomized_response
from fedspd.problem import FlippedLabels, Objective, Softmax, Unregularized

RECORDS = 5
chances = st.floats(0.0, 0.45)
scores = arrays(np.float64, (RECORDS, 2), elements=st.floats(-10, 10, allow_subnormal=False))
labels = arrays(np.int64, RECORDS, elements=st.integers(0, 1))
light = settings(deadline=None, max_examples=50)


@given(chance=chances, scores=scores, labels=labels)
@light
def test_over_all_flips_values_and_slopes_have_the_mean_of_the_true_label(
    chance: float, scores: np.ndarray, labels: np.ndarray
) -> None:
    loss, size = FlippedLabels(chance), 20 / (1 - 2 * chance)
    for of in ("values", "slopes"):
        kept, flipped = (getattr(loss, of)(scores, those) for those in (labels, 1 - labels))
        true = getattr(Softmax(2), of)(scores, labels)
        np.testing.assert_allclose((1 - chance) * kept + chance * flipped, true, rtol=0, atol=1e-14 * size)


def test_randomized_response_and_the_loss_agree_on_the_chance_of_a_flip() -> None:
    """The mean over many flipped copies is the loss of the true labels, and is not with a chance 5 % off."""
    rng, chance, copies = np.random.default_rng(0), 0.3, 400_000
    labels = rng.integers(0, 2, copies)
    scores = (
        2.0 * np.eye(2)[labels]
    )  # which know the label: else a loss with the wrong chance would be right on average
    flipped = randomized_response(labels, rng.random(copies), chance)
    true = Softmax(2).values(scores, labels)

    def deviations(factor: float) -> float:
        off = FlippedLabels(chance * factor).values(scores, flipped) - true
        return abs(float(off.mean())) / (float(off.std()) / sqrt(copies))

    assert deviations(1.0) < 4
    assert min(deviations(0.95), deviations(1.05)) > 6


@given(label_epsilon=st.floats(0.2, 8), scores=scores, labels=labels)
@light
def test_it_is_the_published_fraction(label_epsilon: float, scores: np.ndarray, labels: np.ndarray) -> None:
    """(e^ε l(y) - l(-y)) / (e^ε - 1), with the logistic l(y) = ln(1 + e^(-y m)) of the margin m and y = ±1."""
    margins, signs = scores[:, 1] - scores[:, 0], 2 * labels - 1
    one, other = (np.logaddexp(0, -y * margins) for y in (signs, -signs))
    fraction = (exp(label_epsilon) * one - other) / (exp(label_epsilon) - 1)
    loss = FlippedLabels(1 / (1 + exp(label_epsilon)))
    np.testing.assert_allclose(loss.values(scores, labels), fraction, rtol=1e-9, atol=1e-9)


@given(chance=chances, scores=scores, labels=labels)
@light
def test_slopes_are_the_derivatives_of_values(chance: float, scores: np.ndarray, labels: np.ndarray) -> None:
    loss, h = FlippedLabels(chance), 1e-5
    for output in range(2):
        step = h * np.eye(2)[output]
        numerical = (loss.values(scores + step, labels) - loss.values(scores - step, labels)) / (2 * h)
        np.testing.assert_allclose(loss.slopes(scores, labels)[:, output], numerical, atol=1e-8, rtol=1e-8)


@given(chance=chances, scores=scores, labels=labels)
@light
def test_bends_are_the_derivatives_of_slopes_along_the_margin(
    chance: float, scores: np.ndarray, labels: np.ndarray
) -> None:
    loss, h, margins = FlippedLabels(chance), 1e-5, scores[:, 1:]
    numerical = (loss.slopes(margins + h, labels) - loss.slopes(margins - h, labels))[:, 0] / (2 * h)
    np.testing.assert_allclose(loss.bends(margins, labels), numerical, atol=1e-9, rtol=1e-9)


@given(chance=chances, scores=scores, labels=labels, direction=scores)
@light
def test_it_is_convex_and_as_smooth_as_cross_entropy_whatever_the_chance(
    chance: float, scores: np.ndarray, labels: np.ndarray, direction: np.ndarray
) -> None:
    loss = FlippedLabels(chance)
    ahead, here, behind = (loss.values(scores + sign * direction, labels) for sign in (1, 0, -1))
    bend, slack = ahead - 2 * here + behind, 1e-12 / (1 - 2 * chance)
    assert np.all(bend >= -slack)
    assert np.all(bend <= loss.curvature * np.sum(direction**2, axis=1) + slack)


def test_the_curvature_is_attained_between_equal_scores() -> None:
    loss, step = FlippedLabels(0.3), np.array([[1.0, -1.0]]) / sqrt(2) * 1e-3
    ahead, here, behind = (loss.values(sign * step, np.array([0]))[0] for sign in (1, 0, -1))
    assert (ahead - 2 * here + behind) / 1e-6 == pytest.approx(loss.curvature, rel=1e-4)


@given(chance=chances, scores=scores, labels=labels, size=st.floats(1, 20))
@light
def test_no_slope_is_longer_than_its_bound(chance: float, scores: np.ndarray, labels: np.ndarray, size: float) -> None:
    loss = FlippedLabels(chance)
    norms = np.linalg.norm(loss.slopes(size * scores, labels), axis=1)
    assert np.all(norms <= loss.slope_bound * (1 + 1e-14))


@pytest.mark.parametrize("chance", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("label", [0, 1])
def test_the_slope_bound_is_attained_where_the_label_is_most_unlikely(chance: float, label: int) -> None:
    loss, against = FlippedLabels(chance), 60.0 * np.eye(2)[[1 - label]]
    assert np.linalg.norm(loss.slopes(against, np.array([label]))) == pytest.approx(loss.slope_bound, rel=1e-12)
    assert loss.slope_bound == pytest.approx(sqrt(2) * (1 - chance) / (1 - 2 * chance), rel=1e-14)


def test_without_flips_it_is_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((50, 2)), rng.integers(0, 2, 50)
    for of in ("values", "slopes", "bends"):
        np.testing.assert_array_equal(
            getattr(FlippedLabels(0.0), of)(scores, labels), getattr(Softmax(2), of)(scores, labels)
        )


@given(chance=chances, scores=scores, labels=labels)
@light
def test_scores_of_the_contrast_give_the_same(chance: float, scores: np.ndarray, labels: np.ndarray) -> None:
    loss = FlippedLabels(chance)
    contrast = loss.contrast(scores)
    assert contrast.shape == (RECORDS, 1)
    np.testing.assert_allclose(loss.values(contrast, labels), loss.values(scores, labels), rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        loss.spread(loss.slopes(contrast, labels)), loss.slopes(scores, labels), rtol=0, atol=1e-15
    )
    np.testing.assert_array_equal(loss.bends(contrast, labels), loss.bends(scores, labels))
    np.testing.assert_array_equal(loss.predict(contrast), loss.predict(scores))


@pytest.mark.parametrize("columns", [1, 2])
def test_it_uses_only_the_array_api_standard(columns: int) -> None:
    rng, loss = np.random.default_rng(0), FlippedLabels(0.2)
    scores, labels = rng.standard_normal((RECORDS, columns)), rng.integers(0, 2, RECORDS)
    strict = array_api_strict.asarray(scores), array_api_strict.asarray(labels)
    for of in ("values", "slopes", "bends"):
        found = getattr(loss, of)(*strict)
        assert isinstance(found, type(strict[0]))
        np.testing.assert_allclose(np.asarray(found), getattr(loss, of)(scores, labels), rtol=1e-15, atol=0)


def test_large_scores_do_no_harm() -> None:
    loss, scores = FlippedLabels(0.3), np.array([[800.0, -800.0], [-800.0, 800.0]])
    for labels in (np.array([0, 1]), np.array([1, 0])):
        assert np.isfinite(loss.values(scores, labels)).all()
        assert np.isfinite(loss.slopes(scores, labels)).all()


def test_the_bound_of_an_objective_counts_what_the_correction_adds() -> None:
    chance = 1 / (1 + exp(1.0))
    objective = Objective(FlippedLabels(chance), Unregularized(), clip_norm=100.0)
    assert log((1 - chance) / chance) == pytest.approx(1.0)
    assert objective.gradient_bound(2.0) == pytest.approx(2 * sqrt(2) * exp(1) / (exp(1) - 1), rel=1e-12)
