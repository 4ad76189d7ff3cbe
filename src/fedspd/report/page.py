"""What a report shows, before anyone draws it: text, charts and tables in sections, as JSON that comes back equal.

What is not a finite number is a gap in a chart. What is wrong raises `InputError`, whether it comes from a
program or from a file.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from numbers import Integral
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fedspd.report import check
from fedspd.results import mean_over_seeds


def to_json(page: "Page") -> str:
    """The page as JSON for `page.json`."""
    return json.dumps(asdict(page), allow_nan=False)


def from_json(text: str) -> "Page":
    """The page that `to_json` wrote."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        check.refuse("a page", "JSON", str(error))
    return _build(Page, value)


def join(pages: Sequence["Page"]) -> "Page":
    """Several pages as one; what belongs to a page is marked with its title."""
    if not pages:
        check.refuse("a joined page", "made of at least one page", "none")
    if len(pages) == 1:
        return pages[0]
    titles = numbered([page.title for page in pages])
    titled = list(zip(titles, pages, strict=True))
    return Page(
        title=" + ".join(titles),
        privacy=tuple(f"{title}: {statement}" for title, page in titled for statement in page.privacy),
        sections=tuple(
            Section(f"{title}: {section.title}", section.text, section.charts, section.grids)
            for title, page in titled
            for section in page.sections
        ),
        configurations=tuple(
            (f"{title}: {name}", toml) for title, page in titled for name, toml in page.configurations
        ),
        environment=merged_environment({title: page.environment for title, page in titled}),
    )


