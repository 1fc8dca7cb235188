"""JupyterLab's own notifications, its bell and its toasts, say that a request waits while no card is visible."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from browser.test_covered_controls import chat
from browser.test_waiting import ASK, LATER, SETUP, SOON_MS, TALL, cards, open_notebook
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser
OpenPage = Callable[..., LabPage]

MESSAGE = "Waiting for you in run.ipynb: Run “send”: Ada"
DECIDE = """from pathlib import Path
while len(wb.pending()) < 3:
    await asyncio.sleep(0.1)
for n, request in enumerate(wb.pending()):
    while not Path(f"go{n}").exists():
        await asyncio.sleep(0.1)
    wb.run(request.run_id).approve(request.id)
"""
"""Approves the requests one after the other, each when a file exists."""
NOTICES = """() => {
    const sent = [];
    window.addEventListener("artifactflow:waiting", ({ detail }) => sent.push(detail.notices.map(({ ids }) => ids)));
    const request = (id, panel) => ({ id, title: id, panel, card: document.createElement("div") });
    const [home, view] = [1, 2].map((startedAt) => ({ model: {}, mounts: [], startedAt }));
    const attention = new Attention();
    attention.report("home", [request("a", home), request("b", home)]);
    attention.report("view", [request("b", view)]);
    attention.report("home", [request("b", home)]);
    attention.report("view", []);
    attention.report("home", []);
    return sent;
}"""
"""What is sent while a home has two requests, one of which a view of its own shows for a while."""

ORDER = """() => {
    const request = (id, panel) => ({ id, title: id, panel, card: document.createElement("div") });
    const root = (css) => Object.assign(document.createElement("section"), { className: css });
    const [run, home, pending] = ["af-run", "af-run af-home", "af-run af-pending"].map((css, n) =>
        ({ name: css, model: {}, mounts: [{ root: root(css) }], startedAt: n + 1 }));
    const attention = new Attention();
    for (const panel of [pending, home]) attention.report(panel.name, [request("b", panel), request("a", panel)]);
    attention.report(run.name, [request("a", run)]);
    return attention.requests.map(({ id, panel }) => [id, panel.name]);
}"""
"""The order of two requests which a newer home and `wb.pending()` show, and one of them the view of its run as well."""


def bell(page: LabPage) -> Locator:
    """The number of notifications in the status bar."""
    return page.page.locator(".jp-Notification-Status-Text")


def in_list(page: LabPage) -> Locator:
    """The entries of the list behind the bell, if it is open."""
    return page.page.locator(".jp-Notification-List-Item")


def toasts(page: LabPage) -> Locator:
    return page.page.locator(".jp-toastContainer .Toastify__toast")


def out_of_view(lab: LabServer, open_page: OpenPage, setup: str, *cells: str) -> LabPage:
    """Open a notebook that is scrolled to its first cell while the run of its third cell waits for decisions."""
    page = open_notebook(lab, open_page, setup, TALL, LATER, *cells)
    page.wait_done(1)
    page.cells.nth(0).scroll_into_view_if_needed()
    expect(page.page).to_have_title(re.compile(r"^\(3 waiting\) "), timeout=SOON_MS)
    return page


@contextmanager
def toasts_on(server: LabServer) -> Iterator[None]:
    """Switch toasts on for pages that are loaded within the context; they are off in all other tests."""
    path = server.root.parent / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    before = path.read_text()
    path.write_text(json.dumps(json.loads(before) | {"doNotDisturbMode": False}))
    yield
    path.write_text(before)


def test_notification_leads_to_the_card_and_ends(lab: LabServer, open_page: OpenPage) -> None:
    """While the cards of a run are out of view, the bell has one notification, and its button leads to the cards."""
    page = out_of_view(lab, open_page, SETUP)
    expect(bell(page)).to_have_text("1", timeout=SOON_MS)
    page.command("apputils:display-notifications")
    expect(in_list(page)).to_have_count(1)
    expect(in_list(page)).to_contain_text(f"{MESSAGE} (and 2 more)")
    save_pictures(page, page.page.locator(".jp-Notification-Center"), "notification-list")
    in_list(page).get_by_role("button", name="Show").click()
    expect(cards(page, 2).first).to_be_focused(timeout=SOON_MS)
    expect(bell(page)).to_have_text("0")
    page.cells.nth(0).scroll_into_view_if_needed()
    expect(page.page.locator(".af-attention")).to_be_visible(timeout=SOON_MS)
    expect(bell(page)).to_have_text("0")  # the person knows of it
    assert page.errors == []


def test_notification_follows_the_decisions(lab: LabServer, open_page: OpenPage) -> None:
    """The notification names the requests that still wait, and disappears with the last request."""
    page = out_of_view(lab, open_page, SETUP, DECIDE)
    expect(bell(page)).to_have_text("1", timeout=SOON_MS)
    page.command("apputils:display-notifications")
    for n, remaining in enumerate(("Bob (and 1 more)", "Eve")):
        page.file_in_folder(f"go{n}").touch()
        expect(in_list(page)).to_contain_text(f"Waiting for you in run.ipynb: Run “send”: {remaining}", timeout=SOON_MS)
    page.file_in_folder("go2").touch()
    expect(in_list(page)).to_have_count(0, timeout=SOON_MS)
    expect(bell(page)).to_have_text("0")
    assert page.errors == []


def test_no_notification_while_the_card_is_visible(lab: LabServer, open_page: OpenPage) -> None:
    """A request whose card is visible needs no notification."""
    page = open_notebook(lab, open_page, SETUP, ASK)
    expect(cards(page, 1)).to_have_count(3, timeout=SOON_MS)
    expect(page.page).to_have_title(re.compile(r"^\(3 waiting\) "), timeout=SOON_MS)
    page.page.wait_for_timeout(1500)
    expect(bell(page)).to_have_text("0")


def test_each_request_is_in_one_notice(chromium: Browser) -> None:
    """The notice of a run has the run's requests, the notice of the home the requests that no other view shows."""
    page = chat(chromium, 1280, 600)
    assert page.evaluate(NOTICES) == [[["a", "b"]], [["b"], ["a"]], [["b"]], [["b"]], []]
    page.close()


