"""Sweeps: any grid of settings, as one tidy table and a figure."""

from fedspd.studies.sweep.page import save_sweep, sweep_study
from fedspd.studies.sweep.plan import Sweep, plan_sweep
from fedspd.studies.sweep.rows import check_metric
from fedspd.studies.sweep.run import run_sweep

__all__ = ["Sweep", "check_metric", "plan_sweep", "run_sweep", "save_sweep", "sweep_study"]
