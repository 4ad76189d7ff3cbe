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
}
ESTIMATORS = [  # with few rounds, for speed
    FedSPDClassifier(**COMMON, settings={"run.rounds": 30, "algorithm.step_scale": 0.1}),
    FedSPDRegressor(**COMMON, settings={"run.rounds": 60}, target_bounds=(-5, 5)),
]


@parametrize_with_checks(ESTIMATORS)
def test_every_check_of_scikit_learn_passes(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
