"""What a notebook shows of a run: its privacy first, then its figure, then its numbers."""

from base64 import b64encode
from html import escape

from fedspd.report.figures import has_charts, run_figure, to_png
from fedspd.report.of_runs.terminal import privacy_statement, summary_rows
from fedspd.report.page import Grid
from fedspd.report.tables import grid_html
from fedspd.results import History, Summary


def run_html(summary: Summary, history: History) -> str:
    """The statement, the figure and a table, as a piece of a page."""
    figure = ""
    if has_charts(summary, history):
        picture = b64encode(to_png(run_figure(summary, history))).decode()
        figure = f'<img alt="What the run reached and what it spent, by round" src="data:image/png;base64,{picture}">'
    numbers = grid_html(Grid("", ("what", "value"), tuple(summary_rows(summary).items())))
    return f"<p><strong>Privacy.</strong> {escape(privacy_statement(summary))}</p>{figure}{numbers}"
