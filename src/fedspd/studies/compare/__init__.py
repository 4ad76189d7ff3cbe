"""The leaderboard: all methods at equal end-to-end privacy."""

from fedspd.studies.compare.page import comparison_study
from fedspd.studies.compare.plan import BUDGETS, DEALS, PARTICIPATION, Cell, cells, configuration, count_runs
from fedspd.studies.compare.run import Entry, central, compare
from fedspd.studies.compare.standing import behind, standing

__all__ = [
    "BUDGETS",
    "DEALS",
    "PARTICIPATION",
    "Cell",
    "Entry",
    "behind",
    "cells",
    "central",
    "compare",
    "comparison_study",
    "configuration",
    "count_runs",
    "standing",
]
