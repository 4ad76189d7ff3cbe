"""A privacy statement as one HTML page of two printed sides that needs nothing else."""

from collections.abc import Sequence
from html import escape as as_text
from string import Template

from fedspd.escaping import escaped_lines
from fedspd.report.html import asset, policy
from fedspd.report.page import Cell, Chart, Grid, Section
from fedspd.report.statement.sections import statement_sections, statement_title
from fedspd.report.text import cell_text
from fedspd.results import Statement

FOOT = "Made from statement.json; the command fedspd ledger verify --against computes its numbers anew from the ledger."
LISTED = 3  # paragraphs from which on they are a list
MEANING = "What it means"
LEFT, WIDE, BOTTOM, HIGH = 40.0, 240.0, 190.0, 180.0  # of the picture, as statement.js has them
LONG, DASHED = ' class="long"', ' stroke-dasharray="4 3"'
COLORS = ("#a64d00", "#777777", "#0b5394")


def statement_html(statement: Statement, warning: str = "") -> str:
    """The whole statement; the chance beforehand can be changed by the reader."""
    claim, *others = statement_sections(statement, warning)
    lead, *rest = claim.text
    return sections_html(
        statement_title(statement), lead, (Section(claim.title, tuple(rest)), *others), FOOT, statement
    )


def sections_html(
    title: str, lead: str, sections: Sequence[Section], foot: str, statement: Statement | None = None
) -> str:
    """A page of short sections in two columns."""
    look, script = asset("statement.css"), asset("statement.js")
    return Template(asset("statement.html")).substitute(
        title=_shown(title),
        lead=_shown(lead),
        policy=policy(look, script),
        style=look,
        script=script,
        foot=_shown(foot),
        sections="\n".join(_section(section, statement) for section in sections),
    )


def _section(section: Section, statement: Statement | None) -> str:
    parts = [f"<h2>{_shown(section.title)}</h2>", _text(section.text)]
    if section.title == MEANING and statement is not None:
        parts.append(_picture(section.charts[0], statement))
    parts += [_table(grid) for grid in section.grids]
    long = len(section.text) > LISTED or any(len(grid.rows) > 5 for grid in section.grids)
    return f"<section{LONG if long else ''}>{''.join(parts)}</section>"


def _text(text: tuple[str, ...]) -> str:
    if len(text) > LISTED:
        return "<ul>" + "".join(f"<li>{_shown(one)}</li>" for one in text) + "</ul>"
    return "".join(f"<p>{_shown(one)}</p>" for one in text)


def _table(grid: Grid) -> str:
    note = f'<p class="note">{_shown(grid.note)}</p>' if grid.note else ""
    if not grid.rows:
        return note
    pairs = grid.columns[0] == "what" or len(grid.columns) == 2
    head = "" if pairs else _row(grid.columns, "th")
    return f'<div class="box"><table>{head}{"".join(_row(row, "td") for row in grid.rows)}</table></div>{note}'


def _row(cells: Sequence[Cell], kind: str) -> str:
    first = "th" if len(cells) == 2 else kind
    tags = (first, *[kind] * (len(cells) - 1))
    return (
        "<tr>"
        + "".join(f"<{tag}>{_shown(cell_text(cell))}</{tag}>" for tag, cell in zip(tags, cells, strict=True))
        + "</tr>"
    )


def _picture(chart: Chart, statement: Statement) -> str:
    """Drawn here, so that it is there on paper and without scripts; the script moves two dots."""
    lines = "".join(
        f'<polyline fill="none" stroke="{color}" stroke-width="{1 if place == 1 else 2}"'
        f'{DASHED if place == 1 else ""} points="{_points(series.x, series.y)}"/>'
        for place, (series, color) in enumerate(zip(chart.series, COLORS, strict=True))
    )
    ticks = "".join(
        f'<text x="{LEFT + WIDE * share:g}" y="203" font-size="9" text-anchor="middle">{100 * share:g} %</text>'
        f'<text x="36" y="{BOTTOM - HIGH * share + 3:g}" font-size="9" text-anchor="end">{100 * share:g} %</text>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    names = (
        '<text x="46" y="24" font-size="9.5" fill="#a64d00">believed after, at most</text>'
        '<text x="276" y="180" font-size="9.5" fill="#0b5394" text-anchor="end">believed after, at least</text>'
        '<text x="160" y="216" font-size="9.5" text-anchor="middle">chance given before; dashed: nothing learned</text>'
    )
    dots = "".join(f'<circle cx="160" cy="100" r="3.5" fill="{color}"/>' for color in (COLORS[0], COLORS[2]))
    factor, belief = (statement["meaning"][name] for name in ("odds_factor", "belief_factor"))
    return (
        f'<figure data-factor="{factor!r}" data-belief="{belief!r}" data-delta="{statement["guarantee"]["delta"]!r}">'
        f'<svg viewBox="0 0 300 222" role="img" aria-label="{_shown(chart.title)}">'
        f'<path d="M40 10V190H280" fill="none" stroke="#999"/>{ticks}{lines}{dots}{names}</svg></figure>'
        '<div class="ask"><label for="prior">What the attacker believes before</label>'
        '<input id="prior" type="range" min="1" max="99" value="50"></div><output id="told" for="prior"></output>'
    )


def _shown(text: str) -> str:
    """Text that is no markup, its control characters as escapes."""
    return as_text(escaped_lines(text))


def _points(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    return " ".join(
        f"{LEFT + WIDE * x / 100:.1f},{BOTTOM - HIGH * y / 100:.1f}"
        for x, y in zip(xs, ys, strict=True)
        if y is not None
    )
