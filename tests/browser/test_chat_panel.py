"""The chat in JupyterLab: redrawn, scrolled, displayed twice, saved, and without page or kernel."""

import re

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
GONE_MS = 26_000
ALONE_MS = 4000
SETUP = """import tempfile
import artifactflow_nb as af
answers = ["One. " * 400 + "END1", "Two. " * 10 + "END2", *["More."] * 30]
wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=af.ScriptedModel(answers, delay_s=0.03))"""
"""The first answer takes about four seconds."""
SETUP_BRIEF = SETUP.replace("400", "10")
CHAT = "wb.chat()"
LONG = """conversations = wb._thread.engine.conversations
started = wb._thread.call(conversations.start_conversation("A long one"))
for number in range(70):
    wb._thread.call(conversations.add(started, f"Question number {number}?", f"Answer {number}.\\n\\n" * 3))
wb.chat(started)"""
LONG_RUN = """import pathlib, threading
run = wb.ask("Long?")
threading.Thread(target=lambda: run.wait(20) and pathlib.Path("ended").touch()).start()
run"""
PAGES = """from ipywidgets.widgets import widget
print("pages:", sum(type(page).__name__ == "Panel" for page in widget._instances.values()))"""
CLOSE = "wb.close()"
_IS_STORED = """() => {
    const { outputs } = window.jupyterapp.shell.currentWidget.content.model.toJSON().cells[1];
    return outputs.some(({ data }) => data["text/html"].includes("END1"));
}"""
_COUNT_SWAPS = """() => {
    window.swaps = 0;
    const isHost = (node) => node.nodeType === 1 && (node.matches(".af-host") || node.querySelector(".af-host"));
    new MutationObserver((changes) => {
        window.swaps += changes.flatMap((change) => [...change.removedNodes]).filter(isHost).length;
    }).observe(document.body, { childList: true, subtree: true });
}"""


def show(server: LabServer, open_page: OpenPage, *cells: str, setup: str = SETUP_BRIEF, new: bool = False) -> LabPage:
    """A notebook after its first two cells, the second with a chat; a `new` page has an adjustable clock."""
    page = open_page(new_notebook(server, setup, *cells), new=new)
    if new:
        page.page.clock.install()
    page.open()
    for index in (0, 1):
        page.run_cell(index)
        page.wait_done(index)
    expect(live(page)).to_be_visible(timeout=SOON_MS)
    return page


def live(page: LabPage, index: int = 1) -> Locator:
    return page.output(index).locator(".af-run.af-live")


def composer(page: LabPage) -> Locator:
    return live(page).locator(".af-composer textarea")


def ask(page: LabPage, question: str) -> None:
    composer(page).fill(question)
    composer(page).press("Enter")


def top_within(inner: Locator, box: Locator) -> float:
    within, around = inner.bounding_box(), box.bounding_box()
    assert within
    assert around
    return within["y"] - around["y"]


def swaps(page: LabPage) -> int:
    return int(page.page.evaluate("window.swaps"))


def test_typing_survives_a_redraw_of_the_output(lab: LabServer, open_page: OpenPage) -> None:
    """The focus stays after the first question; text, cursor and an unfinished composition survive the save."""
    page = show(lab, open_page, CHAT, setup=SETUP)
    page.page.evaluate(_COUNT_SWAPS)
    ask(page, "First?")
    expect(live(page)).to_contain_text("One.", timeout=SOON_MS)
    expect(composer(page)).to_be_focused()
    page.page.keyboard.type("hello world")
    for _ in "world":
        page.page.keyboard.press("ArrowLeft")
    keys = page.page.context.new_cdp_session(page.page)
    keys.send("Input.imeSetComposition", {"text": "ni", "selectionStart": 2, "selectionEnd": 2})
    before = swaps(page)
    expect(live(page)).to_contain_text("END1", timeout=SOON_MS)
    page.page.wait_for_timeout(1500)  # longer than SAVE_DELAY_S of the kernel and SAVED_WITHIN_MS of the page
    assert swaps(page) == before, "The output was redrawn during a composition."
    keys.send("Input.insertText", {"text": "你"})
    page.page.wait_for_function(f"window.swaps > {before}", timeout=SOON_MS)
    page.page.keyboard.type("!")
    expect(composer(page)).to_have_value("hello 你!world")
    assert page.errors == []


def test_long_conversation_keeps_the_readers_place(lab: LabServer, open_page: OpenPage) -> None:
    """The chat does not scroll the notebook when it appears; earlier questions do not move the visible text."""
    page = show(lab, open_page, LONG)
    notebook = page.page.locator(".jp-WindowedPanel-outer")
    assert notebook.evaluate("box => box.scrollTop") < 60
    expect(composer(page)).to_be_in_viewport()
    first = live(page).get_by_text("Question number 40?")
    first.scroll_into_view_if_needed()
    before = top_within(first, notebook)
    live(page).get_by_role("button", name=re.compile("Show 30 earlier")).press("Enter")
    expect(live(page).get_by_text("Question number 10?")).to_be_attached(timeout=SOON_MS)
    assert abs(top_within(first, notebook) - before) < 2
    live(page).get_by_role("button", name="Conversations").click()
    live(page).locator(".af-tree-item", has_text="A long one").click()
    expect(live(page).get_by_text("Answer 69.").last).to_be_in_viewport(timeout=SOON_MS)
    expect(composer(page)).to_be_focused()
    expect(composer(page)).to_be_in_viewport()


