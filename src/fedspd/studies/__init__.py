"""Many runs that answer one question: the paper's figures, the verdict on its claims, the leaderboard, sweeps.

`jobs` runs configurations on all cores and remembers them, `tuning` chooses step sizes by one
protocol for every method, `reproduce` reruns the figures described in `studies/figures/`, `verdict`
tests the paper's claims on them, `compare` holds all methods against each other at equal privacy,
`sweep` runs any grid of settings.
"""

from fedspd.studies.jobs import Result
from fedspd.studies.reproduce import Lines, Reproduced, reproduce
from fedspd.studies.study import FIGURES, Study, load_studies
from fedspd.studies.tuning import PROTOCOL
from fedspd.studies.verdict import Verdict, verdicts

__all__ = [
    "FIGURES",
    "PROTOCOL",
    "Lines",
    "Reproduced",
    "Result",
    "Study",
    "Verdict",
    "load_studies",
    "reproduce",
    "verdicts",
]
