"""Buttons below ended runs: copy, regenerate, retry and continue in a chat, while a kernel is there."""

from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook, write_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser
OpenPage = Callable[[str], LabPage]
SOON_MS = 20_000
WORK = """import artifactflow_nb as af
wb = af.Workbench(data_dir="ended", model=af.ScriptedModel(["The first answer.", "The second answer.", "Gladly."]))
run = wb.ask("What is X?")
run"""
WROTE = """import artifactflow_nb as af
report = af.ToolCall("create_artifact", {"id": "report", "title": "Ferries", "content": "# Ferries\\n\\nAt nine."})
wb = af.Workbench(data_dir="wrote", model=af.ScriptedModel([report, "Written."]))
run = wb.ask("Write.")
run"""
DENIED = """import artifactflow_nb as af
plan = af.ToolCall("create_artifact", {"id": "task_plan", "title": "Plan", "content": "1. Write."})
report = af.ToolCall("create_artifact", {"id": "report", "title": "Ferries", "content": "At nine."})
model = af.ScriptedModel([plan, report, "Nothing is written."])
denied = af.Workbench(data_dir="denied", model=model, approvals={"create_artifact": "deny"})
run = denied.ask("Write.").wait()
run"""
EMPTY = """empty = af.ToolCall("create_artifact", {"id": "report", "title": "Ferries", "content": ""})
emptied = af.Workbench(data_dir="emptied", model=af.ScriptedModel([empty, "It has no text."]), approvals="approve")
run = emptied.ask("Write.").wait()
run"""
RETRIED = """import artifactflow_nb as af
asked = []
def turn(request):
    asked.append(request)
    if len(asked) == 1:
        raise af.errors.ModelRejected("The model is not there.")
    return "It **works** now."
wb = af.Workbench(data_dir="retried", model=af.ScriptedModel(turn, delay_s=0.05))
run = wb.ask("What is Z?")
run"""
FAIL = """broken = af.Workbench(data_dir="broken", model=af.ScriptedModel([]))
run = broken.ask("What is Y?")
run"""


def actions(page: LabPage, cell: int) -> Locator:
    return page.output(cell).locator(".af-ended-actions")


def test_ended_run_can_be_copied_asked_again_and_continued(lab: LabServer, open_page: OpenPage) -> None:
    """The buttons are below the saved output, not within; a chat replaces the output and is saved instead."""
    page = open_page(new_notebook(lab, WORK))
    page.open()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.run_cell(0)
    page.wait_saved(0, "The first answer.")
    expect(actions(page, 0).get_by_role("button")).to_have_text(["Copy", "Regenerate", "Continue in chat"])
    save_pictures(page, page.output(0).locator(".af-saved"), "ended-run")
    assert axe_in_both_themes(page) == []
    page.theme(light=True)
    (saved,) = page.saved_outputs(0)
    assert "Regenerate" not in saved.data["text/html"]
    actions(page, 0).get_by_role("button", name="Copy").click()
    expect(actions(page, 0)).to_contain_text("Copied.", timeout=SOON_MS)
    assert page.page.evaluate("navigator.clipboard.readText()") == "The first answer."

    actions(page, 0).get_by_role("button", name="Regenerate").click()
    chat = page.output(0).locator(".af-live.af-chat")
    expect(chat).to_contain_text("The second answer.", timeout=SOON_MS)
    expect(chat).to_contain_text("2 / 2")
    chat.get_by_role("textbox", name="Question").fill("Thank you.")
    page.page.keyboard.press("Enter")
    expect(chat).to_contain_text("Gladly.", timeout=SOON_MS)
    page.wait_output(0, "Gladly.")
    assert page.errors == []


def test_report_of_an_ended_run_can_be_copied(lab: LabServer, open_page: OpenPage) -> None:
    page = open_page(new_notebook(lab, WROTE))
    page.open()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.run_cell(0)
    page.wait_saved(0, "Written.")
    actions(page, 0).get_by_role("button", name="Copy the report").click()
    expect(actions(page, 0)).to_contain_text("Copied.", timeout=SOON_MS)
    assert page.page.evaluate("navigator.clipboard.readText()") == "# Ferries\n\nAt nine."
    assert page.errors == []


