"""What people look at: figures, the terminal's table, and the run folder with all of it."""

from fedspd.report.figures import run_figure, to_png
from fedspd.report.save import save_run
from fedspd.report.terminal import privacy_statement, summary_table

__all__ = ["privacy_statement", "run_figure", "save_run", "summary_table", "to_png"]
