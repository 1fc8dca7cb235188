"""A run in each front end that people use, from the question to the page that stays."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from browser.cells import ASK, ASK_AT_ONCE, BROKEN, QUESTION, TELLING
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook, write_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

APPROVE = "Approve create_artifact"
PANELS = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel([report, "It is written."]), data_dir="panels",
                  approvals={{"create_artifact": "ask"}})
wb.chat()"""
OVER_IT = ("wb.tree()", "wb.artifact_panel()", "wb.timeline()")


def grows(text: Locator, page: LabPage, n_looks: int = 12) -> Sequence[int]:
    """The lengths of a text, looked at every 100 ms."""
    lengths = []
    for _ in range(n_looks):
        lengths.append(len(text.inner_text()))
        page.page.wait_for_timeout(100)
    return lengths


def assert_clean(page: LabPage) -> None:
    assert page.errors == []
    assert page.foreign_requests() == []
    shown = page.page.locator("body").inner_text()
    assert not [words for words in BROKEN if words in shown]


@pytest.mark.parametrize("front_end", ["lab", "lab6", "notebook7"])
def test_a_run_streams_asks_and_stays(front_end: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """Text is shown as it arrives, a click approves, and the saved output needs neither widget nor kernel."""
    server: LabServer = request.getfixturevalue(front_end)
    page = open_page(new_notebook(server, ASK), server)
    page.open()
    page.run_cell(0)
    live = page.output(0).locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph 1 ", timeout=20_000)
    lengths = grows(live, page)
    assert sum(after > before for before, after in pairwise(lengths)) >= 3, lengths
    page.output(0).get_by_role("button", name=APPROVE).click(timeout=20_000)
    frozen = page.output(0).locator(".af-saved:visible")
    expect(frozen.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(frozen.locator(".af-artifact")).to_contain_text("It goes on.")
    [output] = page.saved_outputs(0)
    assert "It is written." in output.data["text/html"]
    assert "It is written." in output.data["text/markdown"]
    assert "application/vnd.jupyter.widget-view+json" not in output.data
    assert_clean(page)


def ask_in_chat(chat: Locator) -> None:
    """Ask in the composer, and approve what the run wants to write."""
    composer = chat.get_by_role("textbox", name="Question")
    composer.fill(QUESTION)
    composer.press("Shift+Enter")
    chat.get_by_role("button", name=APPROVE).click(timeout=20_000)
    expect(chat.locator(".af-answer")).to_contain_text("It is written.", timeout=20_000)
    expect(composer).to_have_value("")


@pytest.mark.parametrize("front_end", ["lab6", "notebook7"])
def test_every_panel_is_live(front_end: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """A question is asked and approved in the chat; tree, artifacts and timeline show it, and act when pressed."""
    server: LabServer = request.getfixturevalue(front_end)
    page = open_page(new_notebook(server, PANELS, *OVER_IT), server)
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
    assert_clean(page)


def test_the_chat_is_live_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """Voila is a page to ask in: a question typed there is answered there."""
    (voila.root / "chat").mkdir()
    write_notebook(voila, "chat/run.ipynb", [PANELS])
    page = open_page("chat/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    chat = page.page.locator(".af-live")
    expect(chat).to_be_visible(timeout=30_000)
    ask_in_chat(chat)
    assert_clean(page)


def test_a_run_goes_on_in_voila(voila: LabServer, open_page: OpenPage) -> None:
    """Voila runs all cells, then shows the page: a run that waits is live there, and a click lets it go on.

    A cell that awaits the run is over by then: while Voila executes there is no page that could answer, so `await`
    comes back with a run that waits.
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
    assert_clean(page)


def test_voila_follows_a_run_that_goes_on_after_its_cells(voila: LabServer, open_page: OpenPage) -> None:
    """A run that nobody awaits streams on in the page that Voila shows when the cells have ended."""
    (voila.root / "stream").mkdir()
    write_notebook(voila, "stream/run.ipynb", [ASK.replace("delay_s=0.03", "delay_s=0.1")])
    page = open_page("stream/run.ipynb", voila)
    page.page.goto(voila.url(page.name))
    live = page.page.locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph", timeout=30_000)
    lengths = grows(live, page)
    assert sum(after > before for before, after in pairwise(lengths)) >= 3, lengths
    page.page.get_by_role("button", name=APPROVE).click(timeout=30_000)
    expect(page.page.locator(".af-run:visible .af-answer")).to_contain_text("It is written.", timeout=20_000)
    assert_clean(page)
