"""Chromium and the front ends for the tests of this folder."""

import os
from collections.abc import Callable, Generator, Iterator

import pytest
from browser.lab import CHROMIUM_ARGS, LabPage, LabServer, find_chromium, lab_server
from browser.servers import JUPYTERLAB, JUPYTERLAB_6, NOTEBOOK_7, VOILA, FrontEnd
from browser.windows import VIEWPORT, Windows
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright
from support.overlays import overlay_python

OpenPage = Callable[..., LabPage]
FAILED = pytest.StashKey[bool]()

expect.set_options(timeout=15_000)  # five seconds are too few for a busy machine


def missing(reason: str) -> None:
    """Skip the test, or fail it if `CI` is set."""
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser."""
    path = find_chromium()
    if path is None:
        missing("Chromium is missing: install the package `chromium` (Debian, Ubuntu) to run the browser tests.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_ARGS))
        yield browser
        browser.close()


def _served(factory: pytest.TempPathFactory, front_end: FrontEnd) -> Iterator[LabServer]:
    name = front_end.environment
    if name and not overlay_python(name).exists():
        missing(f"The environment {name!r} is missing: `make front-ends` creates it.")
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark failed tests: their pages are not reused."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def windows(chromium: Browser) -> Windows:
    """The windows of all browser tests."""
    return Windows(chromium)


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser window for one test."""
    context = chromium.new_context(viewport=VIEWPORT)
    yield context
    context.close()


@pytest.fixture
def open_page(windows: Windows, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Opens a notebook of `lab` or another server, in the page of an earlier test or in a new one."""
    opened: list[tuple[LabPage, bool]] = []

    def open_one(name: str, server: LabServer | None = None, *, new: bool = False) -> LabPage:
        page = windows.open(name, server or request.getfixturevalue("lab"), new=new)
        opened.append((page, new))
        return page

    yield open_one
    for page, new in opened:
        windows.release(page, reuse=not new and not request.node.stash.get(FAILED, True))
