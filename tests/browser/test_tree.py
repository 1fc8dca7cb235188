"""The conversation tree in JupyterLab: read, use the keyboard, compare, continue, rename, delete."""

import re
from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SETUP = """import tempfile
import artifactflow_nb as af
from artifactflow_nb.core.toolcalls.xml import format_call
def write(text):
    return format_call("create_artifact", {"id": "report", "title": "Context managers", "content": text})
one = "# Context managers\\n\\nThey call `__exit__` when the block ends.\\n\\nAn exception goes on.\\n"
two = "# Context managers\\n\\nThey call `__exit__` when the block ends.\\n\\nA new exception replaces the old one.\\n"
wb = af.Workbench(data_dir=tempfile.mkdtemp(), approvals="approve", model=af.ScriptedModel([
    "They call **__exit__**, whatever happens.",
    write(one), "The exception goes on after `__exit__`, unless it returns true.",
    write(two), "The new exception replaces the old one, which becomes its context.",
    "It runs the callbacks in reverse order.",
    "Asked from the panel.",
    "Asked once more.",
    "Asked in a cell.",
]))
first = wb.ask("How do context managers end?").wait(20)
second = wb.ask("And if __exit__ raises an exception of its own?", conversation_id=first.conversation_id).wait(20)
third = wb.conversation(second).regenerate().wait(20)
fourth = wb.ask("What does ExitStack do?", conversation_id=first.conversation_id).wait(20)"""
SHOW = "wb.tree(first)"
SETUP_LONG = """import tempfile
import artifactflow_nb as af
wb = af.Workbench(data_dir=tempfile.mkdtemp(), model=af.ScriptedModel([]))
conversations = wb._thread.engine.conversations
started = wb._thread.call(conversations.start_conversation("A long one"))
for number in range(1_000):
    wb._thread.call(conversations.add(started, f"Question number {number}?", f"Answer {number}."))"""
SHOW_LONG = "wb.tree()"
ASK = """run = wb.ask("Is that so in a cell, too?", conversation_id=first.conversation_id).wait(20)
print(run.status)"""


@pytest.fixture
def page(lab: LabServer, open_page: Callable[[str], LabPage]) -> LabPage:
    """A notebook with a conversation of four questions on two branches, and its tree."""
    page = open_page(new_notebook(lab, SETUP, SHOW, ASK))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    expect(live(page).get_by_role("treeitem")).to_have_count(4, timeout=20_000)
    return page


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def item(page: LabPage, words: str) -> Locator:
    return live(page).get_by_role("treeitem", name=re.compile(re.escape(words)))


def focused(page: LabPage) -> str:
    """The name of the focused item of the tree."""
    return str(page.page.evaluate("document.activeElement.querySelector('.af-announcer')?.textContent"))


def test_tree_is_read_with_mouse_and_keyboard(page: LabPage) -> None:
    """A click or Enter opens a question; arrow keys move to other questions and variants."""
    item(page, "What does ExitStack do?").click()
    reading = live(page).locator(".af-tree-read")
    expect(reading).to_contain_text("It runs the callbacks in reverse order.")
    assert "What does ExitStack do?" in focused(page)
    page.page.keyboard.press("ArrowUp")
    assert "variant 2 of 2" in focused(page)
    page.page.keyboard.press("ArrowLeft")
    assert "variant 1 of 2" in focused(page)
    page.page.keyboard.press("Enter")
    expect(reading).to_contain_text("The exception goes on after __exit__")
    expect(reading.locator(".af-artifact")).to_contain_text("An exception goes on.")
    expect(item(page, "variant 1 of 2")).to_have_attribute("aria-selected", "true")
    assert "variant 1 of 2" in focused(page), "The focus was lost when the tree was redrawn."
    page.page.keyboard.press("ArrowRight")
    assert "variant 2 of 2" in focused(page)
    page.page.keyboard.press("Home")
    assert "Question 1:" in focused(page)
    stops = live(page).locator("[role=treeitem][tabindex='0']")
    expect(stops).to_have_count(1)
    assert not page.page.evaluate("document.querySelector('.jp-Notebook').classList.contains('jp-mod-editMode')")
    assert page.errors == []
    assert page.foreign_requests() == []


