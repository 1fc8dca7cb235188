"""A composer that starts a research run, in JupyterLab: the research is displayed and decided within its call."""

from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer
from browser.pictures import save_pictures
from browser.test_approval_card import open_notebook, printed
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

OpenPage = Callable[[str], LabPage]

ASK = """import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

report = (
    "# The rise of the sea\\n\\nSince 1993 satellites measure the height of the sea; it rises by 3.3 mm a year.\\n\\n"
    "| years | mm a year |\\n|---|--:|\\n| 1993-2003 | 2.1 |\\n| 2014-2023 | 4.8 |\\n\\n1. The gauge at the harbour"
)
research = {"query": "How fast does the sea rise since 1993?", "research_type": "general"}
instruction = "Find what the tide gauges and the satellites say, year by year."
turns = {
    "You write a document together": [
        ["I need facts for the literature, so I have them looked up.", ToolCall("run_research", research)],
        "The literature has its first text now: the sea rises by 3.3 mm a year, and faster of late.",
    ],
    "lead agent": [
        [ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": instruction})],
        [ToolCall("create_artifact", {"id": "research_report", "title": "The rise of the sea", "content": report})],
        "The sea rises by 3.3 mm a year, and by 4.8 mm a year in the last ten of them.",
    ],
    "search agent": [
        ["The archive has the series.", ToolCall("archive", {"series": "altimetry 1993-2023"})],
        "The series rises by 3.3 mm a year.",
    ],
}

def turn(request):
    role = request.messages[0].content.split("</agent_role>")[0]
    return next(turns[words] for words in turns if words in role).pop(0)

wb = af.Workbench(data_dir="researched", model=af.ScriptedModel(turn))

@wb.tool(permission="confirm", agent="search_agent")
def archive(ctx: af.ToolContext, series: str) -> str:
    "Order a series from the archive, for a fee."
    return f"{series}: 3.3 mm a year"

project = wb.projects.start("Sea level", template="paper")
run = project.ask("How fast does the sea rise? Have it researched.")
run"""
RESULT = """await run
print([(block.name, block.phase, block.status) for block in project.blocks])
print(project["How fast does the sea rise since 1993?"].content.splitlines()[0])"""
LATER = "wb.chat(project.conversation_id)"


def test_research_is_displayed_and_decided_within_its_call(lab: LabServer, open_page: OpenPage) -> None:
    """The steps and the card of the research are in the fold of its call, and its report becomes a block."""
    page = open_notebook(lab, open_page, ASK, RESULT, LATER)
    out = page.output(0)
    fold = out.locator(".af-live .af-subrun")
    card = fold.locator(".af-approval")
    expect(card).to_be_visible(timeout=20_000)
    expect(out.locator(".af-live .af-approval")).to_have_count(1)
    expect(out.get_by_role("status").filter(has_text="Your approval is needed: Run “archive”")).to_have_count(1)
    expect(out.locator(".af-live .af-head")).to_contain_text("Waiting for you: archive, in research")
    expect(fold).to_contain_text("The archive has the series.")
    out.locator(".af-live").evaluate("node => node.scrollIntoView()")
    save_pictures(page, out.locator(".af-live"), "subrun-asks")
    assert axe_in_both_themes(page) == []
    card.get_by_role("button", name="Approve archive").focus()
    page.page.keyboard.press("Enter")
    saved = page.wait_saved(0, "The literature has its first text now")
    saved.locator(".af-work > summary").first.click()
    saved.locator(".af-subrun > summary").click()
    expect(saved.locator(".af-subrun")).to_contain_text("by 4.8 mm a year in the last ten")
    save_pictures(page, saved, "subrun-done")
    assert axe_in_both_themes(page) == []
    blocks, first = printed(page, 1)
    assert "('How fast does the sea rise since 1993?', 'literature', 'completed')" in blocks
    assert first == "# The rise of the sea"
    page.run_cell(2)
    chat = page.output(2).locator(".af-live")
    chat.locator(".af-work > summary").first.click(timeout=20_000)
    chat.locator(".af-subrun > summary").press("Enter")
    expect(chat.locator(".af-subrun")).to_contain_text("The series rises by 3.3 mm a year.")
    expect(chat.locator(".af-subrun .af-meta")).to_contain_text("Completed")
    assert page.errors == []
