"""The pictures of the README, taken from a running notebook.

They are written to the folder that `AF_PICTURES` names (`make pictures`), otherwise to a temporary one.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browser.lab import LabPage, LabServer, write_notebook
from playwright.sync_api import Locator, ViewportSize, expect
from support.chat_endpoint import Answer, ChatServer, Request

pytestmark = pytest.mark.browser

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
CELLS = [
    """import artifactflow_nb as af

wb = af.Workbench(approvals={"create_artifact": "ask"})
wb.sources.add("handbook");""",
    'run = wb.ask("How are backups checked, and what happens if the check fails?")\nrun',
]
PANELS = {
    "chat": ("wb.chat(first)", "light"),
    "tree": ("wb.tree(first)", "dark"),
    "artifacts": ("wb.artifact_panel(first)", "light"),
    "timeline": ("wb.timeline(first)", "dark"),
    "board": ("manual.board()", "light"),
    "plan": ("planned.panel", "dark"),
}
ASKED = """import artifactflow_nb as af

wb = af.Workbench(approvals="approve", data_dir="panels")
wb.sources.add("handbook")
first = wb.ask("How are backups checked, and what happens if the check fails?").wait()
second = wb.ask("Who may read the raw data?", conversation_id=first.conversation_id).wait()
other = wb.conversation(second).edit("How often is the raw data copied, and where to?").wait()
last = wb.ask("What may be deleted, and when?", conversation_id=first.conversation_id).wait()

desk = af.Workbench(data_dir="desk", graph_config={"approval": {"enabled": True}})
desk.sources.add("handbook")
manual = desk.projects.start("How we keep our data", template="paper")
manual.add("Question", "How are backups checked?", need_review=True).approve()
manual.add("Storage", prompt="How are backups checked?", phase="literature",
           depends_on=["Question"], auto_generate=True)
manual.generate().wait()
manual.add("Failures", prompt="What happens if the check of a backup fails?", phase="writing",
           depends_on=["Storage"], auto_generate=True, need_review=True)
manual.add("Summary", phase="review", depends_on=["Failures"], auto_generate=True)
manual["Question"].write("How are backups checked, and how often?")
waits = manual.generate().wait()
planned = desk.ask("How are backups checked, and who may read the raw data?", flow="plan").wait()"""
LARGEST_BYTES = 300_000
HOME = """import os
import artifactflow_nb as af

os.environ["MY_MODEL_KEY"] = "of-the-pictures"
wb = af.Workbench(approvals={"create_artifact": "ask"}, data_dir="home", prices={"large": af.Price(input=1, output=4)})
wb.sources.add("handbook")


def answer(question, run=None):
    run = wb.ask(question, conversation_id=run).wait()
    while run.pending:
        run.approve().wait()
    return run

first = answer("How are backups checked, and what happens if the check fails?")
second = answer("Who may read the raw data?", first)
waiting = wb.ask("What may be deleted, and when?").wait()"""
NARROW: ViewportSize = {"width": 940, "height": 800}
"""In this window panels are about 800 pixels wide."""


def settle(page: LabPage, ms: int) -> None:
    """Wait for transitions if the pictures are written for the documentation."""
    if os.environ.get("AF_PICTURES"):
        page.page.wait_for_timeout(ms)


def test_pictures_of_a_waiting_and_a_finished_run(
    lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path
) -> None:
    """A run that waits for a decision is pictured in the light theme, and the finished run in the dark theme."""
    folder = Path(os.environ.get("AF_PICTURES") or tmp_path)
    (lab.root / "pictures").mkdir()
    shutil.copytree(HANDBOOK, lab.root / "pictures" / "handbook")
    write_notebook(lab, "pictures/quickstart.ipynb", CELLS)
    page = open_page("pictures/quickstart.ipynb")
    page.page.set_viewport_size({"width": 1180, "height": 1010})
    page.open()
    page.theme(light=True)
    for cell in range(len(CELLS)):
        page.run_cell(cell)
        page.wait_done(cell)
    approve = page.output(1).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=20_000)
    settle(page, 600)
    page.page.screenshot(path=folder / "quickstart-light.png")
    page.dark()
    page.page.mouse.wheel(0, 600)
    approve.click()
    expect(page.output(1).locator(".af-saved")).to_be_visible(timeout=20_000)
    settle(page, 600)
    expect(page.output(1).locator(".af-answer")).to_be_in_viewport()
    page.page.locator(".jp-WindowedPanel-outer").first.evaluate("node => { node.scrollTop = 0; }")
    settle(page, 300)
    page.page.screenshot(path=folder / "quickstart-dark.png")
    sizes = [(folder / name).stat().st_size for name in ("quickstart-light.png", "quickstart-dark.png")]
    assert all(10_000 < size < LARGEST_BYTES for size in sizes)


def save_visible_part(page: LabPage, panel: Locator, path: Path) -> None:
    """Save what is visible of a panel, which may be longer than the notebook's window."""
    box, window = panel.bounding_box(), page.page.locator(".jp-WindowedPanel-outer").first.bounding_box()
    assert box
    assert window
    top, left = max(box["y"], window["y"]), box["x"]
    bottom = min(box["y"] + box["height"], window["y"] + window["height"])
    page.page.screenshot(path=path, clip={"x": left, "y": top, "width": box["width"], "height": bottom - top})


