"""Private federated learning by primal-dual optimization."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedspd.errors import InputError

if TYPE_CHECKING:
    from fedspd.assemble import Run, register, register_loss, register_partition, run
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
    """Imported when asked for: the whole program takes a second, in which Ctrl-C must not end in a traceback."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "fedspd.estimators" if name.startswith("FedSPD") else "fedspd.assemble"
    return getattr(import_module(room), name)
