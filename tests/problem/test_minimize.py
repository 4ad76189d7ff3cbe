"""The exact sub-problem: its gradient vanishes from any start, and what it finds is what others find."""

from dataclasses import dataclass
from importlib import import_module
from math import inf
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.linear_model import LogisticRegression, Ridge

from fedspd.engine.jax_engine.session import installed, session
from fedspd.errors import InputError
from fedspd.problem import (
    L1,
    Box,
    ElasticNet,
    GroupL1,
    Huber,
    LeastSquares,
    Loss,
    Minimum,
    Objective,
    Poisson,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
    check_exact,
    minimize,
)
from fedspd.problem.fast import library

LOSSES: dict[str, Any] = {"softmax": Softmax(2), "least-squares": LeastSquares(), "squared-hinge": SquaredHinge()}
LOSSES |= {"huber": Huber(0.4), "poisson": Poisson(1.0, 0.3)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
seeds = given(seed=st.integers(0, 2**32))
light = settings(deadline=None, max_examples=25)
STACKS = ("start", "pull", "features", "labels", "divisors")
needs_jax = pytest.mark.skipif(not installed(), reason="JAX is not installed")
STRENGTH = 0.01


@dataclass(frozen=True)
class Problem:
    """Unequal shards, filled up with rows of zeros."""

    objective: Objective
    start: Any
    curvature: Any
    pull: Any
    features: Any
    labels: Any
    divisors: Any

    def solved(self, **changed: Any) -> Any:
        given = vars(self) | changed
        return minimize(**given, influence=min(self.objective.clip_norm, 1.0) / given["divisors"])

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Record by record, one client after the other."""
        objective, total = self.objective, np.zeros_like(weights)
        each = objective.record_gradients(weights, self.features, self.labels)
        for client, record in np.ndindex(self.labels.shape):
            one = each[client, record]
            total[client] += one / max(1.0, np.linalg.norm(one) / objective.clip_norm) / self.divisors[client]
        return total + objective.regularizer.subgradient(weights) + self.curvature * weights - self.pull


def draw(
    loss: Loss,
    seed: int,
    clip_norm: float = 0.5,
    curvature: Any = 0.1,
    distance: float = 1.0,
    clients: int = 4,
    records: int = 30,
    columns: int = 7,
) -> Problem:
    """Rows of norm up to one; the solution is within 100 or so of zero, the start as far away as `distance`."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((clients, records, columns)) * rng.choice([0.05, 1], (clients, records, 1))
    features = features / np.maximum(1.0, np.linalg.norm(features, axis=-1, keepdims=True))
    margins = features @ rng.standard_normal(columns) * 3 + rng.standard_normal((clients, records))
    sizes = rng.integers(1, records + 1, clients)
    there = np.arange(records) < sizes[:, None]
    features = features * there[..., None]
    shape = (clients, columns, loss.outputs)
    return Problem(
        Objective(loss, SquaredL2(STRENGTH), clip_norm),
        distance * rng.standard_normal(shape),
        curvature,
        rng.standard_normal(shape) * (STRENGTH + curvature) * rng.choice([1e-3, 1.0, 10.0]),
        features,
        np.where(there, margins > 0, 0).astype(np.int64),
        sizes.astype(float),
    )


anything = given(
    seed=st.integers(0, 2**32),
    clip_norm=st.one_of(st.just(inf), st.floats(-6, 2).map(lambda power: 10**power)),
    curvature=st.floats(-4, 3).map(lambda power: 10**power),
    distance=st.floats(-2, 5).map(lambda power: 10**power),
    records=st.integers(1, 60),
    columns=st.integers(1, 40),
)


@every_loss
@anything
@settings(deadline=None, max_examples=200)
def test_the_gradient_at_the_result_has_norm_1e_9_at_most(loss: Loss, **drawn: Any) -> None:
    problem = draw(loss, **drawn)
    found = problem.solved()
    assert np.all(found.slope <= 1e-9)
    np.testing.assert_allclose(
        np.linalg.norm(problem.gradient(found.weights), axis=(1, 2)), found.slope, rtol=0, atol=1e-10
    )


@every_loss
@anything
@settings(deadline=None, max_examples=100)
def test_in_single_precision_the_gradient_is_a_few_roundings_of_its_terms(loss: Loss, **drawn: Any) -> None:
    exact = draw(loss, **drawn)
    stacks = ("start", "pull", "features", "divisors")
    found = exact.solved(**{name: getattr(exact, name).astype(np.float32) for name in stacks})
    assert found.weights.dtype == found.slope.dtype == np.float32
    weights = np.linalg.norm(np.asarray(found.weights, float), axis=(1, 2))
    terms = (exact.curvature + STRENGTH) * weights + np.linalg.norm(exact.pull, axis=(1, 2))
    terms = terms + exact.objective.loss.curvature * weights + 2.0
    assert np.all(found.slope <= 50 * np.finfo(np.float32).eps * terms)


@every_loss
@pytest.mark.parametrize("clip_norm", [1e-3, 0.3, inf])
def test_clients_find_alone_what_they_find_together(loss: Loss, clip_norm: float) -> None:
    together = draw(loss, 3, clip_norm)
    found = together.solved()
    for client in range(len(found.weights)):
        alone = together.solved(**{name: getattr(together, name)[client : client + 1] for name in STACKS})
        np.testing.assert_allclose(alone.weights[0], found.weights[client], rtol=0, atol=1e-10)
        assert alone.clipped[0] == found.clipped[client]


@pytest.mark.skipif(library() is None, reason="no kernels were compiled")
def test_a_client_finds_the_same_bits_whether_or_not_newtons_method_arrives_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else another client's minimizer would depend on a record, and nothing is charged there."""
    rng, records = np.random.default_rng(5), 60
    features = rng.standard_normal((2, records, 4))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    features[1] *= 0.5
    labels, zero = rng.integers(0, 2, (2, records)), np.zeros((2, 4, 2))

    def found(*who: int) -> np.ndarray:
        chosen, objective = list(who), Objective(Softmax(2), Unregularized(), 5.0)
        pulls = np.array([0.0, 0.1])[chosen][:, None, None] * np.array([[[1.0, -1.0]] * 4])
        given = objective, zero, 0.001, pulls, features[chosen], labels[chosen], np.full(2, float(records))
        return np.asarray(minimize(*given, 5.0 / records).weights)

    both = found(0, 1)
    monkeypatch.setattr(import_module("fedspd.problem.minimize"), "NEWTON_STEPS", 4)
    alone, beside = found(0, 0), found(0, 1)
    assert np.array_equal(alone[0], both[0]), "it arrives in four steps"
    assert not np.array_equal(beside[1], both[1]), "and this one does not"
    np.testing.assert_array_equal(beside[0], alone[0])


def test_some_of_these_problems_clip_and_some_do_not() -> None:
    shares = [draw(loss, 1, clip).solved().clipped for loss in LOSSES.values() for clip in (1e-3, 0.3, inf)]
    assert np.min(shares) == 0.0
    assert np.max(shares) > 0.9
    assert np.any((np.array(shares) > 0.1) & (np.array(shares) < 0.9))


@every_loss
@seeds
@light
def test_every_client_may_have_its_own_curvature(loss: Loss, seed: int) -> None:
    own = np.array([1e-2, 0.1, 1.0, 50.0])
    problem = draw(loss, seed)
    found = problem.solved(curvature=own[:, None, None])
    for client, curvature in enumerate(own):
        one = problem.solved(curvature=float(curvature))
        np.testing.assert_allclose(one.weights[client], found.weights[client], rtol=0, atol=1e-8)


def test_a_client_without_records_goes_where_it_is_pulled() -> None:
    problem = draw(Softmax(2), 0, curvature=2.0)
    nobody = problem.solved(features=0 * problem.features)
    np.testing.assert_allclose(nobody.weights, problem.pull / (2.0 + STRENGTH), rtol=1e-12)
    np.testing.assert_array_equal(nobody.clipped, 0.0)


def flat(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    size = int(problem.divisors[0])
    return problem.features[0, :size], problem.labels[0, :size]


def test_un_clipped_logistic_regression_is_scikit_learns() -> None:
    problem = draw(Softmax(2), 5, inf, clients=1, records=200)
    features, labels = flat(problem)
    found = problem.solved(pull=np.zeros_like(problem.pull)).weights[0]
    # one difference v of two opposite halves has |x|^2 = |v|^2 / 2, and the losses are a mean
    strength = (0.1 + STRENGTH) / 2 * len(labels)
    model = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-12, max_iter=10**4).fit(features, labels)
    np.testing.assert_allclose(found[:, 1] - found[:, 0], model.coef_[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[:, 0], -found[:, 1], rtol=0, atol=1e-12)


def test_un_clipped_least_squares_is_scikit_learns_ridge() -> None:
    problem = draw(LeastSquares(), 5, inf, clients=1, records=200)
    features, labels = flat(problem)
    found = problem.solved(pull=np.zeros_like(problem.pull)).weights[0, :, 0]
    ridge = Ridge(alpha=(0.1 + STRENGTH) * len(labels), fit_intercept=False, solver="cholesky").fit(features, labels)
    np.testing.assert_allclose(found, ridge.coef_, rtol=0, atol=1e-10)


def test_clipped_least_squares_on_rows_of_one_length_is_hubers() -> None:
    """A slope clipped at G is the derivative of Huber's loss."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1, 60, 4))
    features = features / np.linalg.norm(features, axis=-1, keepdims=True)
    targets = 4 * features @ rng.standard_normal(4) + rng.standard_normal((1, 60)) ** 3
    bound, curvature = 0.7, 0.05

    def value(weights: np.ndarray) -> float:
        residual = np.abs(features[0] @ weights - targets[0])
        huber = np.where(residual <= bound, residual**2 / 2, bound * (residual - bound / 2))
        return float(np.mean(huber) + curvature / 2 * weights @ weights)

    found = minimize(
        Objective(LeastSquares(), Unregularized(), bound),
        np.zeros((1, 4, 1)), curvature, np.zeros((1, 4, 1)), features, targets, np.array([60.0]), bound / 60,
    )  # fmt: skip
    assert 0.1 < found.clipped[0] < 0.9
    theirs = scipy_minimize(value, np.zeros(4), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(found.weights[0, :, 0], theirs.x, rtol=0, atol=1e-5)
    assert value(found.weights[0, :, 0]) <= theirs.fun + 1e-14


def test_an_un_clipped_squared_hinge_is_scipys() -> None:
    problem = draw(SquaredHinge(), 8, inf)
    found = problem.solved().weights

    def value(client: int, weights: np.ndarray) -> float:
        matrix = weights[:, None]
        losses = problem.objective.losses(matrix, problem.features[client], problem.labels[client])
        there = np.any(problem.features[client] != 0, axis=-1)
        quadratic = (problem.curvature + STRENGTH) / 2 * weights @ weights - problem.pull[client, :, 0] @ weights
        return float(np.sum(losses * there) / problem.divisors[client] + quadratic)

    for client in range(len(found)):
        theirs = scipy_minimize(lambda x, client=client: value(client, x), np.zeros(7), options={"gtol": 1e-6})
        np.testing.assert_allclose(found[client, :, 0], theirs.x, rtol=0, atol=1e-5)


@every_loss
def test_the_solver_uses_only_the_array_api_standard(loss: Loss) -> None:
    problem = draw(loss, 2)
    strict = problem.solved(**{name: array_api_strict.asarray(getattr(problem, name)) for name in STACKS})
    assert type(strict.weights) is type(array_api_strict.asarray(problem.start))
    np.testing.assert_allclose(np.asarray(strict.weights), problem.solved().weights, rtol=0, atol=1e-10)


@needs_jax
@every_loss
@pytest.mark.parametrize("clip_norm", [*(pytest.param(norm, marks=pytest.mark.slow) for norm in (1e-3, 0.3)), inf])
def test_compiled_and_side_by_side_it_finds_the_same(loss: Loss, clip_norm: float) -> None:
    import jax

    curvatures = np.array([0.05, 1.0, 20.0])
    lanes = [
        draw(loss, seed, clip_norm, float(curvature), distance=10.0**seed) for seed, curvature in enumerate(curvatures)
    ]

    def one(bound: Any, curvature: Any, *arrays: Any) -> Minimum:  # numbers are traced, as in the engine
        start, pull, features, labels, divisors = arrays
        objective, influence = Objective(loss, SquaredL2(STRENGTH), bound), min(clip_norm, 1.0) / divisors
        return minimize(objective, start, curvature, pull, features, labels, divisors, influence)

    inputs = [np.stack([getattr(lane, name) for lane in lanes]) for name in STACKS]
    with session():
        compiled = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(np.full(3, clip_norm), curvatures, *inputs))
    for number, lane in enumerate(lanes):
        found = lane.solved()
        np.testing.assert_allclose(compiled.weights[number], found.weights, rtol=0, atol=1e-10)
        np.testing.assert_allclose(compiled.clipped[number], found.clipped, rtol=0, atol=1e-12)
        assert np.all(compiled.slope[number] <= 1e-9)


@needs_jax
def test_compiled_in_single_precision_it_stays_there() -> None:
    import jax

    problem = draw(Softmax(2), 0, curvature=1.0)
    arrays = [
        np.asarray(array, np.float32) for array in (problem.start, problem.pull, problem.features, problem.divisors)
    ]

    def one(start: Any, pull: Any, features: Any, divisors: Any) -> Minimum:
        return minimize(problem.objective, start, 1.0, pull, features, problem.labels, divisors, 0.5 / divisors)

    with session():
        found = jax.tree.map(np.asarray, jax.jit(one)(*arrays))
    assert found.weights.dtype == np.float32
    np.testing.assert_allclose(found.weights, problem.solved().weights, rtol=0, atol=1e-5)


@pytest.mark.parametrize("regularizer", [Unregularized(), SquaredL2(0.1)])
@every_loss
def test_what_can_be_solved_exactly_passes(loss: Loss, regularizer: Any) -> None:
    check_exact(Objective(loss, regularizer, 1.0))


def test_more_than_two_classes_are_refused() -> None:
    with pytest.raises(InputError, match="one margin, got Softmax with 3 outputs; use data of two classes"):
        check_exact(Objective(Softmax(3), Unregularized(), 1.0))


@pytest.mark.parametrize("regularizer", [L1(0.1), ElasticNet(0.1), GroupL1(0.1), Box(1.0)])
def test_regularizers_with_kinks_are_refused(regularizer: Any) -> None:
    with pytest.raises(InputError, match=f"none or squared-l2, got {type(regularizer).__name__}; use one of these"):
        check_exact(Objective(Softmax(2), regularizer, 1.0))
