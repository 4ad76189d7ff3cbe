"""The leaderboard: all methods at equal end-to-end privacy."""

from fedspd.studies.compare.page import comparison_study
from fedspd.studies.compare.plan import ADULT, BUDGETS, DEALS, SHARES, Cell, Ground, cells, configuration, count_runs
from fedspd.studies.compare.run import Central, Entry, central, compare
from fedspd.studies.compare.standing import behind, standing

__all__ = [
    "ADULT",
    "BUDGETS",
    "DEALS",
    "SHARES",
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
    "standing",
]
