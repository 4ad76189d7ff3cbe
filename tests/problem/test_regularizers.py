"""Regularizers: values by their plain formulas, and prox as the one minimizer it is defined to be."""

from math import inf, sqrt
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from fedspd.errors import InputError
from fedspd.problem import L1, Box, ElasticNet, GroupL1, Regularizer, SquaredL2, Unregularized, make_regularizer

ALL: dict[str, Any] = {
    "none": Unregularized(),
    "l1": L1(0.7),
    "squared-l2": SquaredL2(1.3),
    "elastic-net": ElasticNet(0.9, 0.3),
    "group-l1": GroupL1(0.8),
    "box": Box(0.5),
}
every_regularizer = pytest.mark.parametrize("regularizer", ALL.values(), ids=ALL.keys())
light = settings(deadline=None, max_examples=25)
steps = st.floats(0.05, 5)


def weights(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, shape, elements=st.floats(-4, 4, allow_subnormal=False) | st.just(0.0))


def prox_objective(regularizer: Regularizer, x: np.ndarray, v: np.ndarray, step: float) -> float:
    return float(np.sum((x - v) ** 2) / (2 * step) + regularizer.value(x))


@every_regularizer
@given(v=weights(3, 2), step=steps, seed=st.integers(0, 2**32))
@light
def test_no_point_is_better_than_the_prox_and_far_points_are_worse_by_strong_convexity(
    regularizer: Regularizer, v: np.ndarray, step: float, seed: int
) -> None:
    """The minimizer p of a 1/step-strongly convex function, and only it, has phi(x) >= phi(p) + |x-p|^2/(2 step)."""
    p = regularizer.prox(v, step)
    least = prox_objective(regularizer, p, v, step)
    assert np.isfinite(least)
    directions = np.random.default_rng(seed).standard_normal((60, 3, 2))
    for direction, length in zip(directions, np.geomspace(1e-4, 10, 60), strict=True):
        x = p + length * direction / np.linalg.norm(direction)
        if isinstance(regularizer, Box):
            x = np.clip(x, -regularizer.radius, regularizer.radius)
        gain = prox_objective(regularizer, x, v, step) - least
        assert gain >= np.sum((x - p) ** 2) / (2 * step) - 1e-12 * (1 + least)


@every_regularizer
@pytest.mark.parametrize("v", [(3.0, -2.0), (0.6, 0.1), (-0.2, 0.0)], ids=str)
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_prox_agrees_with_a_general_minimizer(regularizer: Regularizer, v: tuple[float, float], step: float) -> None:
    point = np.array([v])
    found = minimize(
        lambda x: prox_objective(regularizer, x[None], point, step),
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2000},
    )
    np.testing.assert_allclose(regularizer.prox(point, step)[0], found.x, atol=1e-6)


@every_regularizer
@given(u=weights(3, 2), v=weights(3, 2), step=steps)
@light
def test_prox_brings_no_two_points_further_apart(
    regularizer: Regularizer, u: np.ndarray, v: np.ndarray, step: float
) -> None:
    after = np.linalg.norm(regularizer.prox(u, step) - regularizer.prox(v, step))
    assert after <= np.linalg.norm(u - v) * (1 + 1e-12) + 1e-15


@every_regularizer
@given(stack=weights(4, 3, 2), own=arrays(np.float64, 4, elements=steps))
@light
def test_a_stack_is_treated_matrix_by_matrix(regularizer: Regularizer, stack: np.ndarray, own: np.ndarray) -> None:
    together, values = regularizer.prox(stack, own[:, None, None]), regularizer.value(stack)
    assert values.shape == (4,)
    for client in range(4):
        np.testing.assert_array_equal(together[client], regularizer.prox(stack[client], own[client]))
        assert values[client] == regularizer.value(stack[client])


