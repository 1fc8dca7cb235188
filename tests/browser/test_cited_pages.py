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
wb.sources.add("papers")
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


SOURCES = """import artifactflow_nb as af

text = "The ferry leaves the old pier at nine [1]. Kayaks are hired at the north shore [2].\\n\\n"
text += "1. Ferries — local:notes/ferries.txt#part-3\\n2. Kayaks — local:notes/kayaks.md#kayaks\\n"
turns = [af.ToolCall("web_fetch", {"urls": ["local:notes/ferries.txt#part-3", "local:notes/kayaks.md#kayaks"]}), text]
wb = af.Workbench(model=af.ScriptedModel(turns), approvals="approve", data_dir="store",
                  graph_config={"lead_agent": {"tools": ["all"]}})
wb.sources.add("notes")
run = wb.ask("When does the ferry leave?").wait(20)
run"""


@pytest.mark.parametrize(
    ("cell", "sentence", "link"),
    [
        (0, "The ferry leaves", "Open the source"),
        (1, "Kayaks are hired", "Open the source"),
        (1, "Kayaks are hired", "local:notes/kayaks.md#kayaks"),
    ],
    ids=["saved", "live", "address"],
)
def test_text_source_opens_at_its_passage(
    lab: LabServer, open_page: OpenPage, cell: int, sentence: str, link: str
) -> None:
    """A link opens the text's line in the editor; from a live view, the heading in the preview of Markdown."""
    place = f"opened{cell}{len(link)}"
    folder = lab.root / place / "notes"
    folder.mkdir(parents=True)
    filler = "".join(f"Line {number} about something else.\n\n" for number in range(90))
    (folder / "ferries.txt").write_text(f"{filler}The ferry leaves the old pier at nine.\n\n{filler}")
    kayaks = f"# Lake\n\n{filler}# Kayaks\n\nKayaks are hired at the north shore.\n\n"
    (folder / "kayaks.md").write_text(kayaks + filler.replace("Line", "Word"))
    name = f"{place}/sources.ipynb"
    write_notebook(lab, name, [SOURCES, "wb.chat(run)"])
    shown = open_page(name)
    shown.open()
    shown.run_cell(0)
    output = shown.wait_saved(0, "Completed")
    if cell:
        shown.run_cell(1)
        output = shown.output(1).locator(".af-live")
    if link == "Open the source":
        output.locator(".af-answer .af-cite-mark").nth(cell).focus(timeout=SOON_MS)
    output.get_by_role("link", name=link).first.click(timeout=SOON_MS)
    viewer = shown.page.locator(".jp-FileEditor, .jp-MarkdownViewer")
    expect(viewer.get_by_text(sentence)).to_be_in_viewport(timeout=SOON_MS)
    expect(viewer.get_by_text("Line 0 about")).not_to_be_in_viewport()
    assert len(shown.page.context.pages) == 1
    assert shown.errors == []
