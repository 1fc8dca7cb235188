"""Sub-agents that work at the same time, in JupyterLab: each line has the activity of its agent."""

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
SETUP = """import asyncio
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

seas = ("Baltic", "North Sea", "Adriatic")
long = "**Tide gauges** say `3.3 mm` a year; " * 60

def delegate(sea):
    instruction = f"Find how fast the **{sea}** rises.\\n\\n- tide gauges\\n- satellites"
    return ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": instruction})

def turn(request):
    if "lead agent" in request.messages[0].content.split("</agent_role>")[0]:
        is_found = "3.3 mm" in request.messages[-1].content
        return "All of them rise." if is_found else ["I have three seas looked up.", *map(delegate, seas)]
    sea = next(sea for sea in seas if any(sea in message.content for message in request.messages[1:]))
    if "measured" in request.messages[-1].content:
        return long
    return ToolCall("archive", {"series": f"gauges of the {sea}"})

wb = af.Workbench(data_dir="parallel", model=af.ScriptedModel(turn, delay_s=0.05))

@wb.tool(agent="search_agent")
async def archive(ctx: af.ToolContext, series: str) -> str:
    "Order a series from the archive."
    await asyncio.sleep(4)
    return f"measured: {series}"
"""
ASK = 'run = wb.ask("How fast do the seas rise?")\nrun'
FASTER = "wb._thread.engine.model._delay_s = 0"


def open_notebook(lab: LabServer, open_page: OpenPage) -> LabPage:
    page = open_page(new_notebook(lab, SETUP, ASK, FASTER))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    return page


def test_sub_agents_are_read_at_a_glance(lab: LabServer, open_page: OpenPage) -> None:
    """Three lines show name, activity, clock and tokens at any width."""
    page = open_notebook(lab, open_page)
    live = page.output(1).locator(".af-live")
    lines = live.locator(".af-job > summary")
    expect(lines).to_have_count(3, timeout=SOON_MS)
    expect(lines.filter(has_text="Running “archive”: gauges of the Baltic")).to_have_count(1, timeout=SOON_MS)
    for width in (1280, 800, 400):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, live, f"sub-agents-{width}")
    expect(lines.filter(has_text="Writing, ").first).to_be_visible(timeout=SOON_MS)
    for line in lines.all():
        assert "**" not in line.inner_text()
        expect(line.locator(".af-time")).to_contain_text("tokens")
        expect(line.locator(".af-time [data-since]")).to_contain_text(" s")
    expect(live.locator(".af-counts")).to_contain_text("about")
    assert axe_in_both_themes(page) == []
    page.page.set_viewport_size({"width": 1280, "height": 900})
    page.run_cell(2)
    saved = page.wait_saved(1, "All of them rise.")
    saved.locator(".af-work > summary").click()
    saved.locator(".af-job > summary").first.click()
    fold = saved.locator(".af-job").first.get_by_text("Instruction", exact=True)
    expect(saved.get_by_text("tide gauges", exact=True).first).to_be_hidden()
    fold.click()
    expect(saved.get_by_text("tide gauges", exact=True).first).to_be_visible()
    for width in (1280, 400):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, saved, f"sub-agents-saved-{width}")
    assert axe_in_both_themes(page) == []
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert page.errors == []
