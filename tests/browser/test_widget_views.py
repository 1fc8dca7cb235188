"""Views as widgets: in layouts of ipywidgets, and where a front end cannot run the page script of a saved output."""

from collections.abc import Iterator

import pytest
from browser.cells import AS_WIDGETS, ASK, QUESTION, REPLIES, WIDGET_ERRORS
from browser.chats import APPROVE, ask_in_chat
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, expect_growth, new_notebook, write_notebook
from browser.servers import marimo_server
from playwright.sync_api import BrowserContext, expect

pytestmark = pytest.mark.browser

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WORKBENCH = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel([text + report, "It is written."], delay_s=0.01),
                  approvals={{"create_artifact": "ask"}}, data_dir="data")
"""
LAYOUT = f"""{WORKBENCH}import ipywidgets
chat = wb.chat()
statuses = []
chat.observe(lambda change: statuses.append(change.new), "status")
ipywidgets.VBox([chat, ipywidgets.Accordion([wb.tree(), wb.artifact_panel()], selected_index=0)])"""
VALUES = "print(chat.status, chat.pending, chat.run_id == wb.runs()[0].run_id, chat.cost_usd, statuses[-1])"
STATE = """import json
from ipywidgets.widgets.widget import _instances
panels = [widget for widget in _instances.values() if "Panel" in str(type(widget))]
sizes = [len(json.dumps(panel.get_state(), default=str)) for panel in panels]
print(len(sizes), max(sizes) <= 2000)"""
MARIMO_CELLS = (
    f"{WORKBENCH}chats = []\nwb",
    "chat = wb.chat()\nchats.append(chat)\nchat",
    'print("open:", [each.comm is not None for each in [*chats, chat][:-1]])',
)


def assert_no_widget_errors(page: LabPage) -> None:
    assert page.errors == []
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]


def test_layouts_take_panels_whose_values_can_be_observed(lab: LabServer, open_page: OpenPage) -> None:
    """A box has a chat, and an accordion a tree; the values follow the run, and the page may be loaded again."""
    page = open_page(new_notebook(lab, LAYOUT, VALUES, STATE), new=True)
    page.open()
    page.run_cell(0)
    chat = page.output(0).locator(".af-chat.af-live")
    ask_in_chat(chat)
    tree = page.output(0).get_by_role("tree")
    expect(tree).to_contain_text(QUESTION)
    for cell, text in ((1, "completed 0 True None completed"), (2, "3 True")):
        page.run_cell(cell)
        expect(page.output(cell)).to_have_text(text)
    page.save()
    page.open()
    expect(page.output(0).locator(".af-chat.af-live .af-answer")).to_contain_text("It is written.", timeout=20_000)
    assert_no_widget_errors(page)


def test_output_has_the_view_of_a_widget_until_the_run_ends(lab: LabServer, open_page: OpenPage) -> None:
    """With `AF_LIVE=widget` a run streams and is approved in the view of a widget; the last output has no widget."""
    page = open_page(new_notebook(lab, AS_WIDGETS + ASK), lab)
    page.open()
    page.run_cell(0)
    live = page.output(0).locator("[class=af-host] > .af-live")
    expect(live).to_contain_text("Paragraph 1 ", timeout=20_000)
    expect_growth(live)
    button = page.output(0).get_by_role("button", name=APPROVE)
    expect(button).to_be_visible(timeout=20_000)
    [waiting] = page.saved_outputs(0)
    assert {WIDGET_VIEW, "text/html", "text/plain"} == set(waiting.data)
    assert QUESTION in waiting.data["text/html"]
    button.click()
    expect(page.output(0).locator(".af-saved:visible .af-answer")).to_contain_text("It is written.", timeout=20_000)
    [ended] = page.saved_outputs(0)
    assert {"text/html", "text/plain"} == set(ended.data)
    assert_no_widget_errors(page)


def test_chat_is_a_widget_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """A layout of panels, and a chat as a widget, are live in Voila."""
    (voila.root / "layout").mkdir()
    write_notebook(voila, "layout/run.ipynb", [AS_WIDGETS + LAYOUT, "wb.chat()"])
    page = open_page("layout/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    chats = page.page.locator("[class=af-host] > .af-chat.af-live")
    expect(chats).to_have_count(2, timeout=30_000)
    ask_in_chat(chats.first)
    assert_no_widget_errors(page)


@pytest.fixture
def marimo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of marimo with a notebook of `MARIMO_CELLS`."""
    with marimo_server(tmp_path_factory.mktemp("marimo"), MARIMO_CELLS) as address:
        yield address


def test_panels_are_live_in_marimo(marimo: str, context: BrowserContext) -> None:
    """In marimo, with shadow roots, a chat asks, streams and is approved; keys are no commands."""
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(marimo)
    expect(page.locator(".cm-editor").first).to_be_visible(timeout=30_000)
    page.keyboard.press("Control+Shift+r")
    chat = page.locator(".af-chat.af-live")
    expect(chat).to_be_visible(timeout=40_000)
    n_cells = page.locator("[data-cell-id] .cm-editor").count()
    ask_in_chat(chat)
    expect(page.locator(".af-home.af-live")).to_contain_text(QUESTION)
    assert page.locator("[data-cell-id] .cm-editor").count() == n_cells
    assert errors == []


def test_cell_that_runs_again_closes_the_earlier_panel(marimo: str, context: BrowserContext) -> None:
    """Marimo executes the cell of a chat again: the new chat asks and ends, and the earlier panel is closed."""
    page = context.new_page()
    page.goto(marimo)
    expect(page.locator(".cm-editor").first).to_be_visible(timeout=30_000)
    page.keyboard.press("Control+Shift+r")
    chat = page.locator(".af-chat.af-live")
    expect(chat).to_be_visible(timeout=40_000)
    expect(page.get_by_text("open: [True]")).to_be_visible()
    page.locator("[data-cell-id] .cm-content").nth(1).click()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("open: [False, True]")).to_be_visible(timeout=20_000)
    ask_in_chat(chat)
