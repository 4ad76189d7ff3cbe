"""From a configuration to a finished run: the only place that picks things by name.

`published` and `proved` build the two kinds of run, `summary` says what a run is remembered by, `extensions` lets users
bring methods, losses and partitions of their own.
"""

from fedspd.assemble.build import Agreed, Experiment, agree, prepare_experiment
from fedspd.assemble.extensions import register, register_loss, register_partition
from fedspd.assemble.run import Run, execute, run

__all__ = [
    "Agreed",
    "Experiment",
    "Run",
    "agree",
    "execute",
    "prepare_experiment",
    "register",
    "register_loss",
    "register_partition",
    "run",
]
