"""A run in each supported front end, from the question to the saved page."""

import pytest
from browser.cells import ASK, ASK_AT_ONCE, QUESTION, REPLIES, STOP_DELAYS, WIDGET_ERRORS
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, expect_growth, new_notebook, write_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

APPROVE = "Approve write artifact"
PANELS = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel([report, "It is written."]), data_dir="panels",
                  approvals={{"create_artifact": "ask"}})
wb.chat()"""
STOP_DELAYS_LATER = f"""

import pathlib, threading, time

def hurry():
    while not pathlib.Path("hurry").exists():
        time.sleep(0.1)
    {STOP_DELAYS}

threading.Thread(target=hurry, daemon=True).start()
display(run)"""
"""Streams without delays once there is a file `hurry` in the folder of the notebook."""
OTHER_PANELS = ("wb.tree()", "wb.artifact_panel()", "wb.timeline()")


def assert_no_errors(page: LabPage) -> None:
    assert page.errors == []
    assert page.foreign_requests() == []
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]


@pytest.mark.parametrize("front_end", ["lab", "lab6", "notebook7"])
def test_run_streams_waits_and_is_saved(front_end: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """Text streams, a click approves, and the saved output needs neither widget nor kernel."""
    server: LabServer = request.getfixturevalue(front_end)
    page = open_page(new_notebook(server, ASK), server)
    page.open()
    page.run_cell(0)
    live = page.output(0).locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph 1 ", timeout=20_000)
    expect_growth(live)
    page.output(0).get_by_role("button", name=APPROVE).click(timeout=20_000)
    saved = page.output(0).locator(".af-saved:visible")
    expect(saved.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(saved.locator(".af-artifact")).to_contain_text("It goes on.")
    [output] = page.saved_outputs(0)
    assert "It is written." in output.data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" not in output.data
    assert_no_errors(page)


def ask_in_chat(chat: Locator) -> None:
    """Ask in the composer, and approve the artifact of the run."""
    composer = chat.get_by_role("textbox", name="Question")
    composer.fill(QUESTION)
    composer.press("Enter")
    chat.get_by_role("button", name=APPROVE).click(timeout=20_000)
    expect(chat.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(composer).to_have_value("")


@pytest.mark.parametrize("front_end", ["lab6", "notebook7"])
def test_every_panel_is_live(front_end: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """The chat asks and approves; tree, artifacts and timeline display the run, and their controls work."""
    server: LabServer = request.getfixturevalue(front_end)
    page = open_page(new_notebook(server, PANELS, *OTHER_PANELS), server)
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    ask_in_chat(page.output(0).locator(".af-live"))
    for cell in range(1, 4):
        page.run_cell(cell)
        page.wait_done(cell)
    tree, artifacts = (page.output(cell).locator(".af-live") for cell in (1, 2))
    tree.get_by_role("treeitem").first.click()
    expect(tree.locator(".af-tree-read .af-answer")).to_contain_text("It is written.")
    artifacts.get_by_role("button", name="Raw").click()
    expect(artifacts.locator(".af-art-raw")).to_contain_text("# Found")
    expect(page.output(3).locator("svg").first).to_be_visible()
    assert_no_errors(page)


def test_chat_is_live_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """A question in a Voila page is answered there."""
    (voila.root / "chat").mkdir()
    write_notebook(voila, "chat/run.ipynb", [PANELS])
    page = open_page("chat/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    chat = page.page.locator(".af-live")
    expect(chat).to_be_visible(timeout=30_000)
    ask_in_chat(chat)
    assert_no_errors(page)


def test_waiting_run_continues_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """A run that waits when Voila displays the page is live there, and a click continues it.

    Voila executes all cells before there is a page that could answer, so `await` returns a waiting run.
    """
    (voila.root / "smoke").mkdir()
    write_notebook(voila, "smoke/run.ipynb", [ASK_AT_ONCE, "await run\nrun.status"])
    page = open_page("smoke/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    run = page.page.locator(".af-run:visible")
    expect(run).to_contain_text(QUESTION, timeout=30_000)
    expect(page.page.locator("body")).to_contain_text("'waiting'")
    page.page.get_by_role("button", name=APPROVE).click(timeout=20_000)
    expect(run.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(run).to_contain_text("Completed")
    assert_no_errors(page)


def test_run_streams_in_voila_after_its_cells(voila: LabServer, open_page: OpenPage) -> None:
    """A run that no cell awaits continues to stream in the page that Voila displays after the last cell."""
    (voila.root / "stream").mkdir()
    write_notebook(voila, "stream/run.ipynb", [ASK.replace("delay_s=0.06", "delay_s=0.6") + STOP_DELAYS_LATER])
    page = open_page("stream/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    live = page.page.locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph", timeout=30_000)
    expect_growth(live)
    page.file_in_folder("hurry").touch()
    page.page.get_by_role("button", name=APPROVE).click(timeout=30_000)
    expect(page.page.locator(".af-run:visible .af-answer")).to_contain_text("It is written.", timeout=20_000)
    assert_no_errors(page)
