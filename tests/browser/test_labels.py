"""The blind panel of a study in JupyterLab: answers are labelled with keys, in light and dark."""

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
SETUP = """import artifactflow_nb as af

wb = af.Workbench(data_dir="labels", model=af.ScriptedModel(lambda _request: "It is **5 m** deep, as the survey says."))
study = wb.studies.start([f"How deep is lake {n}?" for n in range(4)], name="lakes").wait()"""


def test_answers_are_labelled_with_keys(lab: LabServer, open_page: OpenPage) -> None:
    """The focus stays on the keys, the notebook gets no digit, and the saved cell has a line."""
    page = open_page(new_notebook(lab, SETUP, "study.label(3)", "study.grades_df['score'].tolist()"))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    panel = page.output(1).locator(".af-run.af-live")
    expect(panel).to_contain_text("Answer 1 of 3", timeout=SOON_MS)
    assert axe_in_both_themes(page) == []
    save_pictures(page, panel, "labels")
    panel.get_by_role("button", name="5", exact=True).press("5")
    expect(panel).to_contain_text("Answer 2 of 3")
    page.page.keyboard.press("3")
    expect(panel).to_contain_text("Answer 3 of 3")
    page.page.keyboard.press("9")
    page.page.keyboard.press("1")
    expect(panel).to_contain_text("3 of 3 answers labelled.")
    page.run_cell(2)
    page.wait_done(2)
    assert sorted(eval(page.output(2).inner_text())) == [0, 0.5, 1]  # noqa: S307 - a list of numbers
