"""Tables as text: for the terminal, for spreadsheets, for Markdown."""

from io import StringIO

from rich.table import Table
from rich.text import Text

from fedspd.escaping import escaped, escaped_lines, write_csv
from fedspd.report.page import Cell, Grid, Measured
from fedspd.report.tables import NOTHING, shown


def grid_terminal(grid: Grid) -> Table:
    """For a terminal."""
    table = Table(box=None, pad_edge=False, title=Text(escaped(grid.title)), title_justify="left", title_style="bold")
    table.caption, table.caption_justify = Text(escaped_lines(grid.note)) if grid.note else None, "left"
    for place, name in enumerate(grid.columns):
        words = all(isinstance(row[place], str) for row in grid.rows)
        table.add_column(Text(escaped(name)), justify="left" if words else "right", no_wrap=not words)
    for row in grid.rows:
        table.add_row(*(Text(escaped(cell_text(cell))) for cell in row))
    return table


def grid_markdown(grid: Grid) -> str:
    """For a README or an issue."""
    lines = [f"| {' | '.join(map(in_markdown, grid.columns))} |", "|---" * len(grid.columns) + "|"]
    lines += [f"| {' | '.join(in_markdown(cell_text(cell)) for cell in row)} |" for row in grid.rows]
    return "\n".join([*lines, *(["", grid.note] if grid.note else [])]) + "\n"


def grid_csv(grid: Grid) -> str:
    """At full precision; a mean and its standard error are two columns."""
    measured = [any(isinstance(row[place], Measured) for row in grid.rows) for place in range(len(grid.columns))]
    written = StringIO()
    heads = [[name, f"{name} s.e."] if pair else [name] for name, pair in zip(grid.columns, measured, strict=True)]
    rows = [[_exact(cell, pair) for cell, pair in zip(row, measured, strict=True)] for row in grid.rows]
    write_csv(written, [[value for values in row for value in values] for row in (heads, *rows)])
    return written.getvalue()


def cell_text(cell: Cell) -> str:
    """A cell as people read it."""
    match cell:
        case None:
            return NOTHING
        case str():
            return cell
        case Measured(value, error, digits):
            return shown(value, digits) + ("" if error is None else f" ± {shown(error, digits)}")
    return shown(cell)


def _exact(cell: Cell, pair: bool) -> list[str | float | None]:
    value, error = (cell.value, cell.error) if isinstance(cell, Measured) else (cell, None)
    return [value, error] if pair else [value]


def in_markdown(text: str) -> str:
    """A name in one cell, and no markup."""
    return escaped(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", r"\|")
