"""The first actions of a reader, in front ends and modes that no other test has: ask, read, decide, edit, reload."""

import shutil
from pathlib import Path

import pytest
from browser.cells import AS_WIDGETS, WIDGET_ERRORS
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, expect_growth, write_notebook
from browser.servers import VOILA
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
SETUP = """import ipywidgets
import artifactflow_nb as af

long = "\\n\\n".join(f"Paragraph {n} of the answer." for n in range(40))
text = f"Backups run at night [1], $x^2$ times.\\n\\n{long}\\n\\n1. Storage — local:handbook/storage.md#backups\\n"
write = {"id": "note", "title": "Note", "content": text}
TURNS = {
    "Write it": [af.ToolCall("web_fetch", {"urls": ["local:handbook/storage.md#backups"]}),
                 af.ToolCall("create_artifact", write), text],
    "Write another": [af.ToolCall("create_artifact", {**write, "id": "other"}), "As you wish."],
    "How many": ["There are three."],
}

def turn(request):
    for back, message in enumerate(reversed(request.messages)):
        for question, turns in TURNS.items():
            if message.role == "user" and question in message.content:
                after = request.messages[len(request.messages) - back:]
                return turns[sum(reply.role == "assistant" for reply in after)]

wb = af.Workbench(model=af.ScriptedModel(turn, delay_s=0.02), approvals={"create_artifact": "ask"}, data_dir="core",
                  graph_config={"lead_agent": {"tools": ["all"]}})
wb.sources.add("handbook")
display(wb.chat(), wb.tree(), wb.artifact_panel())"""


def ask(chat: Locator, question: str) -> None:
    """Type a question and send it with the keyboard."""
    composer = chat.get_by_role("textbox", name="Question")
    composer.fill(question)
    composer.press("Enter")


def show(page: LabPage) -> None:
    """Display the page of the notebook, with the outputs of its cell."""
    if page.server.front_end is VOILA:
        page.page.goto(page.server.url(page.name))
    else:
        page.open()
        page.run_cell(0)


@pytest.mark.parametrize(("front_end", "mode"), [("lab", "widget"), ("voila", "widget"), ("notebook7", "page")])
def test_core(front_end: str, mode: str, request: pytest.FixtureRequest, open_page: OpenPage) -> None:
    """A run streams, is decided by keyboard, cites and has formulas; tree, artifacts, editing and a reload work."""
    server: LabServer = request.getfixturevalue(front_end)
    folder = server.root / "core"
    folder.mkdir()
    shutil.copytree(HANDBOOK, folder / "handbook")
    write_notebook(server, "core/run.ipynb", [(AS_WIDGETS if mode == "widget" else "") + SETUP])
    page = open_page("core/run.ipynb", server, new=True)
    show(page)
    chat = page.page.locator(".af-chat.af-live")
    expect(chat).to_be_visible(timeout=60_000)
    ask(chat, "Write it.")
    expect_growth(chat)
    chat.get_by_role("button", name="Approve write artifact").press("Enter", timeout=SOON_MS)
    answer = chat.locator(".af-answer").first
    expect(answer).to_contain_text("Paragraph 39", timeout=SOON_MS)
    expect(chat.get_by_role("button", name="Stop this run")).to_have_count(0, timeout=SOON_MS)
    expect(answer.locator("math[alttext]:visible")).to_have_count(1)
    mark = answer.get_by_role("button", name="[1] Storage").first
    mark.focus()
    expect(answer.locator(".af-passage").first).to_contain_text("Section backups")
    ask(chat, "Write another.")
    chat.get_by_role("button", name="Deny write artifact").click(timeout=SOON_MS)
    expect(chat).to_contain_text("As you wish.", timeout=SOON_MS)
    ask(chat, "How many?")
    expect(chat).to_contain_text("There are three.", timeout=SOON_MS)
    chat.get_by_role("button", name="Edit this question").last.press("Enter")
    edited = chat.get_by_role("group", name="Edit the question").get_by_role("textbox")
    edited.fill("How many are there?")
    edited.press("Enter")
    expect(chat).to_contain_text("2 / 2", timeout=SOON_MS)
    expect(page.page.get_by_role("tree")).to_contain_text("How many are there?", timeout=SOON_MS)
    expect(page.page.locator(".af-artifacts.af-live")).to_contain_text("Paragraph 39", timeout=SOON_MS)
    if page.server.front_end is not VOILA:  # where a page that is loaded again has a new kernel
        page.saved_outputs(0)
        page.open()
        expect(chat).to_contain_text("How many are there?", timeout=SOON_MS)
        ask(chat, "How many more?")
        expect(chat.locator(".af-turn")).to_have_count(4, timeout=SOON_MS)
    assert page.errors == []
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]