def test_line_leads_to_the_view_of_a_run_before_lists_of_all_runs(chromium: Browser) -> None:
    page = chat(chromium, 1280, 600)
    assert page.evaluate(ORDER) == [["a", "af-run"], ["b", "af-run af-pending"]]
    page.close()


def test_toast_appears_in_another_notebook(lab: LabServer, open_page: OpenPage) -> None:
    """The toast replaces the line. A closed toast and the line do not return; the request is behind the bell."""
    page = open_page(new_notebook(lab, SETUP, LATER), new=True)
    with toasts_on(lab):
        page.open()
    page.run_all()
    page.wait_done(0)
    other = new_notebook(lab, "1")
    page.page.evaluate("path => { window.jupyterapp.commands.execute('docmanager:open', { path }); }", other)
    expect(toasts(page)).to_have_count(1, timeout=SOON_MS)
    expect(toasts(page)).to_contain_text(f"{MESSAGE} (and 2 more)")
    expect(page.page.locator(".af-attention")).to_have_count(0)
    toasts(page).get_by_title("Hide notification").click()
    expect(toasts(page)).to_have_count(0)
    page.page.wait_for_timeout(1500)
    expect(page.page.locator(".af-attention")).to_have_count(0)
    expect(bell(page)).to_have_text("1")
    page.command("apputils:display-notifications")
    in_list(page).get_by_role("button", name="Show").click()
    expect(cards(page, 1).first).to_be_focused(timeout=SOON_MS)
    expect(bell(page)).to_have_text("0")
    assert page.errors == []


def test_notebook_7_has_toasts(notebook7: LabServer, open_page: OpenPage) -> None:
    """The toast has the language of the workbench; when it has disappeared by itself, the line is displayed."""
    setup = SETUP.replace("data_dir=", "language='zh', data_dir=")
    long_cell = "1" + "\n" * 100  # Notebook 7 scrolls tall outputs in themselves
    page = open_page(new_notebook(notebook7, setup, long_cell, LATER), notebook7)
    with toasts_on(notebook7):
        page.open()
    page.run_all()
    page.wait_done(1)
    page.cells.nth(0).scroll_into_view_if_needed()
    expect(toasts(page)).to_contain_text("run.ipynb 中有请求等待您处理：", timeout=SOON_MS)
    expect(toasts(page)).to_contain_text("Ada（另有 2 个）")
    expect(toasts(page).get_by_role("button", name="查看")).to_be_visible()
    expect(toasts(page)).to_have_count(0, timeout=SOON_MS)
    page.page.locator(".af-attention").get_by_role("button", name="查看").click()
    expect(cards(page, 2).first).to_be_focused(timeout=SOON_MS)
    assert page.errors == []
