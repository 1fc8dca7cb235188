"""The plots in JupyterLab: a picture each, drawn offline."""

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
    "af.plots.timeline(llm, tools);",
    "af.plots.tokens(llm);",
    "af.plots.latency(llm, tools);",
    "af.plots.cost(llm);",
    "af.plots.timeline(llm[:0]);",
]


def test_each_plot_is_a_picture_and_offline(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """Each plot is shown once, and sends no request."""
    page = open_page(new_notebook(lab, *CELLS))
    page.open()
    for cell in range(len(CELLS)):
        page.run_cell(cell)
        page.wait_done(cell)
    for cell in range(1, len(CELLS)):
        expect(page.output(cell).locator("img:visible")).to_have_count(1)
    assert page.foreign_requests() == []
    assert page.errors == []
