"""The document without a browser: what its tables show, in which order it speaks, and what its policy allows."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from fedspd.report import Chart, Grid, Measured, Page, Section, Series, render
from fedspd.report.page import Cell
from fedspd.report.tables import grid_html

CHART = Chart("Accuracy", "round", "%", (Series("a", (1.0,), (80.0,)),))


def page(*sections: Section) -> Page:
    return Page("Title", ("Proved.",), sections, (("first", "x = 1"),), {"libraries": {"numpy": "2.4"}, "cores": 2})


def cells(*column: Cell) -> list[str]:
    """What a table shows of a column, tags removed."""
    rows = re.findall(r"<tr>.*?</tr>", grid_html(Grid("t", ("x", "y"), tuple(("row", cell) for cell in column))))[1:]
    return [re.sub("<.*?>", "", row).removeprefix("row") for row in rows]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ((1, 20, 12345), ["1", "20", "12345"]),
        ((84.0, 7.123456789, 66.5), ["84.000", "7.123", "66.500"]),  # one quantity: the same digits
        ((0.5, 1.0, 3.25), ["0.50", "1.00", "3.25"]),
        ((12.3457, 0.5), ["12.3457", "0.5000"]),  # rounded by someone already: not rounded again
        ((219.958123456, 0.291435582), ["219.96", "0.29144"]),  # of different sizes: five digits each
        ((1e-5, 0.0), ["1e-05", "0"]),
        ((1234567.0, 2.5e9), ["1.2346e+06", "2.5e+09"]),
        ((Measured(84.012, 0.0612, 2), Measured(7.0, None, 1)), ["84.01 ± 0.06", "7.0"]),
        ((None, "words", 1.5), ["–", "words", "1.5"]),
        ((float("inf"), 1.5), ["∞", "1.5"]),
    ],
)
def test_numbers_are_shown_with_the_digits_that_suit_their_column(column: tuple[Cell, ...], shown: list[str]) -> None:
    assert cells(*column) == shown


def test_columns_of_numbers_stand_to_the_right_and_mixed_ones_to_the_left() -> None:
    numbers, mixed = (grid_html(Grid("t", ("x",), rows)) for rows in (((1.5,), (None,), ("∞",)), ((1.5,), ("one",))))
    assert numbers.count("number") == 4
    assert "number" not in mixed


def test_a_document_speaks_of_privacy_first_and_of_the_environment_last() -> None:
    document = render(page(Section("First", (), (CHART,)), Section("Second")))
    order = ["<h1>", "Proved.", "<nav", "First</h2>", "<figure", "Second</h2>", "x = 1", "libraries: numpy"]
    places = [document.index(part) for part in order]
    assert places == sorted(places)


def test_a_table_of_contents_is_only_there_where_there_is_something_to_choose() -> None:
    assert "<nav" not in render(page(Section("Only")))
    assert '<a href="#section-2">Two &amp; more</a>' in render(page(Section("One"), Section("Two & more")))


def test_the_policy_names_the_hashes_of_the_documents_own_style_and_script() -> None:
    document = render(page(Section("First", (), (CHART,))))
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', document)
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", document, re.DOTALL)
        assert f"{name} 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_the_document_says_its_language_its_encoding_and_how_wide_it_may_be() -> None:
    document = render(page())
    assert '<html lang="en">' in document
    assert '<meta charset="utf-8">' in document
    assert 'name="viewport" content="width=device-width' in document
