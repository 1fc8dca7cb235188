"""The charts in a real JupyterLab: one each, offline, in both themes."""

from collections.abc import Callable

import pytest
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CELLS = [
    """import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel

wb = af.Workbench(model=ScriptedModel(["Done."]), data_dir="plotted")
wb.ask("Do it.").wait()
llm, tools = wb.llm_calls_df(), wb.tool_calls_df();""",
    "af.plot_timeline(llm, tools)",
    "af.plot_tokens(llm)",
    "af.plot_latency(llm, tools)",
    "af.plot_cost(llm)",
    "af.plot_timeline(llm[:0])",
]
INK = "node => getComputedStyle(node).fill"


def test_each_chart_is_drawn_once_and_offline(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """JupyterLab's own extension draws each chart, once, asks nobody for a schema, and follows the theme."""
    page = open_page(new_notebook(lab, *CELLS))
    page.open()
    page.theme(light=True)
    for cell in range(len(CELLS)):
        page.run_cell(cell)
        page.wait_done(cell)
    for cell in range(1, len(CELLS)):
        drawn = page.output(cell)
        expect(drawn).to_have_count(1)
        expect(drawn.locator("svg.marks")).to_have_count(1)
    title = page.output(1).locator("svg.marks .role-title-text text").first
    light = title.evaluate(INK)
    page.dark()
    assert title.evaluate(INK) != light
    assert page.foreign_requests() == []
    assert page.errors == []
