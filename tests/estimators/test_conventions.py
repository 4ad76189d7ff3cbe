"""The estimators keep to scikit-learn's conventions: every check passes, none is expected to fail."""

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from fedspd import FedSPDClassifier, FedSPDRegressor

COMMON: dict[str, Any] = {
    "epsilon": 1e4,  # checks are about conventions, and some ask for accuracy on twenty records
    "delta": 1e-5,
    "bounds": "clip",
    "clients": 2,
    "settings": {"run.rounds": 30, "algorithm.step_scale": 0.1},  # for speed
}


@parametrize_with_checks([FedSPDClassifier(**COMMON), FedSPDRegressor(**COMMON, target_bounds=(-5, 5))])
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