@every_regularizer
@given(v=weights(3, 2), step=steps, factor=st.floats(0.01, 100))
@light
def test_scaling_multiplies_the_value_and_lengthens_the_prox_step(
    regularizer: Regularizer, v: np.ndarray, step: float, factor: float
) -> None:
    scaled = regularizer.scaled(factor)
    assert scaled.value(v) == pytest.approx(factor * regularizer.value(v), rel=1e-12)
    np.testing.assert_allclose(scaled.prox(v, step), regularizer.prox(v, factor * step), rtol=1e-9, atol=1e-12)


@given(x=weights(3, 2))
@light
def test_values_are_the_plain_formulas(x: np.ndarray) -> None:
    entries, rows = [float(entry) for entry in x.flat], x.tolist()
    l1, squares = sum(abs(entry) for entry in entries), sum(entry * entry for entry in entries)
    expected = {
        "none": 0.0,
        "l1": 0.7 * l1,
        "squared-l2": 1.3 / 2 * squares,
        "elastic-net": 0.9 * (0.3 * l1 + 0.7 / 2 * squares),
        "group-l1": 0.8 * sum(sqrt(first * first + second * second) for first, second in rows),
        "box": 0.0 if all(abs(entry) <= 0.5 for entry in entries) else inf,
    }
    for name, value in expected.items():
        assert ALL[name].value(x) == pytest.approx(value, rel=1e-12), name


