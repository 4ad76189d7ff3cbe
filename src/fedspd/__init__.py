"""Private federated learning by primal-dual optimization."""

from fedspd.errors import InputError
from fedspd.experiment import Run, run

__version__ = "0.1.0"
__all__ = ["InputError", "Run", "run"]
