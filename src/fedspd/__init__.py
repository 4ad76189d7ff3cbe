"""Private federated learning by primal-dual optimization."""

from fedspd.assemble import Run, register, register_loss, register_partition, run
from fedspd.errors import InputError

__version__ = "0.1.0"
__all__ = ["InputError", "Run", "register", "register_loss", "register_partition", "run"]
