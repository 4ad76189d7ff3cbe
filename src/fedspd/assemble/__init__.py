"""From a configuration to a finished run: the only place that picks things by name.

`published` and `proved` build the two kinds of run, `rules` fills in what a user leaves open by
data-independent rules, `summary` says what a run is remembered by.
"""

from fedspd.assemble.build import Agreed, Experiment, agree, prepare_experiment
from fedspd.assemble.run import Run, execute, run

__all__ = ["Agreed", "Experiment", "Run", "agree", "execute", "prepare_experiment", "run"]
