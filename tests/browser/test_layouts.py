"""Panels in the layouts of ipywidgets, in JupyterLab, also where a layout hides them at first."""

import re

import pytest
from browser.cells import QUESTION, REPLIES, WIDGET_ERRORS
from browser.chats import APPROVE, ask_in_chat
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WORKBENCH = f"""{REPLIES}import ipywidgets, itertools
number = itertools.count(1)

def turn(request):
    n = next(number)
    return text + report.replace("research_report", f"report{{n}}") if n % 2 else "It is written."

wb = af.Workbench(model=af.ScriptedModel(turn, delay_s=0.03), approvals={{"create_artifact": "ask"}}, data_dir="data")
values = []
def follow(panel):
    panel.observe(lambda change: values.append((change.name, change.new)), ["run_id", "status", "pending", "cost_usd"])
    return panel
"""
VALUES = """print(chat.run_id == wb.runs()[0].run_id, chat.status, chat.pending, chat.cost_usd)
print(*(value for name, value in values if name == "status"))
print(*(value for name, value in values if name == "pending"))"""


def open_cells(lab: LabServer, open_page: OpenPage, *cells: str) -> LabPage:
    """Open a notebook and execute its first cell."""
    page = open_page(new_notebook(lab, *cells))
    page.open()
    page.run_cell(0)
    return page


def views(page: LabPage, css: str = "", cell: int = 0) -> Locator:
    return page.output(cell).locator(f".af-live{css}")


def assert_no_errors(page: LabPage) -> None:
    assert page.errors == []
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]


@pytest.mark.parametrize("layout", ["HBox", "Tab", "Accordion"])
def test_chat_decides_in_a_layout_and_its_values_are_observed(layout: str, lab: LabServer, open_page: OpenPage) -> None:
    """In a row, a tab and an accordion a chat streams and decides beside a tree, and reports its values."""
    shown = f"ipywidgets.{layout}([chat, wb.tree()]{'' if layout == 'HBox' else ', selected_index=0'})"
    page = open_cells(lab, open_page, f"{WORKBENCH}chat = follow(wb.chat())\n{shown}", VALUES)
    ask_in_chat(views(page, ".af-chat"))
    page.run_cell(1)
    expect(page.output(1)).to_contain_text("True completed 0 None", timeout=SOON_MS)
    # The values say what is; the run may be completed before the second "running" is told.
    expect(page.output(1)).to_contain_text(re.compile("running waiting (running )?completed"))
    expect(page.output(1)).to_contain_text("1 0")
    if layout == "HBox":
        row = page.output(0).locator(".widget-hbox").first
        wide = "(row) => [...row.children].every((view) => view.clientWidth > row.clientWidth * 0.4)"
        page.page.wait_for_function(wide, arg=row.element_handle(), timeout=SOON_MS)
    else:
        page.output(0).locator(".lm-TabBar-tab, .jupyter-widget-Collapse-header").nth(1).click()
    expect(page.output(0).get_by_role("tree")).to_contain_text(QUESTION)
    assert_no_errors(page)


EVERY = f"""{WORKBENCH}project = wb.projects.start("How fast does the sea rise?", template="paper")
project.add("Aim", "Say how fast the sea rises at our coast.", phase="question")
run = wb.ask({QUESTION!r}).wait(30)
panels = [wb.chat(run), wb.tree(), wb.artifact_panel(run), wb.timeline(run), project.board(), run.panel, wb.home()]
ipywidgets.Tab(panels)"""
CONTENTS = (QUESTION, QUESTION, "It goes on.", "Timeline", "Aim", "It is written.", QUESTION)
"""What each of the panels contains once the run has ended."""


def test_hidden_panels_are_right_when_their_tab_is_opened(lab: LabServer, open_page: OpenPage) -> None:
    """A decision in the last tab reaches the panels of hidden tabs; an opened tab displays its whole panel."""
    page = open_cells(lab, open_page, EVERY)
    tabs = page.output(0).get_by_role("tab")
    expect(tabs).to_have_count(7, timeout=SOON_MS)
    tabs.nth(5).click()
    page.output(0).get_by_role("button", name=APPROVE).locator("visible=true").click(timeout=SOON_MS)
    shown = page.output(0).locator(".af-live:visible")
    for tab, text in enumerate(CONTENTS):
        tabs.nth(tab).click()
        expect(shown).to_contain_text(text, timeout=SOON_MS)
        expect(shown).to_have_count(1)
        assert shown.evaluate("node => node.scrollWidth <= node.clientWidth + 1 && node.clientHeight > 40")
    assert_no_errors(page)


CHANGED = f"{WORKBENCH}chat = wb.chat()\nbox = ipywidgets.VBox([chat, chat])\nbox"


def test_panel_is_shown_twice_removed_and_added_again(lab: LabServer, open_page: OpenPage) -> None:
    """Both views of one panel are updated; a view that is added again has the changes made meanwhile."""
    page = open_cells(lab, open_page, CHANGED, "box.children = ()", "box.children = (ipywidgets.HBox([chat]),)")
    chats = views(page, ".af-chat")
    expect(chats).to_have_count(2, timeout=SOON_MS)
    composer = chats.nth(1).get_by_role("textbox", name="Question")
    composer.fill(QUESTION)
    composer.press("Enter")
    for chat in (chats.nth(0), chats.nth(1)):
        expect(chat).to_contain_text("Paragraph 1 ", timeout=SOON_MS)
    page.run_cell(1)
    expect(chats).to_have_count(0, timeout=SOON_MS)
    page.wait_done(1)
    page.run_cell(2)
    expect(chats).to_have_count(1, timeout=SOON_MS)
    expect(chats).to_contain_text("Paragraph 39", timeout=SOON_MS)
    chats.get_by_role("button", name=APPROVE).click(timeout=SOON_MS)
    expect(chats.locator(".af-answer")).to_contain_text("It is written.", timeout=SOON_MS)
    assert_no_errors(page)


def test_saved_layout_beside_saved_panels(lab: LabServer, open_page: OpenPage) -> None:
    """Without a kernel, a cell displays the saved output of its panel, and a layout the text of its panels."""
    page = open_cells(lab, open_page, f"{WORKBENCH}wb.chat()", "ipywidgets.VBox([wb.tree()])")
    ask_in_chat(views(page, ".af-chat"))
    page.run_cell(1)
    expect(views(page, cell=1)).to_contain_text(QUESTION, timeout=SOON_MS)
    expect(views(page, ".af-chat").locator(".af-answer")).to_contain_text("It is written.", timeout=SOON_MS)
    page.wait_output(0, "It is written.")
    page.shutdown_kernel()
    page.open_elsewhere()
    expect(page.output(0).locator(".af-saved")).to_contain_text("It is written.")
    expect(page.output(1)).to_contain_text(QUESTION)
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]