def test_branches_are_compared_and_continued(page: LabPage) -> None:
    """Two variants are compared; then the panel and a cell continue the older variant."""
    item(page, "variant 2 of 2").click()
    live(page).get_by_role("button", name="Compare with variant 1").click()
    compared = live(page).locator(".af-tree-read")
    expect(compared.get_by_role("table").first).to_contain_text("tokens")
    expect(compared.locator("ins").first).to_be_visible()
    expect(compared).to_contain_text("v1 → v2")
    save_pictures(page, live(page), "tree-compare")
    live(page).get_by_role("button", name="Close the comparison").click()
    expect(compared).to_contain_text("replaces the old one")

    item(page, "variant 1 of 2").click()
    live(page).get_by_role("button", name="Continue this branch").click()
    expect(live(page).get_by_role("alert").last).to_contain_text("The next question continues")
    live(page).get_by_role("textbox", name="Ask the next question").fill("From the panel?")
    page.page.keyboard.press("Shift+Enter")
    expect(live(page).locator(".af-tree-read .af-answer")).to_contain_text("Asked from the panel.", timeout=20_000)
    expect(live(page).get_by_role("treeitem")).to_have_count(5)
    live(page).get_by_role("button", name="Ask this question once more").click()
    expect(live(page).locator(".af-tree-read .af-answer")).to_contain_text("Asked once more.", timeout=20_000)
    page.run_cell(2)
    expect(item(page, "Is that so in a cell, too? (Completed")).to_be_visible(timeout=20_000)
    assert page.errors == []


def test_conversations_are_renamed_searched_and_deleted(page: LabPage) -> None:
    """Conversations are renamed and searched in the panel, and branches deleted after a confirmation."""
    live(page).get_by_role("button", name="Rename this conversation").click()
    title = live(page).get_by_role("textbox", name="Title")
    expect(title).to_be_focused()
    title.fill("Endings")
    page.page.keyboard.press("Enter")
    expect(live(page).locator(".af-tree-item")).to_contain_text("Endings")
    live(page).get_by_role("textbox", name="Search conversations").fill("nowhere")
    page.page.keyboard.press("Enter")
    expect(live(page)).to_contain_text("No conversation contains")
    live(page).get_by_role("textbox", name="Search conversations").fill("")
    page.page.keyboard.press("Enter")
    item(page, "variant 1 of 2").click()
    live(page).get_by_role("button", name="Delete branch: this question and all later questions").click()
    confirmation = live(page).get_by_role("alertdialog")
    expect(confirmation).to_contain_text("Delete")
    confirmation.get_by_role("button", name="Keep").click()
    expect(confirmation).to_have_count(0)
    live(page).get_by_role("button", name="Delete branch: this question and all later questions").click()
    confirmation.get_by_role("button", name="Delete for good").click()
    expect(live(page).get_by_role("treeitem")).to_have_count(3)
    assert page.errors == []


def test_tree_is_accessible_and_fits_narrow_outputs(page: LabPage) -> None:
    """axe-core finds no serious violation in either theme, and a narrow tree does not overflow."""
    item(page, "variant 2 of 2").click()
    expect(live(page).locator(".af-tree-read .af-artifact")).to_be_visible()
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    save_pictures(page, live(page), "tree")
    page.output(1).evaluate("node => { node.style.width = '320px'; node.style.flex = 'none'; }")
    box = live(page).bounding_box()
    assert box
    assert box["width"] <= 330
    assert live(page).evaluate("node => node.scrollWidth <= node.clientWidth")
    save_pictures(page, live(page), "tree-narrow")


def test_saved_tree_is_readable_without_a_kernel(page: LabPage) -> None:
    """The reopened notebook has the tree and every question with its answer, without buttons."""
    page.saved_outputs(1)
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(1).locator(".af-run.af-saved")
    expect(saved.locator("ul.af-branches")).to_be_visible()
    expect(saved.get_by_role("listitem").filter(has_text="What does ExitStack do").first).to_be_visible()
    answer = saved.locator(".af-artifact", has_text="What does ExitStack do?")
    answer.locator("summary").click()
    expect(answer).to_contain_text("It runs the callbacks in reverse order.")
    assert saved.get_by_role("button").count() == 0
    assert axe_in_both_themes(page, ".af-run.af-saved") == []
    save_pictures(page, saved, "tree-frozen")
    assert page.errors == []


def test_tree_of_a_thousand_questions_is_usable(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """Most questions are folded at first; Enter opens the fold and keeps the place of the focus."""
    page = open_page(new_notebook(lab, SETUP_LONG, SHOW_LONG))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    fold = item(page, "940 questions not shown")
    expect(fold).to_be_visible(timeout=20_000)
    box, newest = (place.bounding_box() for place in (live(page).locator(".af-branches-box"), item(page, "999?")))
    assert box
    assert newest
    assert box["y"] < newest["y"] < box["y"] + box["height"], "The newest question is not visible."
    save_pictures(page, live(page), "tree-long")
    fold.focus()
    page.page.keyboard.press("Enter")
    expect(item(page, "900 questions not shown")).to_be_visible()
    expect(item(page, "Question number 1?")).to_be_focused()
    page.page.keyboard.press("Enter")
    expect(live(page).locator(".af-tree-read .af-answer")).to_have_text("Answer 1.")
    assert page.errors == []
