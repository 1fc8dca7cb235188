"""Reading and writing aids of the chat in JupyterLab: jump to the newest text, copy code, keep drafts."""

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
MAKE = """import tempfile
import artifactflow_nb as af
lines = "\\n\\n".join(f"Line number {n} of an answer." for n in range(90))
code = "Run this:\\n\\n```python\\nprint('copied')\\n```\\n\\nand `not this`."
model = af.ScriptedModel([lines + "\\n\\nEND1", lines + "\\n\\nEND2", code])
wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=model)"""
SHOW = "wb.chat()"
SLOW = "model._delay_s = 0.05"
FAST = "model._delay_s = 0"


def show(server: LabServer, open_page: OpenPage) -> LabPage:
    """A notebook with a chat."""
    page = open_page(new_notebook(server, MAKE, SHOW, SLOW, FAST))
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.open()
    run(page, 0)
    run(page, 1)
    expect(composer(page)).to_be_visible(timeout=SOON_MS)
    return page


def run(page: LabPage, index: int) -> None:
    page.run_cell(index)
    page.wait_done(index)


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def composer(page: LabPage) -> Locator:
    return live(page).locator(".af-composer textarea")


def ask(page: LabPage, question: str, answer: str) -> None:
    composer(page).fill(question)
    composer(page).press("Enter")
    expect(live(page)).to_contain_text(answer, timeout=SOON_MS)


def test_button_leads_to_newest_text_after_scrolling_up(lab: LabServer, open_page: OpenPage) -> None:
    """A button leads to text that streams below the reader's place; at the end there is no button."""
    page = show(lab, open_page)
    turns, newest = live(page).locator(".af-turns"), live(page).get_by_role("button", name="Jump to the newest")
    notebook = page.page.locator(".jp-WindowedPanel-outer")
    ask(page, "First?", "END1")
    notebook.evaluate("box => { box.scrollTop = 300; }")
    page.page.wait_for_timeout(500)
    expect(newest).to_have_count(0)
    run(page, 2)
    ask(page, "Second?", "Second?")
    expect(turns.get_by_text("Line number 3 of")).to_have_count(2, timeout=SOON_MS)
    expect(newest).to_have_count(0)
    notebook.evaluate("box => { box.scrollTop = 300; }")
    expect(newest).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(500)
    assert notebook.evaluate("box => box.scrollTop") == 300
    composer(page).focus()
    page.page.keyboard.press("Shift+Tab")
    expect(newest).to_be_focused()
    page.page.keyboard.press("Enter")
    expect(newest).to_have_count(0)
    expect(composer(page)).to_be_focused()
    run(page, 3)
    expect(live(page)).to_contain_text("END2", timeout=SOON_MS)
    below = "box => box.closest('.jp-WindowedPanel-outer').getBoundingClientRect().bottom"
    assert composer(page).evaluate("box => box.getBoundingClientRect().bottom") <= turns.evaluate(below)
    expect(newest).to_have_count(0)
    ask(page, "Third?", "not this")
    copy = live(page).get_by_role("button", name="Copy this code")
    expect(copy).to_have_count(1)
    copy.click()
    expect(live(page).get_by_role("alert").last).to_have_text("Copied.")
    assert page.page.evaluate("navigator.clipboard.readText()").strip() == "print('copied')"
    assert page.errors == []


def test_draft_survives_reload_and_restart(lab: LabServer, open_page: OpenPage) -> None:
    """Unsent text is restored after a reload and after a kernel restart; sent text is not."""
    page = show(lab, open_page)
    composer(page).fill("Half a\nquestion")
    page.save()
    page.page.reload()
    page.wait_idle()
    expect(composer(page)).to_have_value("Half a\nquestion", timeout=SOON_MS)
    assert page.errors == []
    page.restart_kernel()
    expect(live(page)).to_have_count(0, timeout=SOON_MS)
    run(page, 0)
    run(page, 1)
    expect(composer(page)).to_have_value("Half a\nquestion", timeout=SOON_MS)
    composer(page).press("Enter")
    expect(live(page)).to_contain_text("END1", timeout=SOON_MS)
    expect(composer(page)).to_have_value("")
    assert page.page.evaluate("Object.keys(sessionStorage).filter((key) => key.startsWith('artifactflow'))") == []
    run(page, 1)
    expect(composer(page)).to_have_value("", timeout=SOON_MS)
