"""Tables as text: for the terminal, for spreadsheets, for Markdown."""

import csv
from io import StringIO

from rich.table import Table
from rich.text import Text

from fedspd.report.page import Cell, Grid, Measured
from fedspd.report.tables import NOTHING, shown


def grid_terminal(grid: Grid) -> Table:
    """For a terminal."""
    table = Table(box=None, pad_edge=False, title=Text(grid.title), title_justify="left", title_style="bold")
    table.caption, table.caption_justify = Text(grid.note) if grid.note else None, "left"
    for place, name in enumerate(grid.columns):
        words = all(isinstance(row[place], str) for row in grid.rows)
        table.add_column(Text(name), justify="left" if words else "right", no_wrap=not words)
    for row in grid.rows:
        table.add_row(*(Text(_text(cell)) for cell in row))
    return table


def grid_markdown(grid: Grid) -> str:
    """For a README or an issue."""
    lines = [f"| {' | '.join(grid.columns)} |", "|---" * len(grid.columns) + "|"]
    lines += [f"| {' | '.join(_text(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in grid.rows]
    return "\n".join([*lines, *(["", grid.note] if grid.note else [])]) + "\n"


def grid_csv(grid: Grid) -> str:
    """At full precision; a mean and its standard error are two columns."""
    measured = [any(isinstance(row[place], Measured) for row in grid.rows) for place in range(len(grid.columns))]
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    heads = [[name, f"{name} s.e."] if pair else [name] for name, pair in zip(grid.columns, measured, strict=True)]
    writer.writerow([name for names in heads for name in names])
    for row in grid.rows:
        cells = [_exact(cell, pair) for cell, pair in zip(row, measured, strict=True)]
        writer.writerow([value for values in cells for value in values])
    return written.getvalue()


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return NOTHING
        case str():
            return cell
        case Measured(value, error, digits):
            return shown(value, digits) + ("" if error is None else f" ± {shown(error, digits)}")
    return shown(cell)


def _exact(cell: Cell, pair: bool) -> list[str]:
    value, error = (cell.value, cell.error) if isinstance(cell, Measured) else (cell, None)
    texts = ["" if part is None else part if isinstance(part, str) else repr(part) for part in (value, error)]
    return texts if pair else texts[:1]