def test_only_a_report_that_was_written_can_be_copied(lab: LabServer, open_page: OpenPage) -> None:
    """A plan is no report, and an empty text leaves the clipboard as it is."""
    page = open_page(new_notebook(lab, DENIED, EMPTY))
    page.open()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.page.evaluate("navigator.clipboard.writeText('mine')")
    page.run_all()
    page.wait_saved(0, "Nothing is written.")
    expect(actions(page, 0).get_by_role("button")).to_have_text(["Copy", "Regenerate", "Continue in chat"])
    page.wait_saved(1, "It has no text.")
    actions(page, 1).get_by_role("button", name="Copy the report").click()
    expect(actions(page, 1)).to_contain_text("There is nothing to copy.", timeout=SOON_MS)
    assert page.page.evaluate("navigator.clipboard.readText()") == "mine"
    assert page.errors == []


def test_buttons_go_with_the_kernel_and_return_with_the_page(lab: LabServer, open_page: OpenPage) -> None:
    """A reloaded page has the buttons, for a failed run too; without a kernel the buttons are removed."""
    page = open_page(new_notebook(lab, WORK, FAIL))
    page.open()
    page.run_all()
    page.wait_saved(0, "The first answer.")
    page.wait_saved(1, "Failed")
    expect(actions(page, 1).get_by_role("button")).to_have_text(["Retry", "Open in chat"])
    page.save()
    page.open()
    expect(actions(page, 0)).to_be_visible(timeout=SOON_MS)
    page.restart_kernel()
    expect(page.page.locator(".af-ended-actions")).to_have_count(0, timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved")).to_contain_text("The first answer.")
    assert page.errors == []


def test_retry_shows_the_new_run_in_the_place_of_the_failed_one(lab: LabServer, open_page: OpenPage) -> None:
    """The output of the new run is saved, and says that a variable of the cell still has the failed run."""
    page = open_page(new_notebook(lab, RETRIED, "print(run.status, len(wb.runs()))"))
    page.open()
    page.run_cell(0)
    page.wait_saved(0, "The model is not there.")
    actions(page, 0).get_by_role("button", name="Retry").click()
    saved = page.wait_saved(0, "It works now.")
    expect(saved).to_contain_text("A variable of this cell still has the earlier run.")
    expect(page.output(0).locator(".af-chat")).to_have_count(0)
    expect(actions(page, 0).get_by_role("button")).to_have_text(["Copy", "Regenerate", "Continue in chat"])
    save_pictures(page, saved, "ended-run-retried")
    (output,) = page.saved_outputs(0)
    assert "works" in output.data["text/html"]
    page.run_cell(1)
    page.wait_done(1)
    expect(page.output(1)).to_contain_text("failed 2")
    assert page.errors == []


def of_kernel(name: str) -> str:
    return (
        "import artifactflow_nb as af\n"
        f'wb = af.Workbench(data_dir="store", model=af.ScriptedModel(["The kernel of {name}."] * 9))\n'
        f'run = wb.ask("Whose kernel is it, {name}?")\nrun'
    )


def test_buttons_are_those_of_the_kernel_of_their_notebook(lab: LabServer, open_page: OpenPage) -> None:
    """Two notebooks of a page have the same store; a button of a notebook asks again in its own kernel only."""
    ask = "again = wb.ask('And again?')\nagain"
    (lab.root / "two").mkdir()
    write_notebook(lab, "two/first.ipynb", [of_kernel("first")])
    write_notebook(lab, "two/second.ipynb", [of_kernel("second"), ask, ask, ask])
    page = open_page("two/first.ipynb")
    page.open()
    page.run_cell(0)
    page.wait_saved(0, "The kernel of first.")
    expect(actions(page, 0)).to_be_visible(timeout=SOON_MS)
    page.page.evaluate("window.jupyterapp.commands.execute('docmanager:open', { path: 'two/second.ipynb' })")
    second = page.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
    expect(second.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_visible(timeout=SOON_MS)
    page.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    bars = second.locator(".af-ended-actions")
    expect(bars).to_have_count(4, timeout=SOON_MS)
    for n in range(4):
        bars.first.get_by_role("button", name="Regenerate").click()
        chat = second.locator(".af-live.af-chat").nth(n)
        expect(chat).to_contain_text("2 / 2", timeout=SOON_MS)
        expect(chat).to_contain_text("The kernel of second.", timeout=SOON_MS)
    assert page.errors == []
