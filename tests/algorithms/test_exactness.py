"""Exact sub-problems: how well they are solved is settled by public numbers, and never depends on the records."""

from importlib import import_module
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd import InputError, run
from fedspd.algorithms.base import SolvesExactly
from fedspd.algorithms.methods.private_admm import PrivateADMM
from fedspd.algorithms.parts.exactness import bounded_pull, enlarged, influence, least_curvature, require_solvable
from fedspd.problem import (
    LEFT,
    Huber,
    LeastSquares,
    Loss,
    Objective,
    Poisson,
    Softmax,
    SquaredHinge,
    SquaredL2,
    Unregularized,
    minimize,
)
from fedspd.typing import Batches
from tests.support.algorithms.contract_methods import METHODS, PROVED, Setting
from tests.support.small_runs import small_run as configured

SOLVING = [name for name in PROVED if METHODS[name](Setting()).exact]
LOSSES: list[Loss] = [Softmax(2), LeastSquares(), SquaredHinge(), Huber(0.4), Poisson(1.0, 0.3)]


def private(loss: Loss, clip_norm: float, penalty: float, row_norm: float) -> PrivateADMM:
    return PrivateADMM(Objective(loss, Unregularized(), clip_norm), 2, penalty, row_norm)


def moved(algorithm: Any, features: np.ndarray, labels: np.ndarray, center: np.ndarray, anchor: np.ndarray) -> float:
    """How far flipping the first label moves the query, over the sensitivity."""
    size = np.array([float(len(labels))])
    told = algorithm.broadcast(center, 1)
    _, client, _ = algorithm.start(np.zeros((1, *center.shape)))
    client = client._replace(anchor=anchor[None])
    other = np.concatenate([1 - labels[:1], labels[1:]])
    one, two = (
        np.asarray(algorithm.query(told, client, Batches(features[None, None], y[None, None], size))[0].value)
        for y in (labels, other)
    )
    return float(np.linalg.norm(one - two) / algorithm.sensitivity(1, size)[0])


def balanced(algorithm: Any, records: int = 240) -> float:
    """All records alike, so many labels of each kind that their mean gradient is just a tenth of one."""
    features = np.zeros((records, 3))
    features[:, 0] = algorithm.row_norm
    labels = (np.arange(records) < 0.55 * records).astype(int)
    zeros = np.zeros((3, algorithm.objective.loss.outputs))
    return moved(algorithm, features, labels, zeros, zeros)


@pytest.mark.parametrize("size", [1e-12, 1e-10, 1e-6, 1.0])
def test_a_problem_of_any_size_moves_its_query_by_the_sensitivity_and_no_more(size: float) -> None:
    """A solver that stopped at a gradient of 1e-11 moved it 12 times as far at 1e-10."""
    assert 0.99 < balanced(private(SquaredHinge(), size, 0.3, size)) <= 1.0


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from(LOSSES),
    size=st.floats(-10, 3).map(lambda power: 10**power),
    clip=st.floats(-6, 1).map(lambda power: 10**power),
    condition=st.floats(-3, 5).map(lambda power: 10**power),
    records=st.integers(2, 200),
    far=st.floats(-2, 6).map(lambda power: 10**power),
)
def test_whatever_is_not_refused_stays_within_its_sensitivity(
    seed: int, loss: Loss, size: float, clip: float, condition: float, records: int, far: float
) -> None:
    """Rows, clipping, curvature and what was heard of all sizes, badly conditioned problems included."""
    rng = np.random.default_rng(seed)
    algorithm = private(loss, clip * size, loss.curvature * size**2 / condition, size)
    try:
        algorithm.check_solvable(records, np.array([float(records)]), 3)
    except InputError:
        return
    features = rng.standard_normal((records, 3))
    features *= size / np.linalg.norm(features, axis=1, keepdims=True)
    heard = far * float(algorithm.sensitivity(1, records)) * rng.standard_normal((2, 3, loss.outputs))
    assert moved(algorithm, features, rng.integers(0, 2, records), *heard) <= 1 + 1e-9 * far


