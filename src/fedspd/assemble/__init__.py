"""From a configuration to a finished run: the only place that picks things by name.

`proved` and `published` agree on the two kinds of plan, `build` makes a run of one, `summary` says what a run is
remembered by, `extensions` lets users bring methods, losses and partitions of their own.
"""

from fedspd.assemble.agreement import Agreed, agree
from fedspd.assemble.build import Experiment, prepare_experiment
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
