"""The side panel, the launcher card and the commands in JupyterLab: the page of the server extension in frames."""

import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from browser.axe import axe_in_page
from browser.lab import LabServer, lab_server
from browser.servers import JUPYTERLAB, NOTEBOOK_7, FrontEnd
from playwright.sync_api import Browser, FrameLocator, Page, expect
from support.http_server import Client

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import TRUST_VARIABLE

pytestmark = pytest.mark.browser

SENTENCE = "The ferry leaves Thun at nine."
OPEN = "(id) => window.jupyterapp.commands.execute(id)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    with lab_server(tmp_path_factory.mktemp("research"), {TRUST_VARIABLE: "1"}) as server:
        write_notebook(server)
        yield server


@pytest.fixture
def client(server: LabServer) -> Iterator[Client]:
    with Client(server.address, {"Authorization": f"token {server.token}"}) as client:
        yield client


def write_notebook(server: LabServer) -> None:
    cells = [nbformat.v4.new_markdown_cell(SENTENCE), nbformat.v4.new_code_cell("first = 1\nsecond = 2")]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, server.root / "notes.ipynb")


def open_lab(chromium: Browser, server: LabServer, place: str = "lab/tree/notes.ipynb") -> Page:
    page = chromium.new_context(viewport={"width": 1500, "height": 950}).new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.problems = problems  # type: ignore[attr-defined]
    page.goto(f"{server.address}/{place}?token={server.token}&reset")
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('artifactflow:open')", timeout=60_000)
    return page


def side_panel(page: Page) -> FrameLocator:
    page.evaluate(OPEN, "artifactflow:side")
    return page.frame_locator("#artifactflow-side iframe")


def axe_in_frames(page: Page) -> list[str]:
    """The violations in the frames of the product."""
    frames = [frame for frame in page.frames if "artifactflow" in frame.url]
    assert frames
    return [line for frame in frames for line in axe_in_page(frame)]


