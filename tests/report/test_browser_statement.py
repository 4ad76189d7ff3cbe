"""A statement in a real browser: a slider that tells the truth, a phone's width, two sides of paper."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from fedspd.report.statement.html import statement_html
from fedspd.results.statement import DECLARED
from fedspd.statement.meaning import belief_after, guess_right
from tests.report.browser import Browser
from tests.statement.test_statement import SUMS, stated

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def longest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A statement in which everything is said at the greatest length, and its page."""
    folder = tmp_path_factory.mktemp("statement")
    text = "Who answers for the records has thought about this for a long time and writes it down here. " * 4
    made = {**stated(folder, "fedspd", **SUMS), "declared": dict.fromkeys(DECLARED, text[:300])}
    made["ledger"]["run"] = "first"
    event = made["budget"]["charges"][0]["event"]
    kinds = (("evaluation", "first"), ("inference", "first"), ("selection", "first second"))
    made["budget"]["charges"] += [{"run": run, "mechanism": kind, "event": event, "count": 12} for kind, run in kinds]
    made["run"]["held_out"] = 12345
    made["tuning"] = {"charged": True, "told": text[:330], "epsilon": 12.345}
    made["evaluation"] = {"charged": True, "told": (text + text)[:420]}
    made["audit"] = {
        "claimed_epsilon": 1.0,
        "delta": 1e-5,
        "guarantee": "proved",
        "lower_bound": 0.43,
        "confidence": 0.95,
        "attack": text[:80],
        "runs": 1000,
        "refuted": True,
        "noise_is_fresh": False,
    }
    (folder / "page.html").write_text(statement_html(made, warning=text[:250]))
    return made, folder / "page.html"


def test_the_page_opens_quietly_and_fits_a_phone(browser: Browser, longest: tuple[Any, Path]) -> None:
    for width in (1280, 390):
        browser.open(longest[1], width=width, height=844)
        assert browser.console() == []
        assert browser.requests() == [longest[1].as_uri()]
        assert browser.script("return document.documentElement.scrollWidth") <= width


def test_the_slider_says_what_the_formulas_say(browser: Browser, longest: tuple[Any, Path]) -> None:
    browser.open(longest[1])
    claim = longest[0]["guarantee"]
    for prior in (50, 3, 97):
        browser.script(
            "const one = document.getElementById('prior'); one.value = arguments[0]; "
            "one.dispatchEvent(new Event('input'))",
            prior,
        )
        (told,) = browser.texts("#told")
        _, _, most, right = (float(number) / 100 for number in re.findall(r"([\d.]+) %", told))
        assert most == pytest.approx(belief_after(prior / 100, claim["epsilon"]), abs=1.01e-4)
        assert right == pytest.approx(guess_right(prior / 100, claim["epsilon"], claim["delta"]), abs=1.01e-4)
        assert most >= belief_after(prior / 100, claim["epsilon"]) - 1e-12


def test_the_longest_statement_is_two_sides_of_paper(browser: Browser, longest: tuple[Any, Path]) -> None:
    browser.open(longest[1])
    for paper in ((8.27, 11.69), (8.5, 11.0)):
        how = {"paperWidth": paper[0], "paperHeight": paper[1], "preferCSSPageSize": False}
        printed = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", how)["data"])
        assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2
