"""Tables of a page in a real browser: they sort, scroll in their own box, and can be taken away."""

import csv
from io import StringIO
from pathlib import Path

import pytest

from tests.report.browser import Browser, eventually
from tests.report.pages import history, page

pytestmark = pytest.mark.slow


def column(browser: Browser, name: str) -> list[str]:
    """The cells of a column as they stand now."""
    heads = [head.strip() for head in browser.texts("table[data-name=All] thead th")]
    return browser.texts(f"table[data-name=All] tbody tr > :nth-child({heads.index(name) + 1})")


def sort_by(browser: Browser, name: str) -> str | None:
    """Click on the head of a column; which way it says it is sorted."""
    (head,) = [head for head in browser.all("table[data-name=All] thead th") if head.text.startswith(name)]
    browser.script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", head)
    head.find_element("css selector", "button").click()
    return head.get_attribute("aria-sort")


def test_numbers_sort_by_value_both_ways_and_gaps_stay_at_the_end(root: Path, browser: Browser) -> None:
    browser.open(page(root, "study"))
    uploads = sorted((place * 37) % 40 * 100 for place in range(40))
    assert sort_by(browser, "uploads") == "ascending"
    assert [int(cell) for cell in column(browser, "uploads")] == uploads
    assert sort_by(browser, "uploads") == "descending"
    assert [int(cell) for cell in column(browser, "uploads")] == uploads[::-1]
    for way in ("ascending", "descending"):
        assert sort_by(browser, "seconds") == way
        cells = column(browser, "seconds")
        assert cells[-8:] == ["–"] * 8
        values = [float(cell) for cell in cells[:-8]]
        assert values == sorted(values, reverse=way == "descending")


def test_means_sort_by_value_and_words_as_people_count(root: Path, browser: Browser) -> None:
    browser.open(page(root, "study"))
    assert column(browser, "accuracy")[0] == "80.00 ± 0.06"
    sort_by(browser, "accuracy")
    assert column(browser, "method") == [f"method {place}" for place in range(39, -1, -1)]
    sort_by(browser, "method")
    assert column(browser, "method") == [f"method {place}" for place in range(40)]
    sorts = {head.text.split()[0]: head.get_attribute("aria-sort") for head in browser.all("[data-name=All] thead th")}
    assert {name for name, way in sorts.items() if way != "none"} == {"method"}


def test_a_wide_table_scrolls_in_its_own_box_and_keeps_its_first_column_in_sight(root: Path, browser: Browser) -> None:
    browser.open(page(root, "study"), width=390, height=844)
    (box,) = browser.all("[aria-label=All].scroll")
    inner, outer = browser.script("return [arguments[0].scrollWidth, arguments[0].clientWidth]", box)
    assert inner > outer
    browser.script("arguments[0].scrollLeft = 200", box)
    lefts = browser.script("""
        const row = arguments[0].querySelector("tbody tr");
        return [...row.cells].slice(0, 2).map((cell) => cell.getBoundingClientRect().left);""", box)  # fmt: skip
    assert lefts[0] == box.rect["x"]
    assert lefts[1] < lefts[0]


def downloaded(browser: Browser, name: str) -> list[list[str]]:
    target = browser.downloads / name
    assert eventually(lambda: target.exists() and target.read_text() != ""), list(browser.downloads.iterdir())
    return list(csv.reader(StringIO(target.read_text())))


def test_the_numbers_of_charts_and_tables_can_be_taken_away_as_csv(root: Path, browser: Browser) -> None:
    browser.open(page(root, "three"))
    browser.figure("Test accuracy").part(".download").click()
    head, *rows = downloaded(browser, "test-accuracy.csv")
    assert head == ["series", "communication round", "%", "low", "high"]
    taken = [float(row[2]) for row in rows if row[0] == "published/run"]
    assert taken == [100 * value for value in history(root, "published", "test_accuracy")]
    browser.open(page(root, "study"))
    browser.script("document.querySelector('[data-name=All]').closest('.grid').querySelector('.download').click()")
    head, *rows = downloaded(browser, "all.csv")
    assert head == ["method", "partition", "epsilon", "accuracy", "accuracy: error", "uploads", "seconds", "privacy"]
    assert [rows[7][place] for place in (0, 3, 4, 5)] == ["method 7", "79", "0.06", "1900"]
    assert (len(rows), rows[0][6]) == (40, "")


def test_a_name_taken_away_as_csv_is_no_formula_for_a_spreadsheet(root: Path, browser: Browser) -> None:
    browser.open(page(root, "hostile"))
    browser.script("document.querySelector('.grid .download').click()")
    rows = downloaded(browser, "script-title-style-img-src-x-onerror-window-hit-1-script-win.csv")
    assert rows[2] == ["'=1+1", "2"]