def test_each_panel_is_pictured(lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path) -> None:
    """Each panel is pictured with a conversation of two branches."""
    folder = Path(os.environ.get("AF_PICTURES") or tmp_path)
    (lab.root / "panels").mkdir()
    shutil.copytree(HANDBOOK, lab.root / "panels" / "handbook")
    write_notebook(lab, "panels/panels.ipynb", [ASKED, *(cell for cell, _ in PANELS.values())])
    page = open_page("panels/panels.ipynb")
    page.page.set_viewport_size({"width": 1180, "height": 1400})
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    for cell, (name, (_, theme)) in enumerate(PANELS.items(), start=1):
        page.theme(light=theme == "light")
        page.run_cell(cell)
        page.wait_done(cell)
        panel = page.visible_run(cell).first
        expect(panel).to_be_visible(timeout=20_000)
        page.page.mouse.move(0, 0)
        page.page.wait_for_timeout(800)  # longer than SAVE_DELAY_S: saving an output replaces its elements
        panel.scroll_into_view_if_needed()
        save_visible_part(page, panel, folder / f"{name}.png")
        assert 10_000 < (folder / f"{name}.png").stat().st_size < LARGEST_BYTES


def endpoint(request: Request) -> Answer:
    """Returns a list of two models, and a reply."""
    if request.path.endswith("/models"):
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "lab"} for name in ("lab-small", "lab-large")]
        return Answer(raw=json.dumps({"object": "list", "data": data}).encode(), content_type="application/json")
    return Answer("ready", model=request.body["model"])


def test_pictures_of_composer_and_home(lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path) -> None:
    """The pictures show the composer with completions, the home with a waiting request, and a model that was tested."""
    folder = Path(os.environ.get("AF_PICTURES") or tmp_path)
    (lab.root / "home").mkdir()
    shutil.copytree(HANDBOOK, lab.root / "home" / "handbook")
    write_notebook(lab, "home/home.ipynb", [HOME, "wb.chat(first)", "wb"])
    page = open_page("home/home.ipynb")
    page.page.set_viewport_size(NARROW)
    page.open()
    page.theme(light=True)
    for cell in range(2):
        page.run_cell(cell)
        page.wait_done(cell)
    chat = page.visible_run(1).first
    composer = chat.get_by_role("textbox", name="Question")
    composer.click()
    page.page.keyboard.type("Summarise @")
    expect(chat.locator(".af-complete-option:visible").first).to_be_visible(timeout=20_000)
    settle(page, 800)
    save_visible_part(page, chat, folder / "composer.png")
    composer.fill("")
    page.page.set_viewport_size({**NARROW, "height": 1300})
    page.run_cell(2)
    page.wait_done(2)
    home = page.visible_run(2).first
    expect(home.get_by_role("button", name="Approve write artifact")).to_be_visible(timeout=20_000)
    page.dark()
    page.page.mouse.move(0, 0)
    home.scroll_into_view_if_needed()
    settle(page, 1200)  # the line about a request that waits goes when its card is visible
    home.screenshot(path=folder / "home.png")
    page.theme(light=True)
    home.get_by_role("button", name="Connect a model").click()
    with ChatServer(endpoint) as server:
        home.get_by_role("textbox", name="Endpoint").fill(server.base_url)
        home.get_by_role("textbox", name="Environment variable with the key").fill("MY_MODEL_KEY")
        home.get_by_role("button", name="List its models").click()
        home.get_by_role("combobox", name="Model").select_option(label="lab-large")
        home.get_by_role("button", name="Test call").click()
        expect(home.get_by_text("lab-large answered in")).to_be_visible(timeout=20_000)
    settle(page, 800)
    home.locator(".af-home-connect").screenshot(path=folder / "connect.png")
    sizes = [(folder / f"{name}.png").stat().st_size for name in ("composer", "home", "connect")]
    assert all(10_000 < size < LARGEST_BYTES for size in sizes)
