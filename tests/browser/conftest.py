"""Chromium and the front ends for the tests of this folder."""

import os
from collections.abc import Callable, Iterator

import pytest
from browser.lab import CHROMIUM_ARGS, LabPage, LabServer, find_chromium, lab_server, watch
from browser.overlays import overlay_python
from browser.servers import JUPYTERLAB, JUPYTERLAB_6, NOTEBOOK_7, VOILA, FrontEnd
from playwright.sync_api import Browser, BrowserContext, sync_playwright

OpenPage = Callable[..., LabPage]


def missing(reason: str) -> None:
    """Skip the test, or fail where everything must be there: `CI` is set."""
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser; where it must be there, its absence is a failure."""
    path = find_chromium()
    if path is None:
        missing("No Chromium was found: install the package `chromium` (Debian, Ubuntu) to run the browser tests.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_ARGS))
        yield browser
        browser.close()


def _served(factory: pytest.TempPathFactory, front_end: FrontEnd) -> Iterator[LabServer]:
    name = front_end.environment
    if name and not overlay_python(name).exists():
        missing(f"The environment {name!r} is not there: `make front-ends` makes it.")
    with lab_server(factory.mktemp("server"), {"AF_APPROVALS": "ask"}, front_end) as server:
        yield server


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab server for all browser tests, its kernels of the newest ipykernel."""
    yield from _served(tmp_path_factory, JUPYTERLAB)


@pytest.fixture(scope="session")
def lab6(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab server whose kernels are of ipykernel 6.31."""
    yield from _served(tmp_path_factory, JUPYTERLAB_6)


@pytest.fixture(scope="session")
def notebook7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server of Notebook 7."""
    yield from _served(tmp_path_factory, NOTEBOOK_7)


@pytest.fixture(scope="session")
def voila(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A server of Voila."""
    yield from _served(tmp_path_factory, VOILA)


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser window of the test's own."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def open_page(context: BrowserContext, request: pytest.FixtureRequest) -> OpenPage:
    """Opens a notebook in a page of its own: of `lab`, or of the server that is given."""

    def open_one(name: str, server: LabServer | None = None) -> LabPage:
        return watch(context, server or request.getfixturevalue("lab"), name)

    return open_one
