"""Pages as data: they come back from JSON as they were, wrong ones are refused, several become one."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspd.errors import InputError
from fedspd.report.page import Chart, Grid, Measured, Page, Section, Series, from_json, join, to_json

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
CELLS = st.one_of(
    st.text(), NUMBERS, st.integers(), st.none(), st.builds(Measured, FINITE, FINITE | st.none(), st.integers(0, 6))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.text() | st.integers() | FINITE,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@st.composite
def series(draw: st.DrawFn, name: str) -> Series:
    x = draw(st.lists(FINITE, max_size=5))
    y, low, high = (tuple(draw(st.lists(NUMBERS | st.none(), min_size=len(x), max_size=len(x)))) for _ in range(3))
    return Series(name, tuple(x), y, low, high) if draw(st.booleans()) else Series(name, tuple(x), y)


@st.composite
def charts(draw: st.DrawFn) -> Chart:
    names = draw(st.lists(st.text(), unique=True, max_size=3))
    title, x_label, y_label, note = draw(st.tuples(*[st.text()] * 4))
    log_x, log_y, markers = draw(st.tuples(*[st.booleans()] * 3))
    references = tuple(draw(st.lists(st.tuples(st.text(), FINITE), max_size=2)))
    lines = tuple(draw(series(name)) for name in names)
    return Chart(title, x_label, y_label, lines, references, log_x, log_y, markers, note)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    columns = draw(st.lists(st.text(), max_size=4))
    row = st.tuples(*[CELLS] * len(columns))
    return Grid(draw(st.text()), tuple(columns), tuple(draw(st.lists(row, max_size=3))), draw(st.text()))


SECTIONS = st.builds(
    Section, st.text(), st.lists(st.text(), max_size=2), st.lists(charts(), max_size=2), st.lists(grids(), max_size=2)
)
PAGES = st.builds(
    Page,
    title=st.text(),
    privacy=st.lists(st.text(), max_size=2).map(lambda others: ("Proved.", *others)),
    sections=st.lists(SECTIONS, max_size=2),
    configurations=st.lists(st.tuples(st.text(), st.text()), max_size=2),
    environment=st.dictionaries(st.text(), JSON, max_size=3),
)
LINE = Series("a", (1.0, 2.0), (0.5, None))
CHART = Chart("Accuracy", "round", "%", (LINE,), references=(("majority", 76.4),))
GRID = Grid("Numbers", ("method", "accuracy"), (("a", Measured(84.01, 0.06, 2)), ("b", None)))
PAGE = Page("Study", ("Proved.",), (Section("All", ("Text.",), (CHART,), (GRID,)),), (("a", "x = 1"),), {"python": "3"})


@settings(deadline=None)
@given(PAGES)
def test_a_page_comes_back_from_strict_json_as_it_was(page: Page) -> None:
    text = to_json(page)
    assert from_json(text) == page
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def test_a_mean_with_its_error_is_still_one_after_the_round_trip() -> None:
    cell = from_json(to_json(PAGE)).sections[0].grids[0].rows[0][1]
    assert isinstance(cell, Measured)
    assert (cell.value, cell.error, cell.digits) == (84.01, 0.06, 2)


def test_what_is_not_finite_is_a_gap_in_a_curve_and_a_sign_in_a_table() -> None:
    assert Series("a", (1, 2, 3), (math.nan, math.inf, 3)).y == (None, None, 3.0)
    row = Grid("t", ("a", "b", "c", "d"), ((math.nan, math.inf, -math.inf, Measured(math.nan, 1.0, 2)),)).rows[0]
    assert row == (None, "∞", "−∞", None)
    assert Grid("t", ("a",), ((Measured(1.0, math.nan, 2),),)).rows[0][0] == Measured(1.0, None, 2)


def test_arrays_are_taken_as_they_are_and_become_plain_numbers() -> None:
    made = Series("a", np.arange(2), np.array([0.5, np.nan]), np.zeros(2), np.ones(2))  # pyright: ignore[reportArgumentType]
    assert made == Series("a", (0.0, 1.0), (0.5, None), (0.0, 0.0), (1.0, 1.0))
    assert [type(value) for value in made.x] == [float, float]
    assert [type(cell) for cell in Grid("t", ("a", "b"), ((np.int64(3), np.float64(2.0)),)).rows[0]] == [int, float]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("title",), 3),
        (("title",), "\ud800"),
        (("privacy",), []),
        (("privacy",), [" "]),
        (("privacy",), "Proved."),
        (("environment",), ["3.11"]),
        (("configurations",), [["only a name"]]),
        (("sections",), {"title": "no list"}),
        (("sections", 0, "charts", 0, "series", 0, "y"), [1.0]),
        (("sections", 0, "charts", 0, "series", 0, "x"), [1.0, None]),
        (("sections", 0, "charts", 0, "series", 0, "x"), [1.0, "2"]),
        (("sections", 0, "charts", 0, "series", 0, "x"), [1.0, True]),
        (("sections", 0, "charts", 0, "series", 0, "low"), [1.0, 2.0]),
        (("sections", 0, "charts", 0, "log_x"), 1),
        (("sections", 0, "charts", 0, "references"), [["majority", None]]),
        (("sections", 0, "grids", 0, "rows", 0), ["one cell"]),
        (("sections", 0, "grids", 0, "rows", 0, 0), True),
        (("sections", 0, "grids", 0, "rows", 0, 0), [1.0, 2.0]),
        (("sections", 0, "grids", 0, "rows", 0, 0), [1.0, 2.0, -1]),
        (("sections", 0, "grids", 0, "rows", 0, 0), {"value": 1.0}),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused_with_what_was_expected_and_got(path: tuple[Any, ...], value: Any) -> None:
    data = json.loads(to_json(PAGE))
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(InputError, match=r"must be .*, got .*; correct it"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("path", [(), ("sections", 0), ("sections", 0, "charts", 0), ("sections", 0, "grids", 0)])
def test_keys_that_nobody_knows_and_keys_that_are_missing_are_refused(path: tuple[Any, ...]) -> None:
    for spoil in (lambda part: part.update(colour="red"), lambda part: part.pop("title")):
        data = json.loads(to_json(PAGE))
        part = data
        for step in path:
            part = part[step]
        spoil(part)
        with pytest.raises(InputError, match="must be of the keys"):
            from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"title": NaN}', "[" * 100_000])
def test_what_is_no_page_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        from_json(text)


def test_two_series_of_one_name_are_refused_since_nobody_could_tell_them_apart() -> None:
    with pytest.raises(InputError, match="of different names"):
        replace(CHART, series=(LINE, LINE))


def test_one_page_joined_is_itself_and_none_is_refused() -> None:
    assert join([PAGE]) is PAGE
    with pytest.raises(InputError):
        join([])


def test_a_joined_page_holds_everything_under_the_title_it_came_from() -> None:
    other = replace(PAGE, title="Run a", privacy=("Published.", "Do not rely on it."), environment={"python": "4"})
    joined = join([PAGE, other])
    assert joined.title == "Study + Run a"
    assert joined.privacy == ("Study: Proved.", "Run a: Published.", "Run a: Do not rely on it.")
    assert [section.title for section in joined.sections] == ["Study: All", "Run a: All"]
    assert joined.sections[1].charts == (CHART,)
    assert joined.configurations == (("Study: a", "x = 1"), ("Run a: a", "x = 1"))
    assert joined.environment == {"Study": {"python": "3"}, "Run a": {"python": "4"}}


def test_pages_of_one_title_are_numbered_and_one_environment_is_said_once() -> None:
    joined = join([PAGE, PAGE, replace(PAGE, title="Study (2)")])
    assert len({section.title for section in joined.sections}) == 3
    assert joined.environment == PAGE.environment
    assert from_json(json.dumps(asdict(joined))) == joined
