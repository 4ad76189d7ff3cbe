"""Pages and a browser, made once for all tests of reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import MISSING, Browser, chromium
from tests.report.pages import write_pages


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_pages(folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if MISSING:
        pytest.skip(f"no {' and no '.join(MISSING)} on this machine: make browser installs them")
    with chromium(tmp_path_factory.mktemp("chromium")) as started:
        yield started
