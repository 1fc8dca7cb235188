"""The charts in JupyterLab: drawn once, offline, in both themes."""

from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
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
    """Each chart is drawn once, fetches nothing, and follows the theme."""
    page = open_page(new_notebook(lab, *CELLS))
    page.open()
    page.theme(light=True)
    for cell in range(len(CELLS)):
        page.run_cell(cell)
        page.wait_done(cell)
    for cell in range(1, len(CELLS)):
        drawn = page.output(cell)
        expect(drawn).to_have_count(1)
        expect(drawn.locator("svg:visible")).to_have_count(1)
    title = page.output(1).locator("svg:visible text").first
    light = title.evaluate(INK)
    page.dark()
    assert title.evaluate(INK) != light
    assert page.foreign_requests() == []
    assert page.errors == []


EVALUATIONS = """import pandas as pd
import artifactflow_nb as af

scores = [("Summary", "clarity", 5), ("Summary", "evidence", 3), ("方法", "clarity", 8), ("Summary", "clarity", 7),
         ("A block whose name says all that will ever be in it, and more", "evidence", 9)]
grades = pd.DataFrame([
    {"block": block, "dimension": dimension, "score": score, "evidence_json": '["3 mm a year."]', "advice": "Say when."}
    for block, dimension, score in scores
])
af.plot_evaluations(grades)"""


def test_evaluations_are_drawn_with_their_evidence(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """The chart and its table with the evidence are accessible in both themes and stay in the saved notebook."""
    page = open_page(new_notebook(lab, EVALUATIONS))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    drawn = page.output(0).locator("svg:visible")
    expect(drawn).to_have_count(1)
    expect(drawn.get_by_text("5 → 7", exact=True)).to_be_visible()
    page.output(0).locator("summary").click()
    expect(page.output(0).get_by_role("cell", name="“3 mm a year.”").first).to_be_visible()
    assert axe_in_both_themes(page, ".jp-OutputArea-output .af-run") == []
    save_pictures(page, page.output(0), "evaluations")
    page.save()
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(0)
    expect(saved.locator("svg:visible, img:visible").first).to_be_visible()
    expect(saved.locator("summary")).to_have_text("Table: Scores of texts, from 1 to 10 (4 rows)")
    assert page.errors == []
    assert page.foreign_requests() == []
