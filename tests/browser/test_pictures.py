"""The pictures of the README, taken from a running notebook.

They are written to the folder that `AF_PICTURES` names (`make pictures`), otherwise to a temporary one.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from browser.lab import LabPage, LabServer, write_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
CELLS = [
    """import artifactflow_nb as af

wb = af.Workbench(approvals={"create_artifact": "ask"})
wb.add_sources("handbook");""",
    'run = wb.ask("How are backups checked, and what happens if the check fails?")\nrun',
]
PANELS = {
    "chat": ("wb.chat(first)", "light"),
    "tree": ("wb.tree(first)", "dark"),
    "artifacts": ("wb.artifact_panel(first)", "light"),
    "timeline": ("wb.timeline(first)", "dark"),
    "board": ("manual.board()", "light"),
    "plan": ("planned.view()", "dark"),
}
ASKED = """import artifactflow_nb as af

wb = af.Workbench(approvals="approve", data_dir="panels")
wb.add_sources("handbook")
first = wb.ask("How are backups checked, and what happens if the check fails?").wait()
second = wb.ask("Who may read the raw data?", conversation_id=first.conversation_id).wait()
other = wb.edit(second, "How often is the raw data copied, and where to?").wait()
last = wb.ask("What may be deleted, and when?", conversation_id=first.conversation_id).wait()

desk = af.Workbench(data_dir="desk", graph_config={"approval": {"enabled": True}})
desk.add_sources("handbook")
manual = desk.project("How we keep our data", template="paper")
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


def settle(page: LabPage, ms: int) -> None:
    """Wait for transitions if the pictures are written for the documentation."""
    if os.environ.get("AF_PICTURES"):
        page.page.wait_for_timeout(ms)


def test_pictures_of_a_waiting_and_a_finished_run(
    lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path
) -> None:
    """A run that waits for a decision is pictured in the light theme, and once finished in the dark one."""
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
    approve = page.output(1).get_by_role("button", name="Approve create artifact")
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


def test_pictures_of_panels(lab: LabServer, open_page: Callable[[str], LabPage], tmp_path: Path) -> None:
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
        panel.screenshot(path=folder / f"{name}.png")
        assert 10_000 < (folder / f"{name}.png").stat().st_size < LARGEST_BYTES
