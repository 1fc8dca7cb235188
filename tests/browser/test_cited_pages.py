"""The page of a cited PDF as a picture: in the chat on a click, and in the output of a cell."""

from pathlib import Path

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabServer, write_notebook
from browser.pictures import save_pictures
from playwright.sync_api import expect
from support.pdf import Line, paragraph, pdf

pytestmark = pytest.mark.browser

SOON_MS = 20_000
CHAT = """import artifactflow_nb as af

text = "Herons wait for fish in shallow water [1].\\n\\n1. Birds: page 2 — local:papers/birds.pdf#page-2\\n"
turns = [af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Read."}),
         af.ToolCall("web_fetch", {"urls": ["local:papers/birds.pdf#page-2"]}), "Read.", text]
wb = af.Workbench(model=af.ScriptedModel(turns), approvals="approve", data_dir="store")
wb.add_sources("papers")
run = wb.ask("Where do herons wait?").wait(20)
wb.chat(run)"""


@pytest.fixture(scope="module")
def notebook(lab: LabServer) -> str:
    folder = lab.root / "cited" / "papers"
    folder.mkdir(parents=True)
    page = [
        Line(72, 720, "The birds of the lake", 20),
        *paragraph("Otters swim all day.", "Herons wait for fish in", "shallow water.", "They nest in trees.", y=680),
    ]
    Path(folder / "birds.pdf").write_bytes(pdf("Cover", page, title="Birds"))
    write_notebook(lab, "cited/chat.ipynb", [CHAT, "run.citation(1)"])
    return "cited/chat.ipynb"


def test_cited_page_opens_over_the_notebook(notebook: str, open_page: OpenPage) -> None:
    """The passage is marked on the page; Escape closes the page and returns to the chat."""
    shown = open_page(notebook)
    shown.open()
    shown.run_cell(0)
    live = shown.output(0).locator(".af-live")
    live.locator(".af-cite-mark").first.focus(timeout=SOON_MS)
    live.get_by_role("button", name="Show the page").click()
    dialog = live.locator("dialog.af-picture")
    expect(dialog.locator("img")).to_be_visible(timeout=SOON_MS)
    assert dialog.locator("img").evaluate("image => image.naturalWidth") == 1000
    save_pictures(shown, dialog, "cited-page")
    assert axe_in_both_themes(shown, ".af-live") == []
    shown.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    shown.run_cell(1)
    picture = shown.output(1).locator("img")
    expect(picture).to_be_visible(timeout=SOON_MS)
    expect(shown.output(1)).to_contain_text("Herons wait for fish in shallow water.")
    save_pictures(shown, shown.output(1), "citation-value")
    assert shown.errors == []
    assert shown.foreign_requests() == []
