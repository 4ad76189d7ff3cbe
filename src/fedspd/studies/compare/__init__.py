"""The leaderboard: all methods at equal end-to-end privacy."""

from fedspd.studies.compare.page import comparison_study
from fedspd.studies.compare.plan import (
    ADULT,
    BUDGETS,
    DATA,
    DEALS,
    DELTA,
    SHARES,
    UPLOADS,
    Cell,
    Ground,
    cells,
    configuration,
    count_runs,
    only_possible,
)
from fedspd.studies.compare.run import Central, Entry, central, compare
from fedspd.studies.compare.standing import behind, duels, standing

__all__ = [
    "ADULT",
    "BUDGETS",
    "DATA",
    "DEALS",
    "DELTA",
    "SHARES",
    "UPLOADS",
    "Cell",
    "Central",
    "Entry",
    "Ground",
    "behind",
    "cells",
    "central",
    "compare",
    "comparison_study",
    "configuration",
    "count_runs",
    "duels",
    "only_possible",
    "standing",
]
