"""Charts of a page in a real browser: they answer to mouse, finger and keyboard, and to the window's size."""

from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from tests.report.browser import Browser, eventually
from tests.report.pages import history, page

pytestmark = pytest.mark.slow


def test_hovering_tells_the_number_of_the_nearest_round_and_moving_changes_it(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"))
    accuracy = history(root, "proved", "test_accuracy")
    figure = browser.figure("Test accuracy")
    assert figure.tooltip() is None
    for share, place in ((0.97, 4), (0.4, 2), (0.13, 1)):
        figure.point_at(share)
        told = figure.tooltip()
        assert told is not None
        assert told[0] == f"communication round {place}"
        assert told[1]["test accuracy"] == pytest.approx(100 * accuracy[place - 1], abs=0.0006)
    assert float(figure.part(".plot .crosshair").get_attribute("x1") or 0) < figure.part(".plot").size["width"] / 4
    browser.hands().move_to_element(browser.all("h1")[0]).perform()
    assert figure.tooltip() is None


def test_hovering_tells_what_was_spent_and_never_less(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"))
    figure = browser.figure("Privacy spent")
    figure.point_at(0.97)
    told = figure.tooltip()
    assert told is not None
    for name, column in (("largest client", "epsilon_max"), ("mean client", "epsilon_mean")):
        spent = history(root, "proved", column)[-1]
        assert spent <= told[1][name] <= spent + 1e-4


def test_hovering_over_several_runs_tells_of_every_run_that_got_that_far(root: Path, browser: Browser) -> None:
    browser.open(page(root, "three"))
    figure = browser.figure("Test accuracy")
    figure.point_at(0.97)
    told = figure.tooltip()
    assert told is not None
    assert told[0] == "communication round 9"
    assert told[1].keys() == {"published/run", "other/run"}, "the proved run ended after round 4"
    for run in ("published", "other"):
        last = 100 * history(root, run, "test_accuracy")[-1]
        assert told[1][f"{run}/run"] == pytest.approx(last, abs=0.006)
    figure.point_at(0.2)
    told = figure.tooltip()
    assert told is not None
    assert len(told[1]) == 3


def test_a_click_on_the_legend_takes_a_curve_away_and_rescales_and_another_brings_it_back(
    root: Path, browser: Browser
) -> None:
    browser.open(page(root, "three"))
    figure = browser.figure("Test accuracy")
    whole = figure.texts(".x-tick"), figure.texts(".y-tick")
    published, other = figure.buttons()["published/run"], figure.buttons()["other/run"]
    published.click()
    other.click()
    assert figure.lines() == 1
    assert (published.get_attribute("aria-pressed"), other.get_attribute("aria-pressed")) == ("false", "false")
    assert max(map(float, figure.texts(".x-tick"))) <= 4 < 9 <= max(map(float, whole[0])) + 1
    assert figure.texts(".y-tick") != whole[1]
    figure.point_at(0.97)
    told = figure.tooltip()
    assert told is not None
    assert told[1].keys() == {"proved/run"}
    published.click()
    other.click()
    assert figure.lines() == 3
    assert (figure.texts(".x-tick"), figure.texts(".y-tick")) == whole


def test_with_every_curve_hidden_the_chart_says_so(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"))
    figure = browser.figure("Test accuracy")
    figure.buttons()["test accuracy"].click()
    assert figure.lines() == 0
    assert "all series are hidden" in figure.texts(".plot text")
    figure.point_at(0.5)
    assert figure.tooltip() is None


def test_a_double_click_leaves_one_curve_and_another_brings_all_back(root: Path, browser: Browser) -> None:
    browser.open(page(root, "three"))
    figure = browser.figure("Test accuracy")
    button = figure.buttons()["other/run"]
    browser.hands().double_click(button).perform()
    assert {name: one.get_attribute("aria-pressed") for name, one in figure.buttons().items()} == {
        "proved/run": "false", "published/run": "false", "other/run": "true",
    }  # fmt: skip
    assert figure.lines() == 1
    browser.hands().double_click(button).perform()
    assert figure.lines() == 3


def test_the_keyboard_reaches_the_legend_and_the_values(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"))
    figure = browser.figure("Privacy spent")
    button = figure.buttons()["mean client"]
    for _ in range(80):  # past the statement, with which the page opens
        browser.hands().send_keys(Keys.TAB).perform()
        if browser.driver.switch_to.active_element == button:
            break
    assert browser.driver.switch_to.active_element == button
    browser.hands().send_keys(Keys.ENTER).perform()
    assert figure.lines() == 1
    browser.hands().send_keys(Keys.SPACE).perform()
    assert figure.lines() == 2
    browser.hands().send_keys(Keys.TAB).perform()
    places = [figure.tooltip()]
    for key in (Keys.ARROW_LEFT, Keys.HOME, Keys.ARROW_LEFT, Keys.END):
        browser.hands().send_keys(key).perform()
        places.append(figure.tooltip())
    assert [told and told[0].split()[-1] for told in places] == ["4", "3", "1", "1", "4"]
    browser.hands().send_keys(Keys.ESCAPE).perform()
    assert figure.tooltip() is None


def test_a_finger_on_a_chart_reads_values_that_stay_when_it_is_lifted(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"), width=390, height=844)
    figure = browser.figure("Test accuracy")
    plot = figure.part(".plot")
    browser.script("arguments[0].scrollIntoView({block: 'center'})", plot)
    box = browser.script("const b = arguments[0].getBoundingClientRect(); return [b.x, b.y, b.width, b.height]", plot)
    point = {"x": box[0] + 0.97 * box[2], "y": box[1] + box[3] / 2}
    for kind, points in (("touchStart", [point]), ("touchEnd", [])):
        browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    told = figure.tooltip()
    assert told is not None
    assert told[0] == "communication round 4"


@pytest.mark.parametrize(("width", "columns"), [(1280, 3), (800, 2), (390, 1)])
def test_charts_stand_side_by_side_where_there_is_room_and_tick_labels_never_overlap(
    root: Path, browser: Browser, width: int, columns: int
) -> None:
    browser.open(page(root, "study"), width=width)
    lefts = browser.script("return [...document.querySelectorAll('.plot')].map(e => e.getBoundingClientRect().left)")
    assert len({round(left) for left in lefts}) == columns
    overlaps = browser.script("""
        const meet = (one, other) => one.left < other.right && other.left < one.right
          && one.top < other.bottom && other.top < one.bottom;
        return [...document.querySelectorAll(".plot > svg")].flatMap((svg) => {
          const texts = [...svg.querySelectorAll(".x-tick, .y-tick")];
          const boxes = texts.map((text) => text.getBoundingClientRect());
          return texts.filter((_, i) => boxes.some((box, j) => j < i && meet(boxes[i], box))).map((t) => t.textContent);
        });""")
    assert overlaps == []


def test_charts_are_redrawn_when_the_window_changes(root: Path, browser: Browser) -> None:
    browser.open(page(root, "one"))
    figure = browser.figure("Test accuracy")
    assert int(figure.part(".plot svg").get_attribute("width") or 0) > 390
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert eventually(lambda: int(figure.part(".plot svg").get_attribute("width") or 0) < 390)
