"""The paper's figures, rerun as published and with the proved method, and the verdict on its claims."""

from fedspd.studies.reproduce.page import reproduction_study
from fedspd.studies.reproduce.plan import FIGURES, Curve, Study, load_studies
from fedspd.studies.reproduce.run import Lines, Reproduced, count_runs, reproduce
from fedspd.studies.reproduce.verdict import Verdict, verdicts

__all__ = [
    "FIGURES",
    "Curve",
    "Lines",
    "Reproduced",
    "Study",
    "Verdict",
    "count_runs",
    "load_studies",
    "reproduce",
    "reproduction_study",
    "verdicts",
]
