"""Private federated learning by primal-dual optimization."""

from typing import TYPE_CHECKING, Any

from fedspd.assemble import Run, register, register_loss, register_partition, run
from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.estimators import FedSPDClassifier, FedSPDRegressor

__version__ = "0.1.0"
__all__ = [
    "FedSPDClassifier",
    "FedSPDRegressor",
    "InputError",
    "Run",
    "register",
    "register_loss",
    "register_partition",
    "run",
]


def __getattr__(name: str) -> Any:
    if name in ("FedSPDClassifier", "FedSPDRegressor"):
        from fedspd import estimators  # scikit-learn takes a second to import

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
