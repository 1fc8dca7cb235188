"""The home of a workbench in JupyterLab: decide, stop, open a conversation, connect a model; saved without a kernel."""

import json

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect
from support.chat_endpoint import Answer, ChatServer, Request

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDTHS = (1280, 800, 400)
SETUP = """import os, pathlib
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

os.environ["MY_MODEL_KEY"] = "sk-of-the-test-0123456789"
folder = pathlib.Path("seas")
folder.mkdir(exist_ok=True)
(folder / "baltic.md").write_text("# The Baltic\\n\\n## Tide gauges\\n\\nThey rise by 3.3 mm a year.")

def turn(request):
    question = request.messages[-1].content
    if "Write a report" in question:
        return ToolCall("create_artifact", {"id": "report", "title": "Report", "content": "# The sea\\n\\nIt rises."})
    return "word " * 4000 if "length" in question else "**Done.** It rises."

wb = af.Workbench(data_dir="home", approvals={"create_artifact": "ask"}, model=af.ScriptedModel(turn, delay_s=0.002),
                  prices={"scripted": {"input": 3, "output": 15}})
wb.sources.add(folder)
wb.ask("How fast does the Baltic rise?").wait()
wb._thread.engine.model._delay_s = 0.05
wb.ask("Write a report about the sea.")
wb.ask("Tell me at length.");"""
SHOW = "wb"


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def open_notebook(lab: LabServer, open_page: OpenPage) -> LabPage:
    page = open_page(new_notebook(lab, SETUP, SHOW))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    expect(live(page)).to_be_visible(timeout=SOON_MS)
    return page


def endpoint(request: Request) -> Answer:
    """Returns the list of models, and a reply."""
    if request.path.endswith("/models"):
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in ("small", "large")]
        return Answer(raw=json.dumps({"object": "list", "data": data}).encode(), content_type="application/json")
    return Answer("ready", model=request.body["model"])


def test_home_decides_stops_and_opens_conversations(lab: LabServer, open_page: OpenPage) -> None:
    """Deciding, stopping and opening work by keyboard; axe finds nothing, and the saved home reads without a kernel."""
    page = open_notebook(lab, open_page)
    home, keyboard = live(page), page.page.keyboard
    approve = home.get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=SOON_MS)
    running = home.locator(".af-home-section").filter(has=page.page.get_by_role("heading", name="Running"))
    expect(running).to_contain_text("Tell me at length.")
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, home, f"home-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert axe_in_both_themes(page) == []
    running.get_by_role("button", name="Stop this run").focus()
    keyboard.press("Enter")
    expect(running).to_contain_text("Nothing is running.", timeout=SOON_MS)
    approve.focus()
    keyboard.press("Enter")
    expect(home.get_by_role("heading", name="Waits for you")).to_have_count(0, timeout=SOON_MS)
    expect(home.locator(".af-table").first).to_contain_text("USD")
    link = home.locator(".af-tree-list").get_by_role("button", name="Write a report about the sea.")
    link.focus()
    keyboard.press("Enter")
    expect(home.locator(".af-turn")).to_contain_text("Done. It rises.", timeout=SOON_MS)
    expect(home.get_by_role("textbox", name="Question")).to_be_focused()
    save_pictures(page, home, "home-chat")
    assert axe_in_both_themes(page) == []
    home.get_by_role("button", name="‹ Workbench").press("Enter")
    expect(home.get_by_role("heading", name="Conversations")).to_be_visible()
    page.page.wait_for_timeout(1500)  # until the home is saved again
    page.save()
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(1).locator(".af-saved:visible")
    expect(saved).to_contain_text("Write a report about the sea.", timeout=SOON_MS)
    expect(saved).to_contain_text("Newest runs")
    for width in (1280, 400):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, saved, f"home-saved-{width}")
    page.page.wait_for_timeout(500)  # until the tables have the layout of the width
    assert axe_in_both_themes(page) == []


def test_model_is_connected(lab: LabServer, open_page: OpenPage) -> None:
    """The form lists models, makes a test call and adds a cell with the code; the key is not in the notebook."""
    page = open_notebook(lab, open_page)
    home = live(page)
    home.get_by_role("button", name="Connect a model").press("Enter")
    with ChatServer(endpoint) as server:
        home.get_by_role("textbox", name="Endpoint").fill(server.base_url)
        home.get_by_role("textbox", name="Environment variable with the key").fill("MY_MODEL_KEY")
        page.page.keyboard.press("Enter")
        expect(home.locator(".af-form-status").first).to_have_text("The endpoint has 2 models.", timeout=SOON_MS)
        home.get_by_role("combobox", name="Model").select_option(label="small")
        home.get_by_role("combobox", name="Model").press("Enter")
        expect(home.get_by_text("small answered in")).to_be_visible(timeout=SOON_MS)
        expect(home.locator(".af-home-head")).to_contain_text("in use until the code below has run")
        for width in (1280, 400):
            page.page.set_viewport_size({"width": width, "height": 900})
            save_pictures(page, home, f"home-connect-{width}")
        page.page.set_viewport_size({"width": 1280, "height": 900})
        assert axe_in_both_themes(page) == []
        home.get_by_role("button", name="Add to notebook").last.press("Enter")
        expect(page.cells.nth(2)).to_contain_text("os.environ['MY_MODEL_KEY']")
        status = home.get_by_role("group", name="Use the model").locator(".af-form-status")
        expect(status).to_have_text("Added as a cell below.")
    assert "sk-of-the-test" not in json.dumps(page.saved_outputs(1))
    assert page.errors == []


def test_home_keeps_its_height_when_a_run_starts(lab: LabServer, open_page: OpenPage) -> None:
    """The home reserves space for a run and its conversation, so that the cell that started the run remains in view."""
    model = "af.ScriptedModel(['word ' * 200], delay_s=0.05)"
    start = f"import artifactflow_nb as af\nwb = af.Workbench(data_dir='calm', model={model})"
    page = open_page(new_notebook(lab, start, SHOW, "run = wb.ask('Is the sea calm?')"))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    home = live(page)
    expect(home).to_contain_text("Nothing is running.", timeout=SOON_MS)
    height = home.evaluate("root => root.getBoundingClientRect().height")
    save_pictures(page, home, "home-empty")
    page.run_cell(2)
    expect(home.get_by_role("button", name="Stop this run")).to_be_visible(timeout=SOON_MS)
    assert abs(home.evaluate("root => root.getBoundingClientRect().height") - height) < 4
    save_pictures(page, home, "home-running")
    home.get_by_role("button", name="Stop this run").click()
    expect(home).to_contain_text("Nothing is running.", timeout=SOON_MS)
    assert page.errors == []