def test_double_press_starts_one_run(lab: LabServer, open_page: OpenPage) -> None:
    """A double click on Regenerate, and Enter twice, each start one run."""
    page = show(lab, open_page, CHAT, "print(len(wb.runs_df()))")
    composer(page).fill("First?")
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Enter")
    again = live(page).get_by_role("button", name="Regenerate: ask this again, as another version")
    expect(again).to_be_visible(timeout=SOON_MS)
    again.dblclick()
    expect(live(page)).to_contain_text("END2", timeout=SOON_MS)
    expect(live(page)).to_contain_text("2 / 2")
    page.run_cell(2)
    expect(page.output(2)).to_have_text("2", timeout=SOON_MS)


def test_console_of_the_same_kernel_adds_no_second_view(lab: LabServer, open_page: OpenPage) -> None:
    """An output has one live view, also with a second client of the kernel in the page."""
    page = show(lab, open_page, CHAT, new=True)
    page.command("notebook:create-console", {"activate": False})
    expect(page.page.locator(".jp-CodeConsole-banner")).to_be_attached(timeout=SOON_MS)
    page.page.wait_for_timeout(1000)  # a second view would connect within HELLO_AGAIN_MS of panel.js
    expect(live(page)).to_have_count(1)
    ask(page, "First?")
    expect(live(page)).to_contain_text("END1", timeout=SOON_MS)
    expect(live(page)).to_have_count(1)


def test_saved_output_returns_after_close_and_restart(lab: LabServer, open_page: OpenPage) -> None:
    """When the workbench is closed or the kernel restarted, the saved output is displayed, without buttons."""
    page = show(lab, open_page, CHAT, CLOSE)
    ask(page, "First?")
    expect(live(page)).to_contain_text("END1", timeout=SOON_MS)
    page.run_cell(2)
    page.wait_done(2)
    saved = page.output(1).locator(".af-run.af-saved")
    expect(saved).to_contain_text("END1", timeout=SOON_MS)
    expect(live(page)).to_have_count(0)
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    ask(page, "Again?")
    expect(live(page)).to_contain_text("END1", timeout=SOON_MS)
    page.page.wait_for_function(_IS_STORED, timeout=SOON_MS)
    page.restart_kernel()
    expect(live(page)).to_have_count(0, timeout=SOON_MS)
    expect(saved).to_be_visible()
    expect(saved).to_contain_text("END1")
    assert saved.get_by_role("button").count() == 0


def test_view_closes_when_no_page_shows_it(lab: LabServer, open_page: OpenPage) -> None:
    """Running a cell again leaves one view; the view of a cell outside the window stays open."""
    page = show(lab, open_page, CHAT, PAGES, *["x = 1\n" * 40] * 30, new=True)
    for _ in range(5):
        page.run_cell(1)
        page.wait_done(1)
    page.run_cell(2)
    expect(page.output(2)).to_have_text("pages: 6", timeout=SOON_MS)
    composer(page).fill("Not sent yet")
    page.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
    page.page.wait_for_timeout(500)
    page.page.clock.fast_forward(GONE_MS)
    page.page.wait_for_timeout(ALONE_MS)
    page.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    expect(composer(page)).to_have_value("Not sent yet", timeout=SOON_MS)
    page.run_cell(2)
    expect(page.output(2)).to_have_text("pages: 1", timeout=SOON_MS)


def test_closing_a_notebook_at_the_end_of_a_run_raises_no_error(lab: LabServer, open_page: OpenPage) -> None:
    """The view of a run reports no error if its notebook is closed when the run ends."""
    page = open_page(new_notebook(lab, SETUP_BRIEF, "run = wb.ask('Now?')\nrun"))
    page.open()
    for index in (0, 1):
        page.run_cell(index)
    expect(page.output(1).locator(".af-saved:visible")).to_contain_text("END1", timeout=SOON_MS)
    page.page.evaluate("window.jupyterapp.shell.currentWidget.dispose()")
    page.page.wait_for_timeout(1000)  # longer than SAVED_WITHIN_MS in panel.js
    assert page.errors == []


def test_run_that_ended_without_a_page_is_saved_by_the_next_page(lab: LabServer, open_page: OpenPage) -> None:
    """A run that ends while its notebook is closed is saved when the notebook is opened again."""
    page = show(lab, open_page, CHAT, LONG_RUN, setup=SETUP)
    page.run_cell(2)
    expect(live(page, 2)).to_contain_text("One.", timeout=SOON_MS)
    page.saved_outputs(2)
    name = page.name
    page.page.goto("about:blank")
    page.wait_for_file("ended")
    page = open_page(name)
    page.open()
    expect(page.output(2).locator(".af-saved")).to_contain_text("END1", timeout=SOON_MS)
    (output,) = page.saved_outputs(2)
    assert "END1" in output.data["text/html"]
    assert "af-host" not in output.data["text/html"]
