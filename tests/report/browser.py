"""A real headless Chromium, and what tests ask it."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

PROGRAMS = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
MISSING = [name for name, path in PROGRAMS.items() if path is None]
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def chromium(home: Path) -> Iterator["Browser"]:
    """A browser with an empty profile under this folder; both programs are named, so that none is looked for."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(PROGRAMS["chromium"])
    for argument in (*ARGUMENTS, f"--user-data-dir={home / 'profile'}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(PROGRAMS["chromedriver"]))
    try:
        yield Browser(driver, home)
    finally:
        driver.quit()


def eventually(true: Callable[[], bool]) -> bool:
    """Whether something becomes true within some seconds."""
    for _ in range(100):
        with suppress(StaleElementReferenceException):  # redrawn while it was looked at: look again
            if true():
                return True
        time.sleep(0.1)
    return False


class Browser:
    """What a reader does with a page."""

    def __init__(self, driver: webdriver.Chrome, home: Path) -> None:
        self.driver = driver
        self.downloads = home / "downloads"
        self.downloads.mkdir()
        where = {"behavior": "allow", "downloadPath": str(self.downloads)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", where)

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """Open a file at a size of the window; what earlier pages said is forgotten."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        look = {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        self.driver.get("about:blank")
        self.console()
        self.requests()
        self.driver.get(path.as_uri())

    def script(self, code: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        """Elements in document order."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The text of elements, as it is in the document."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def figure(self, title: str) -> "Figure":
        """The chart of this title."""
        (found,) = [one for one in self.all("figure.chart") if one.text.startswith(title)]
        return Figure(self, found)

    def hands(self) -> ActionChains:
        """Mouse and keyboard."""
        return ActionChains(self.driver, duration=50)

    def console(self) -> list[str]:
        """What was said on the console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the last time."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [event["request"]["url"] for event in sent]


class Figure:
    """A chart on the page."""

    def __init__(self, browser: Browser, element: WebElement) -> None:
        self.browser, self.element = browser, element

    def part(self, selector: str) -> WebElement:
        """An element of the chart."""
        return self.element.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Texts of elements of the chart."""
        return [one.text for one in self.element.find_elements(By.CSS_SELECTOR, selector)]

    def buttons(self) -> dict[str, WebElement]:
        """The legend."""
        return {one.text: one for one in self.element.find_elements(By.CSS_SELECTOR, ".legend button")}

    def lines(self) -> int:
        """Curves that are drawn."""
        return len(self.element.find_elements(By.CSS_SELECTOR, ".plot path.line"))

    def point_at(self, share: float) -> None:
        """Move the mouse to this share of the plot's width."""
        plot = self.part(".plot")
        self.browser.script("arguments[0].scrollIntoView({block: 'center'})", plot)
        across = round((share - 0.5) * plot.size["width"])
        self.browser.hands().move_to_element_with_offset(plot, across, 0).perform()

    def tooltip(self) -> tuple[str, dict[str, float]] | None:
        """What the tooltip says: the place, and the value of every series by its name."""
        tooltip = self.part(".tooltip")
        if not tooltip.is_displayed():
            return None
        rows = tooltip.find_elements(By.CSS_SELECTOR, "tr")
        cells = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "td")] for row in rows]
        return tooltip.find_element(By.CSS_SELECTOR, ".at").text, {row[1]: float(row[2].split()[0]) for row in cells}