def merged_environment(environments: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """The one environment that all share, or every environment under its name."""
    first, *others = environments.values()
    return first if all(other == first for other in others) else environments


def numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occurred before."""
    seen: Counter[str] = Counter()
    different: list[str] = []
    for name in names:
        seen[name] += 1
        different.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return different if len(set(different)) == len(names) else numbered(different)


class Measured(NamedTuple):
    """A mean with its standard error, if there is one, and the digits after the point that it deserves."""

    value: float
    error: float | None
    digits: int


Cell = str | float | int | Measured | None


def measured(values: np.ndarray, digits: int) -> Measured:
    """The mean over seeds; of one seed there is no error."""
    mean = mean_over_seeds(values)
    return Measured(mean.value, mean.error if len(values) > 1 else None, digits)


@dataclass(frozen=True)
class Series:
    """One curve: y against x, with a band from low to high around it where there is one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None

    def __post_init__(self) -> None:
        where = f"series {check.text(self.name, 'the name of a series')!r}"
        columns = {"x": check.finite(self.x, f"x of {where}"), "y": check.numbers(self.y, f"y of {where}")}
        if (self.low is None) != (self.high is None):
            check.refuse(f"the band of {where}", "given by both low and high", "one of them")
        if self.low is not None:
            columns["low"] = check.numbers(self.low, f"low of {where}")
            columns["high"] = check.numbers(self.high, f"high of {where}")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            check.refuse(where, "columns of one length", str(lengths))
        check.put(self, **columns)


def banded(name: str, x: Sequence[float], means: Sequence[Measured | None]) -> Series:
    """Means with one standard error around them; None is a gap."""
    low, high = (
        tuple(None if mean is None else mean.value + sign * (mean.error or 0.0) for mean in means) for sign in (-1, 1)
    )
    return Series(name, tuple(map(float, x)), tuple(None if mean is None else mean.value for mean in means), low, high)


@dataclass(frozen=True)
class Chart:
    """Curves over one pair of axes; references are labelled horizontal lines."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    references: tuple[tuple[str, float], ...] = ()
    log_x: bool = False
    log_y: bool = False
    markers: bool = False  # points as well as lines
    note: str = ""

    def __post_init__(self) -> None:
        where = f"chart {check.text(self.title, 'the title of a chart')!r}"
        check.texts((self.x_label, self.y_label, self.note), f"the labels and the note of {where}")
        options = (self.log_x, self.log_y, self.markers)
        check.parts(options, bool, f"log_x, log_y and markers of {where}")
        series = check.parts(self.series, Series, f"the series of {where}")
        if len({one.name for one in series}) < len(series):
            check.refuse(f"the series of {where}", "of different names", f"{[one.name for one in series]}")
        references = check.pairs(self.references, f"the references of {where}")
        labels = check.texts([label for label, _ in references], f"the references of {where}")
        values = check.finite([value for _, value in references], f"the references of {where}")
        check.put(self, series=series, references=tuple(zip(labels, values, strict=True)))


@dataclass(frozen=True)
class Grid:
    """A table. In a cell, NaN becomes a gap and an infinite number its sign, which sorts behind the numbers."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        where = f"table {check.text(self.title, 'the title of a table')!r}"
        check.text(self.note, f"the note of {where}")
        columns = check.texts(self.columns, f"the columns of {where}")
        listed = [check.listed(row, f"a row of {where}") for row in check.listed(self.rows, f"the rows of {where}")]
        rows = tuple(tuple(_cell(value, f"a cell of {where}") for value in row) for row in listed)
        for row in rows:
            if len(row) != len(columns):
                check.refuse(f"a row of {where}", f"of {len(columns)} cells", f"{len(row)}: {row}")
        check.put(self, columns=columns, rows=rows)


@dataclass(frozen=True)
class Section:
    """A part of a page: paragraphs, then charts, then tables."""

    title: str
    text: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    grids: tuple[Grid, ...] = ()

    def __post_init__(self) -> None:
        where = f"section {check.text(self.title, 'the title of a section')!r}"
        check.put(
            self,
            text=check.texts(self.text, f"the text of {where}"),
            charts=check.parts(self.charts, Chart, f"the charts of {where}"),
            grids=check.parts(self.grids, Grid, f"the tables of {where}"),
        )


@dataclass(frozen=True)
class Page:
    """A whole report. The privacy statement comes first and cannot be left out."""

    title: str
    privacy: tuple[str, ...]
    sections: tuple[Section, ...]
    configurations: tuple[tuple[str, str], ...]  # name and TOML text
    environment: Mapping[str, Any]

    def __post_init__(self) -> None:
        check.text(self.title, "the title of a page")
        privacy = check.texts(self.privacy, "the privacy statement of a page")
        if not any(statement.strip() for statement in privacy):
            check.refuse("the privacy statement of a page", "at least a sentence", "nothing")
        configurations = check.pairs(self.configurations, "the configurations of a page")
        if not isinstance(self.environment, Mapping):
            check.refuse("the environment of a page", "a mapping", repr(self.environment))
        check.put(
            self,
            privacy=privacy,
            sections=check.parts(self.sections, Section, "the sections of a page"),
            configurations=tuple(check.texts(pair, "the configurations of a page") for pair in configurations),
            environment=check.plain(self.environment, "the environment of a page"),
        )


PARTS: dict[type, dict[str, type]] = {
    Page: {"sections": Section},
    Section: {"charts": Chart, "grids": Grid},
    Chart: {"series": Series},
}


def _build(kind: type, value: Any) -> Any:
    """A part from its JSON: every key known, none missing that has no default."""
    known = {field.name: field.default is MISSING for field in fields(kind)}
    needed = {name for name, required in known.items() if required}
    if not isinstance(value, dict):
        check.refuse(f"a {kind.__name__.lower()}", "an object", repr(value))
    if not needed <= value.keys() <= known.keys():
        check.refuse(f"a {kind.__name__.lower()}", f"of the keys {sorted(known)}", f"{sorted(value)}")
    parts = {name: part for name, part in PARTS.get(kind, {}).items() if name in value}
    built = {
        name: tuple(_build(part, item) for item in check.listed(value[name], name)) for name, part in parts.items()
    }
    return kind(**{**value, **built})


def _cell(value: Any, what: str) -> Cell:
    match value:
        case None | bool() | str():
            return value if value is None else check.text(value, what)
        case tuple() | list():
            return _measured(value, what)
        case Integral():
            return int(value)
    number = check.numbers([value], what)[0]
    if number is None and not math.isnan(value):
        return "∞" if value > 0 else "−∞"
    return number


def _measured(value: Any, what: str) -> Measured | None:
    if len(value) != 3 or type(value[2]) is not int or not 0 <= value[2] <= 20:
        check.refuse(what, "text, a number, or value, error and digits of a mean", repr(value))
    mean, error = check.numbers(value[:2], what)
    return None if mean is None else Measured(mean, error, value[2])


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
