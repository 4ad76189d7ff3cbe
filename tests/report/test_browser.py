"""The page in a real browser: it opens quietly, holds off bad names, and reads well by day, by night and on paper."""

from pathlib import Path

import pytest

from tests.report.browser import Browser, Figure
from tests.report.pages import HOSTILE, page

pytestmark = pytest.mark.slow

WIDTHS = (1280, 390)
PAGES = ("one", "three", "study")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_word_on_the_console_and_asks_for_nothing(
    root: Path, browser: Browser, name: str
) -> None:
    browser.open(page(root, name))
    assert browser.all(".plot path.line"), "nothing was drawn"
    assert browser.console() == []
    assert browser.requests() == [page(root, name).as_uri()]
    assert browser.script("return performance.getEntriesByType('resource').length") == 0


def test_a_page_that_did_say_or_ask_something_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><img src='http://127.0.0.1:9/x'><script>console.warn('hm')</script>")
    browser.open(bad)
    assert any("hm" in message for message in browser.console())
    assert "http://127.0.0.1:9/x" in browser.requests()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_its_window_and_no_text_is_small(root: Path, browser: Browser, name: str, width: int) -> None:
    browser.open(page(root, name), width=width, height=844)
    browser.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    scrolled, shown, wide = browser.script("""
        const { scrollWidth, clientWidth } = document.documentElement;
        return [scrollWidth, clientWidth, innerWidth];""")
    assert (scrolled, wide) == (shown, width)
    small = browser.script("""
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
        while (texts.nextNode()) {
          const { parentElement: around, data } = texts.currentNode;
          if (!data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(around.tagName)) continue;
          if (parseFloat(getComputedStyle(around).fontSize) < 12) found.push(data);
        }
        return found;""")
    assert small == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_privacy_statement_stands_before_every_chart_and_in_sight(root: Path, browser: Browser, width: int) -> None:
    for name in ("one", "study"):
        browser.open(page(root, name), width=width, height=844)
        first, bottom = browser.script("""
            const box = document.querySelector(".privacy");
            const others = [...document.querySelectorAll("figure, table, nav, details")];
            const after = (other) => box.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
            return [others.every(after), box.getBoundingClientRect().bottom];""")  # fmt: skip
        assert first
        assert bottom <= 844
        assert browser.all(".privacy p")[0].is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_curves_stand_out_from_the_page_by_day_and_by_night(root: Path, browser: Browser, scheme: str) -> None:
    browser.open(page(root, "study"), scheme=scheme)
    found = browser.script("""
        const light = (color) => color.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
          .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
          .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
        const page = light(getComputedStyle(document.body).backgroundColor);
        const contrast = (color) => (Math.max(light(color), page) + 0.05) / (Math.min(light(color), page) + 0.05);
        const of = (selector, name) => [...document.querySelectorAll(selector)]
          .map((one) => contrast(getComputedStyle(one)[name]));
        return { page, ink: of("p, h1, h2, h3, a, td, th, button, .note", "color"), ticks: of(".plot text", "fill"),
          lines: of(".plot .line", "stroke") };""")
    assert (found["page"] > 0.5) == (scheme == "light")
    assert min(found["ink"]) >= 4.5
    assert min(found["ticks"]) >= 4.5
    assert min(found["lines"]) >= 3


def test_names_that_look_like_markup_are_shown_and_do_nothing(root: Path, browser: Browser) -> None:
    browser.open(page(root, "hostile"))
    shown = ("h1", "h2#section-1", ".privacy p", "nav a", "figcaption", ".legend span", ".unit", ".reference-name",
             ".chart .note", "h3", "thead button", "tbody th", ".grid .note", "summary", "pre code")  # fmt: skip
    for selector in shown:
        texts = browser.texts(selector)
        assert any(text.startswith("</script></title>") for text in texts), selector
    assert browser.texts("h1") == browser.texts("pre code") == [HOSTILE]
    assert browser.driver.title == HOSTILE
    figure = Figure(browser, browser.all("figure.chart")[0])
    figure.point_at(0.9)
    assert HOSTILE in browser.texts(".tooltip td")
    figure.part(".legend button").click()
    browser.all("thead button")[0].click()
    assert browser.script("return window.hit ?? null") is None
    assert browser.script("return [document.images.length, document.scripts.length]") == [0, 2]
    assert browser.console() == []
    assert browser.requests() == [page(root, "hostile").as_uri()]


def test_even_markup_that_got_into_a_page_could_neither_run_nor_fetch(
    root: Path, browser: Browser, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.html"
    inside = """<img src="http://127.0.0.1:9/x" onerror="window.hit=1"><script>window.hit=1</script></main>"""
    bad.write_text(page(root, "one").read_text().replace("</main>", inside))
    browser.open(bad)
    assert len(browser.all("main img")) == 1
    assert browser.script("return window.hit ?? null") is None
    refused = [message for message in browser.console() if "Content Security Policy" in message]
    assert any("127.0.0.1" in message for message in refused), "the picture would have been fetched"
    assert browser.all(".plot path.line"), "the page's own script ran all the same"


def test_without_scripts_the_statement_the_tables_and_the_configuration_can_be_read(
    root: Path, browser: Browser
) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(page(root, "study"))
        assert browser.all(".privacy p")[0].text == "All of it is proved."
        assert [note.is_displayed() for note in browser.all("figure noscript p")] == [True] * 8
        assert len(browser.all("[data-name=All] tbody tr")) == 40
        assert not browser.all("main button"), "a button that does nothing"
        browser.all("summary")[0].click()
        assert browser.all("pre")[0].text == "seeds = 10"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_on_paper_everything_is_visible(root: Path, browser: Browser) -> None:
    browser.open(page(root, "study"), width=700, media="print")
    assert browser.script("return getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
    assert not any(button.is_displayed() for button in browser.all(".download"))
    browser.script("dispatchEvent(new Event('beforeprint'))")
    assert browser.all("pre")[0].is_displayed()
    browser.script("dispatchEvent(new Event('afterprint'))")
    assert browser.script("return document.querySelectorAll('details[open]').length") == 0
