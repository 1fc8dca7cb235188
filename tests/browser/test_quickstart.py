"""The questions of the quickstart in JupyterLab."""

from collections.abc import Callable

import pytest
from browser.cells import COMPUTE
from browser.lab import LabPage, LabServer, expect_growth, new_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

QUESTION = "How do Python context managers behave when __exit__ raises?"
ASK = f"""import artifactflow_nb as af
wb = af.Workbench(approvals={{"create_artifact": "ask"}})
run = wb.ask({QUESTION!r})
run"""
WAIT = """await run
print(run.status, "after", len(run.artifacts), "artifacts")"""

SLOW_ASK = """import artifactflow_nb as af
text = "\\n\\n".join(f"Paragraph {i} of a slow answer." for i in range(60))
wb = af.Workbench(model=af.ScriptedModel([text], delay_s=0.1))
run = wb.ask("Say a lot, slowly.")
run"""


def assert_no_errors(*pages: LabPage) -> None:
    for page in pages:
        assert page.errors == []
        assert page.foreign_requests() == []


def test_run_from_question_to_reopened_notebook(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """A click approves while a cell computes, and the report is readable in the saved notebook."""
    page = open_page(new_notebook(lab, ASK, COMPUTE, WAIT))
    page.open()
    for cell in range(3):
        page.run_cell(cell)
    approve = page.output(0).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=60_000)  # another cell takes one of the processors
    expect(page.output(0).get_by_role("status")).to_contain_text("Your approval is needed: Write “")
    computing = not page.output(1).count()
    approve.click()
    expect(page.output(0).locator(".af-approval")).to_have_count(0, timeout=20_000)
    assert computing
    assert not page.output(1).count(), "The click took effect only after the computing cell."
    page.file_in_folder("enough").touch()
    report = page.output(0).locator(".af-saved .af-artifact").first
    expect(report).to_contain_text("Sources", timeout=20_000)
    page.wait_done(2)
    expect(page.output(1)).to_have_text("computed True")
    expect(page.output(2)).to_contain_text("completed after 2 artifacts")
    page.save()
    answer = page.output(0).locator(".af-answer").inner_text()
    page.shutdown_kernel()

    again = open_page(page.name)
    again.open()
    expect(again.output(0).locator(".af-answer")).to_have_text(answer, use_inner_text=True)
    expect(again.output(0).locator(".af-artifact").first).to_contain_text("Sources")
    assert_no_errors(page, again)


def test_text_streams_while_another_cell_computes(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """The answer grows in the page while the next cell blocks the kernel."""
    page = open_page(new_notebook(lab, SLOW_ASK, COMPUTE))
    page.open()
    page.run_all()
    answer = page.output(0).locator(".af-answer")
    expect(answer).to_contain_text("Paragraph 0", timeout=20_000)
    expect_growth(answer, 5)
    assert not page.output(1).count(), "The cell ended too early for this test."
    page.file_in_folder("enough").touch()
    expect(page.output(1)).to_have_text("computed True", timeout=20_000)
    page.output(0).get_by_role("button", name="Stop this run").click()
    expect(page.output(0).locator(".af-saved")).to_contain_text("Cancelled", timeout=20_000)
    assert_no_errors(page)


def test_keyboard_and_dark_theme(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """A fold opens with the keyboard and stays open during updates; the dark theme has light text."""
    page = open_page(new_notebook(lab, ASK))
    page.open()
    page.run_cell(0)
    approve = page.output(0).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=20_000)
    job = page.output(0).locator("details.af-job").first
    job.locator(":scope > summary").focus()
    page.page.keyboard.press("Enter")
    expect(job).to_have_attribute("open", "")
    page.dark()
    colour = page.output(0).locator(".af-question").evaluate("node => getComputedStyle(node).color")
    assert all(int(part) > 180 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])
    page.output(0).get_by_role("textbox").fill("Not yet")
    page.output(0).get_by_role("button", name="Deny write artifact").focus()
    page.page.keyboard.press("Enter")
    expect(page.output(0).locator(".af-saved")).to_be_visible(timeout=20_000)
    expect(page.output(0).locator(".af-saved")).to_contain_text("denied: Not yet")
    assert_no_errors(page)
