"""One upload of one record tells the record, unless there is noise on it."""

from dataclasses import replace

import numpy as np
import pytest

from fedspd.algorithms.methods.fedspd import FedSPD
from fedspd.audit.reconstruction import Recovered, rebuilt_rows, recovered
from fedspd.problem import Objective, Softmax, Unregularized

COLUMNS = ("age", "work=b", "work=c", "hours", "sex=f")
BIAS = 0.25
METHOD = FedSPD(Objective(Softmax(2), Unregularized(), 0.5), 10, 0.1, 1, 0.5, 1.0)


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    work, sex = rng.integers(0, 3, count), rng.integers(0, 2, count)
    numbers = rng.uniform(-1, 1, (count, 2))
    features = np.stack([numbers[:, 0], work == 1, work == 2, numbers[:, 1], sex == 1], axis=1).astype(float)
    return features, rng.integers(0, 2, count)


def attacked(multiplier: float, method: FedSPD = METHOD) -> Recovered:
    features, labels = records(400)
    rows = np.concatenate([features, np.full((400, 1), BIAS)], axis=1)
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    return recovered(rebuilt_rows(method, rows, labels, multiplier, BIAS, 1), features, COLUMNS)


@pytest.mark.parametrize("gamma", [0.5, 20.0])
def test_without_noise_every_feature_is_found_out(gamma: float) -> None:
    assert attacked(0.0, replace(METHOD, inverse_step=gamma)) == Recovered(1.0, 1.0)


def test_noise_for_an_epsilon_of_one_leaves_little_more_than_a_guess() -> None:
    found = attacked(3.73)
    assert found.numbers < 0.2, "a tenth of the range is hit by chance"
    assert found.levels < 0.6, "levels are guessed: one of three, one of two"