def test_request_is_approved_in_the_side_panel(chromium: Browser, server: LabServer, client: Client) -> None:
    """The tab has the number of waiting requests, before the panel has been opened; the panel has their cards."""
    page = open_lab(chromium, server)
    wb = af.Workbench(data_dir=server.root / ".artifactflow", approvals={"create_artifact": "ask"})
    wb.ask("How does a context manager handle exceptions?")
    tab = page.locator(".lm-TabBar-tab[data-id='artifactflow-side']")
    expect(tab).to_have_text("1")
    assert "1 waiting for you" in (tab.get_attribute("title") or "")
    panel = side_panel(page)
    card = panel.locator(".af-approval")
    expect(card).to_be_visible()
    assert axe_in_frames(page) == []
    if folder := os.environ.get("AF_PICTURES"):
        page.set_viewport_size({"width": 1200, "height": 680})
        page.screenshot(path=Path(folder) / "research-panel.png")
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    expect(panel.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    background = "getComputedStyle(document.body).getPropertyValue('--jp-layout-color1')"
    frame = next(frame for frame in page.frames if "artifactflow" in frame.url)
    assert frame.evaluate(background) == page.evaluate(background)
    assert axe_in_frames(page) == []
    card.get_by_role("button", name="Approve").first.click()
    expect(card).to_have_count(0)
    expect(tab).to_have_text("")
    [decided, *_] = client.get("/frames/approvals").json()["rows"]
    assert decided["decided_by"].startswith("http:")
    assert page.problems == []  # type: ignore[attr-defined]
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
    wb.close()
    page.context.close()


def test_launcher_card_opens_the_page_in_a_tab(chromium: Browser, server: LabServer) -> None:
    page = open_lab(chromium, server, "lab")
    page.locator(".jp-LauncherCard", has_text="Research").click()
    tab = page.frame_locator("#artifactflow-main iframe")
    expect(tab.get_by_role("textbox", name="Question")).to_be_visible()
    expect(tab.get_by_role("link", name="Approvals")).to_be_visible()
    assert page.problems == []  # type: ignore[attr-defined]
    page.context.close()


def test_selection_fills_the_form_and_asks_nothing(chromium: Browser, server: LabServer, client: Client) -> None:
    """The menu of a cell quotes the selected text, or the whole cell; the person writes and sends the question."""
    n_before = len(client.get("/chat").json()["conversations"])
    page = open_lab(chromium, server)
    before = (server.root / "notes.ipynb").read_bytes()
    page.locator(".jp-MarkdownCell").click(button="right")
    page.get_by_role("menuitem", name="Ask About This Selection").click()
    field = page.frame_locator("#artifactflow-side iframe").get_by_role("textbox", name="Question")
    expect(field).to_have_value(f"> {SENTENCE}\n\n")
    page.locator(".jp-CodeCell .cm-line").last.dblclick(position={"x": 10, "y": 8})
    page.locator(".jp-CodeCell .cm-line").last.click(button="right", position={"x": 10, "y": 8})
    page.get_by_role("menuitem", name="Ask About This Selection").click()
    expect(field).to_have_value(f"> {SENTENCE}\n\n> second\n\n")
    page.locator(".jp-MarkdownCell").click(button="right")  # while the other cell is active and has a selection
    page.get_by_role("menuitem", name="Ask About This Selection").click()
    expect(field).to_have_value(f"> {SENTENCE}\n\n> second\n\n> {SENTENCE}\n\n")
    assert len(client.get("/chat").json()["conversations"]) == n_before
    assert (server.root / "notes.ipynb").read_bytes() == before
    page.context.close()


def test_dropped_files_become_sources(chromium: Browser, server: LabServer, client: Client) -> None:
    """A file of the file browser is indexed where it is, a file of the computer in the data folder."""
    (server.root / "ferries.md").write_text("# Ferries\n\nThe ferry to Spiez takes 42 minutes.\n")
    page = open_lab(chromium, server)
    panel = side_panel(page)
    page.evaluate("window.jupyterapp.shell.activateById('filebrowser')")
    source = page.locator(".jp-DirListing-item", has_text="ferries.md")
    expect(source).to_be_visible()
    page.evaluate(OPEN, "artifactflow:open")
    target = page.locator("#artifactflow-main")
    expect(page.frame_locator("#artifactflow-main iframe").get_by_role("textbox", name="Question")).to_be_visible()
    box, place = source.bounding_box(), target.bounding_box()
    assert box is not None
    assert place is not None
    page.mouse.move(box["x"] + 30, box["y"] + 8)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(box["x"] + 30 + step * 40, box["y"] + 8 + step * 10)
    page.mouse.move(place["x"] + 300, place["y"] + 200, steps=5)
    page.mouse.up()
    tab = page.frame_locator("#artifactflow-main iframe")
    expect(tab.get_by_text("Added ferries.md")).to_be_visible()
    frame = next(frame for frame in page.frames if frame.url.endswith("#home"))
    frame.evaluate("""() => {
        const data = new DataTransfer();
        data.items.add(new File(["# Fares\\n\\nA tandem costs 3 crowns.\\n"], "fares.md"));
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }""")
    page.evaluate(OPEN, "artifactflow:side")
    expect(panel.get_by_text("Added fares.md")).to_be_visible()
    uris = {row["uri"] for row in client.get("/frames/sources").json()["rows"]}
    assert {(server.root / name).as_uri() for name in ("ferries.md", ".artifactflow/attached/fares.md")} <= uris
    outside = client.http.post("/sources", json={"path": "../secret.md"})
    assert outside.status_code == 400
    assert "outside the root folder" in outside.json()["message"]
    page.context.close()


def test_panel_says_that_the_server_lacks_the_package(chromium: Browser, tmp_path: Path) -> None:
    """The extension of JupyterLab may be installed where the server's own environment has no package."""
    options = {**JUPYTERLAB.options, "ServerApp.jpserver_extensions": "{'artifactflow_nb': False}"}
    bare = FrontEnd(JUPYTERLAB.module, JUPYTERLAB.page, options)
    with lab_server(tmp_path / "bare", front_end=bare) as server:
        page = open_lab(chromium, server, "lab")
        page.evaluate(OPEN, "artifactflow:side")
        expect(page.locator("#artifactflow-side")).to_contain_text("pip install artifactflow-nb")
        page.context.close()


def test_notebook_7_has_the_commands(chromium: Browser, tmp_path: Path) -> None:
    """Notebook 7 has no launcher; the page opens in a tab of its own window or beside the notebook."""
    with lab_server(tmp_path / "nb7", front_end=NOTEBOOK_7) as server:
        write_notebook(server)
        page = open_lab(chromium, server, "notebooks/notes.ipynb")
        page.evaluate(OPEN, "artifactflow:side")
        expect(page.frame_locator("#artifactflow-side iframe").get_by_role("button", name="New chat")).to_be_visible()
        page.context.close()
