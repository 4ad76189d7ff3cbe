"""A page as one HTML document that needs nothing else: no network, no other file.

Whatever a page says is escaped, and the document's own policy lets no script run but the one it carries.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fedspd.report.page import Chart, Grid, Page, Section
from fedspd.report.palette import SERIES, style
from fedspd.report.tables import grid_html

ASSETS = files("fedspd.report") / "assets"
SCRIPTS = ("scales.js", "drawing.js", "chart.js", "page.js")


def render(page: Page) -> str:
    """The document: privacy statement, sections, configuration, environment."""
    charts = [chart for section in page.sections for chart in section.charts]
    places = iter(range(len(charts)))
    look = _colors() + asset("page.css")
    script = "".join(asset(name) for name in SCRIPTS)
    return Template(asset("page.html")).substitute(
        title=escape(page.title),
        policy=policy(look, script),
        style=look,
        privacy=_paragraphs(page.privacy),
        contents=_contents(page.sections) if len(page.sections) > 1 else "",
        sections="\n".join(_section(number, section, places) for number, section in enumerate(page.sections, 1)),
        configurations="\n".join(_configuration(name, toml) for name, toml in page.configurations),
        environment=grid_html(Grid("", ("what", "value"), tuple(_flat(page.environment)))),
        charts=_data([_chart_data(chart) for chart in charts]),
        script=script,
    )


def asset(name: str) -> str:
    """A file of the toolkit, as text."""
    return (ASSETS / name).read_text("utf-8")


def policy(look: str, script: str) -> str:
    """Nothing may be fetched, and only this style and this script count, known by their hashes."""
    look_hash, script_hash = (b64encode(sha256(text.encode()).digest()).decode() for text in (look, script))
    return (
        f"default-src 'none'; style-src 'sha256-{look_hash}'; script-src 'sha256-{script_hash}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _colors() -> str:
    """The palette as CSS variables; a dark screen gets brighter ones."""
    light, dark = (
        "".join(f"--series-{place}:{colors[shade]};" for place, colors in enumerate(SERIES)) for shade in (0, 1)
    )
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"


def _contents(sections: tuple[Section, ...]) -> str:
    links = [
        *((f"section-{number}", section.title) for number, section in enumerate(sections, 1)),
        ("configuration", "Configuration"),
        ("environment", "Environment"),
    ]
    items = "".join(f'<li><a href="#{anchor}">{escape(title)}</a></li>' for anchor, title in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _section(number: int, section: Section, places: Iterator[int]) -> str:
    parts = [f'<section aria-labelledby="section-{number}">', f'<h2 id="section-{number}">{escape(section.title)}</h2>']
    parts.append(_paragraphs(section.text))
    if section.charts:
        wide = {1: 1, 2: 2, 4: 2}.get(len(section.charts), 3)
        charts = "\n".join(_chart(chart, next(places)) for chart in section.charts)
        parts.append(f'<div class="charts across-{wide}">\n{charts}\n</div>')
    if section.grids:
        parts.append('<div class="grids">\n' + "\n".join(grid_html(grid) for grid in section.grids) + "\n</div>")
    return "\n".join([*parts, "</section>"])


def _chart(chart: Chart, place: int) -> str:
    """Where the script will draw; without scripts, the title and a word about it."""
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    return (
        f'<figure class="chart" data-chart="{place}"><figcaption>{escape(chart.title)}</figcaption>'
        f"<noscript><p>This chart of {escape(chart.y_label)} against {escape(chart.x_label)} is drawn by a script, "
        f"and scripts are off.</p></noscript>{note}</figure>"
    )


def _chart_data(chart: Chart) -> dict[str, Any]:
    """A chart with the look of every series."""
    data = asdict(chart)
    for place, series in enumerate(data["series"]):
        series["color"] = place % len(SERIES)
        series["dashes"] = " ".join(f"{length:g}" for length in style(place)[2])
    return data


def _data(value: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _configuration(name: str, toml: str) -> str:
    return f"<details><summary>{escape(name)}</summary><pre><code>{escape(toml)}</code></pre></details>"


def _paragraphs(texts: tuple[str, ...]) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts)


def _flat(environment: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Nested mappings as rows, their names one after another."""
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}: ")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