def test_a_worked_example_of_every_prox() -> None:
    v = np.array([[3.0, 4.0], [-0.5, 0.0]])
    expected = {
        "none": v,
        "l1": [[2.3, 3.3], [0.0, 0.0]],  # every entry 0.7 nearer to zero
        "squared-l2": v / 2.3,
        "elastic-net": np.array([[2.73, 3.73], [-0.23, 0.0]]) / 1.63,
        "group-l1": [[3 * 4.2 / 5, 4 * 4.2 / 5], [0.0, 0.0]],  # norms 5 and 0.5, less 0.8
        "box": [[0.5, 0.5], [-0.5, 0.0]],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(ALL[name].prox(v, 1.0), value, rtol=1e-14, atol=1e-16, err_msg=name)


@given(v=weights(3, 2), step=steps)
@light
def test_unregularized_weights_are_left_as_they_are_and_the_box_ignores_the_step(v: np.ndarray, step: float) -> None:
    np.testing.assert_array_equal(Unregularized().prox(v, step), v)
    inside = Box(0.5).prox(v, step)
    np.testing.assert_array_equal(inside, np.minimum(np.maximum(v, -0.5), 0.5))
    np.testing.assert_array_equal(Box(0.5).prox(inside, step), inside)


def test_on_the_edge_of_the_box_is_inside() -> None:
    assert Box(0.5).value(np.full((3, 2), 0.5)) == 0.0
    assert Box(0.5).value(np.full((3, 2), np.nextafter(0.5, 1))) == inf


@pytest.mark.parametrize("name", ["l1", "elastic-net", "group-l1"])
@pytest.mark.parametrize("step", [0.1, 1.0])
def test_a_long_enough_step_makes_weights_exactly_zero(name: str, step: float) -> None:
    assert not ALL[name].prox(np.full((3, 2), 0.05 * step), step).any()


@every_regularizer
@given(stack=weights(2, 3, 2), step=steps)
@light
def test_regularizers_use_only_the_array_api_standard(regularizer: Regularizer, stack: np.ndarray, step: float) -> None:
    strict = array_api_strict.asarray(stack)
    for result, plain in (
        (regularizer.value(strict), regularizer.value(stack)),
        (regularizer.prox(strict, step), regularizer.prox(stack, step)),
        (regularizer.subgradient(strict), regularizer.subgradient(stack)),
    ):
        assert type(result) is type(strict)
        np.testing.assert_allclose(np.asarray(result), plain, rtol=1e-15)


def inside(regularizer: Regularizer, x: np.ndarray) -> np.ndarray:
    """The point, or the one nearest to it where the regularizer is finite."""
    return np.clip(x, -regularizer.radius, regularizer.radius) if isinstance(regularizer, Box) else x


@every_regularizer
@given(x=weights(3, 2), y=weights(3, 2))
@light
def test_a_subgradient_supports_the_regularizer_from_below(
    regularizer: Regularizer, x: np.ndarray, y: np.ndarray
) -> None:
    x = inside(regularizer, x)
    slope = regularizer.subgradient(x)
    for point in (y, x + slope, x + 100 * slope):  # far along the slope one that is too long overshoots
        support = regularizer.value(x) + np.sum(slope * (point - x))
        assert regularizer.value(point) >= support - 1e-12 * (1 + abs(support))


def test_rows_whose_squares_are_no_numbers_have_a_direction() -> None:
    group, direction = GroupL1(0.8), np.array([[0.6, 0.8]])
    for length in (1e-158, 1e-300, 1e300):
        assert group.subgradient(length * direction) == pytest.approx(0.8 * direction, rel=1e-15)
        assert group.value(length * direction) == pytest.approx(0.8 * length, rel=1e-15)


@every_regularizer
@given(x=arrays(np.float64, (3, 2), elements=st.integers(-8, 8).map(lambda k: k / 4)))
@light
def test_the_subgradient_is_the_one_of_least_norm(regularizer: Regularizer, x: np.ndarray) -> None:
    """The way to the proximal point, over the step: it tends to the shortest subgradient as the step shrinks."""
    x, step = inside(regularizer, x), 1e-7
    np.testing.assert_allclose(regularizer.subgradient(x), (x - regularizer.prox(x, step)) / step, atol=1e-6)


def test_outside_its_box_the_subgradient_of_the_box_is_zero_as_documented() -> None:
    assert not Box(0.5).subgradient(np.full((3, 2), 2.0)).any()


@every_regularizer
@given(stack=weights(4, 3, 2), factor=st.floats(0.01, 100))
@light
def test_subgradients_are_taken_matrix_by_matrix_and_scale_with_the_regularizer(
    regularizer: Regularizer, stack: np.ndarray, factor: float
) -> None:
    together = regularizer.subgradient(stack)
    for client in range(4):
        np.testing.assert_array_equal(together[client], regularizer.subgradient(stack[client]))
    np.testing.assert_allclose(regularizer.scaled(factor).subgradient(stack), factor * together, rtol=1e-12, atol=0)


def test_a_worked_example_of_every_subgradient() -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0], [0.0, 2.0]])
    signs = np.array([[1.0, -1.0], [0.0, 0.0], [0.0, 1.0]])
    expected = {
        "none": 0 * x,
        "l1": 0.7 * signs,
        "squared-l2": 1.3 * x,
        "elastic-net": 0.9 * (0.3 * signs + 0.7 * x),
        "group-l1": 0.8 * np.array([[0.6, -0.8], [0.0, 0.0], [0.0, 1.0]]),
        "box": 0 * x,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(ALL[name].subgradient(x), value, rtol=1e-14, atol=0, err_msg=name)


def test_a_name_makes_its_regularizer_and_an_unknown_name_is_refused() -> None:
    assert make_regularizer("none", 2.0, 0.25) == Unregularized()
    assert make_regularizer("l1", 2.0, 0.25) == L1(2.0)
    assert make_regularizer("squared-l2", 2.0, 0.25) == SquaredL2(2.0)
    assert make_regularizer("elastic-net", 2.0, 0.25) == ElasticNet(2.0, 0.25)
    assert make_regularizer("group-l1", 2.0, 0.25) == GroupL1(2.0)
    assert make_regularizer("box", 2.0, 0.25) == Box(2.0)
    with pytest.raises(InputError, match=r"one of none, l1, .* got 'l3'"):
        make_regularizer("l3", 2.0, 0.25)