@pytest.mark.parametrize("name", SOLVING)
def test_settings_that_float64_cannot_solve_are_refused_before_a_record_is_seen(name: str) -> None:
    assert isinstance(METHODS[name](Setting()), SolvesExactly)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("private-admm", "algorithm__penalty", 1e-9),
        ("private-admm", "problem__clip_norm", 1e-10),
        ("ddp-admm-pvp", "problem__clip_norm", 1e-10),
        ("ddp-admm-dvp", "problem__clip_norm", 1e-10),
        ("dp-lr-admm", "problem__clip_norm", 1e-10),
        ("dp-madmm", "problem__clip_norm", 1e-10),
        ("dp-radmm", "problem__clip_norm", 1e-10),
        ("one-shot", "problem__clip_norm", 1e-10),
    ],
)
def test_a_run_of_such_settings_says_what_to_change(name: str, setting: str, value: float) -> None:
    config = configured(name, **{setting: value})
    with pytest.raises(
        InputError, match=r"sub-problems must be solved to 0\.0001 of what one record adds.*raise problem"
    ):
        run(config)


def problem(seed: int, condition: float, records: int = 30) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((2, records, 4))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    objective = Objective(Softmax(2), Unregularized(), 0.3)
    return {
        "objective": objective, "start": rng.standard_normal((2, 4, 2)), "curvature": 0.5 / condition,
        "pull": 0.1 * rng.standard_normal((2, 4, 2)), "features": features, "labels": rng.integers(0, 2, (2, records)),
        "divisors": np.full(2, float(records)), "influence": 0.3 / records,
    }  # fmt: skip


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("condition", [0.1, 10.0, 300.0])
def test_where_newtons_method_has_not_arrived_gradient_steps_do(
    steps: int, condition: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = problem(1, condition)
    exact = minimize(**given).weights
    monkeypatch.setattr(import_module("fedspd.problem.minimize"), "NEWTON_STEPS", steps)
    found = minimize(**given).weights
    off = np.linalg.norm(found - exact, axis=(1, 2)) * given["curvature"]
    assert np.all(off <= LEFT * given["influence"])
    assert np.any(off > 1e-7 * given["influence"]), "it was not Newton's method that found it"


def test_a_pull_is_shortened_by_public_numbers_and_only_where_rounding_would_show() -> None:
    rng = np.random.default_rng(0)
    objective = Objective(Softmax(2), SquaredL2(0.01), 0.5)
    pull = rng.standard_normal((2, 3, 2))
    batches = Batches(rng.standard_normal((2, 1, 50, 3)), np.zeros((2, 1, 50), int), np.full(2, 50.0))
    empty = batches._replace(rows=0 * batches.features)
    np.testing.assert_array_equal(bounded_pull(objective, 1.0, 0.1, pull, batches), pull)
    short, other = (bounded_pull(objective, 1.0, 0.1, 1e20 * pull, one) for one in (batches, empty))
    np.testing.assert_array_equal(short, other)
    lengths = np.linalg.norm(short, axis=(1, 2))
    assert np.all((lengths > 100 * 0.5) & (lengths < 1e9))
    np.testing.assert_allclose(short / lengths[:, None, None], pull / np.linalg.norm(pull, axis=(1, 2), keepdims=True))


def test_the_influence_of_a_record_is_what_clipping_or_its_row_leaves_of_it() -> None:
    sizes = np.array([10.0, 20.0])
    steep, flat = (Objective(Softmax(2), Unregularized(), clip) for clip in (inf, 0.1))
    np.testing.assert_allclose(influence(steep, 1.0, sizes), np.sqrt(2) / sizes)
    np.testing.assert_allclose(influence(flat, 1.0, sizes), 0.1 / sizes)
    np.testing.assert_allclose(influence(flat, None, sizes), 0.1 / sizes)
    assert enlarged(2.0) == 2.0 * (1 + LEFT)


@pytest.mark.parametrize("records", [1, 325, 8911, 100_000])
def test_a_rule_may_choose_the_least_curvature_and_two_percent_less_is_refused(records: int) -> None:
    objective, divisors = Objective(Softmax(2), SquaredL2(1e-4), 0.7), np.full(3, 325.61)
    least = least_curvature(objective, 1.0, records, divisors, 82)
    require_solvable(objective, 1.0, least, records, divisors, 82)
    with pytest.raises(InputError, match="sub-problems must be solved"):
        require_solvable(objective, 1.0, 0.98 * least, records, divisors, 82)


def test_where_no_curvature_helps_the_least_is_infinite() -> None:
    assert least_curvature(Objective(Softmax(2), Unregularized(), 0.7), 1.0, 10**6, np.full(1, 325.61), 82) == inf
