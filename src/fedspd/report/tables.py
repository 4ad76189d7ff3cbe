"""Tables of a page as HTML, readable without any script."""

import math
from collections.abc import Sequence
from html import escape

from fedspd.report.numbers import NOTHING
from fedspd.report.page import Cell, Grid, Measured

INFINITE = ("∞", "−∞")
FEW = 4  # digits after the point up to which numbers are shown as they are: someone has rounded them


def grid_html(grid: Grid) -> str:
    """A table in a box of its own that scrolls where it is too wide; numbers carry their exact value for sorting."""
    digits = [_digits([row[place] for row in grid.rows]) for place in range(len(grid.columns))]
    numeric = [_is_numeric([row[place] for row in grid.rows]) for place in range(len(grid.columns))]
    heads = "".join(
        f'<th scope="col"{_class("", right)}>{escape(name)}</th>'
        for name, right in zip(grid.columns, numeric, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(map(_cell_html, row, digits, numeric, range(len(row)))) + "</tr>" for row in grid.rows
    )
    title = f"<h3>{escape(grid.title)}</h3>" if grid.title else ""
    note = f'<p class="note">{escape(grid.note)}</p>' if grid.note else ""
    label = escape(grid.title or "table")
    return (
        f'<div class="grid">{title}<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<table data-name="{label}"><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>{note}</div>'
    )


def shown(value: float, digits: int | None = None) -> str:
    """A number as a table shows it: with the digits given, or five that count."""
    if isinstance(value, int):
        return str(value)
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{value:.5g}" if len(repr(value)) > 8 else f"{value:.8g}"


def _digits(column: Sequence[Cell]) -> int | None:
    """Digits after the point that suit all fractions of a column; none where their sizes are too different."""
    sizes = [abs(cell) for cell in column if isinstance(cell, float) and cell != 0]
    if not sizes or not 1e-3 <= max(sizes) < 1e6 or min(sizes) < max(sizes) / 50:
        return None
    needed = max(len(f"{size:.12f}".rstrip("0").partition(".")[2]) for size in sizes)
    counted = max(0, FEW - math.floor(math.log10(max(sizes))))
    return needed if needed <= FEW else counted


def _cell_html(cell: Cell, digits: int | None, right: bool, place: int) -> str:
    opening, closing = ('<th scope="row"', "</th>") if place == 0 else ("<td", "</td>")
    match cell:
        case None:
            return f"{opening}{_class('gap', right)}>{NOTHING}{closing}"
        case str():
            width = "sentence" if len(cell) > 24 else "words" if len(cell) > 14 else ""
            return f"{opening}{_class(width, right)}>{escape(cell)}{closing}"
        case Measured(value, error, own):
            exact = f' data-value="{value!r}"' + ("" if error is None else f' data-error="{error!r}"')
            text = shown(value, own) + ("" if error is None else f" ± {shown(error, own)}")
            return f"{opening}{_class('', right)}{exact}>{text}{closing}"
    return f'{opening}{_class("", right)} data-value="{cell!r}">{shown(cell, digits)}{closing}'


def _class(name: str, right: bool) -> str:
    names = " ".join(filter(None, (name, "number" if right else "")))
    return f' class="{names}"' if names else ""


def _is_numeric(column: Sequence[Cell]) -> bool:
    """Whether a column holds numbers and gaps only: then it is aligned to the right."""
    cells = [cell for cell in column if cell is not None]
    return bool(cells) and all(not isinstance(cell, str) or cell in INFINITE for cell in cells)
