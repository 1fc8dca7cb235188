"""Chromium and a JupyterLab for the tests of this folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser.lab import CHROMIUM_ARGS, LabPage, LabServer, find_chromium, lab_server, watch
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser; where it must be there (`CI` is set), its absence is a failure."""
    path = find_chromium()
    if path is None:
        reason = "No Chromium was found: install the package `chromium` (Debian, Ubuntu) to run the browser tests."
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_ARGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab server for all browser tests."""
    home: Path = tmp_path_factory.mktemp("lab")
    with lab_server(home, {"AF_APPROVALS": "ask"}) as server:
        yield server


@pytest.fixture
def open_page(chromium: Browser, lab: LabServer) -> Iterator[Callable[[str], LabPage]]:
    """Opens a notebook of the server in a page of its own."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield lambda name: watch(context, lab, name)
    context.close()
