"""The toolkit for what people look at: charts, tables, pages of HTML, the terminal's text. Knows results only."""

from fedspd.report.figures import draw, run_charts, run_figure, to_png
from fedspd.report.html import render
from fedspd.report.of_runs.folders import folders_page
from fedspd.report.of_runs.save import draw_run, save_report, save_run
from fedspd.report.of_runs.terminal import privacy_statement, summary_table
from fedspd.report.page import Chart, Grid, Measured, Page, Section, Series
from fedspd.report.text import grid_terminal

__all__ = [
    "Chart",
    "Grid",
    "Measured",
    "Page",
    "Section",
    "Series",
    "draw",
    "draw_run",
    "folders_page",
    "grid_terminal",
    "privacy_statement",
    "render",
    "run_charts",
    "run_figure",
    "save_report",
    "save_run",
    "summary_table",
    "to_png",
]
