"""The artifact panel in JupyterLab: read, edit, compare, restore and export artifacts while runs change them."""

from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SETUP = """import tempfile
import artifactflow_nb as af
from artifactflow_nb.core.toolcalls.xml import format_call
one = '''# Checking backups

The server copies `raw/` and `clean/` to the institute every night at 02:00.

## How a backup is checked

1. On the first Monday of each month one file is chosen at random.
2. It is restored and compared with the original.

| step | who | how long |
|------|-----|---------:|
| copy | server | 2 h |
| restore | data steward | 20 min |

> A backup counts only after a restore has been tried.

## If the check fails

Tell the data steward on the same day.
'''
two = one.replace("02:00", "03:30").replace("one file is chosen", "two files are chosen").replace(
    "Tell the data steward on the same day.", "Tell the data steward on the same day, and do not delete anything.")
def write(tool, text):
    title = {"title": "Checking backups"} if tool == "create_artifact" else {}
    return format_call(tool, {"id": "research_report", **title, "content": text})
plan = format_call("create_artifact", {"id": "task_plan", "title": "Plan", "content": "- [x] Look\\n- [ ] Write"})
notes = format_call("create_artifact", {"id": "notes", "title": "Notes on sensors", "content": "Sensors drift."})
wb = af.Workbench(data_dir=tempfile.mkdtemp(), approvals={"rewrite_artifact": "ask"}, model=af.ScriptedModel([
    plan + notes + write("create_artifact", one), "Written.",
    write("rewrite_artifact", two), "Rewritten.",
]))
first = wb.ask("How are backups checked, and what happens if the check fails?").wait(20)
first.artifacts["research_report"].edit(one.replace("20 min", "30 min"))"""
SHOW = "wb.artifact_panel(first.conversation_id)"
ASK_AGAIN = """run = wb.ask("Bring it up to date.", conversation_id=first.conversation_id).wait(20)
run.approve().wait(20)
print(run.status)"""
READ = """report = wb.artifacts()["research_report"]
print(report.version, report.created_by, "by hand" in report.content)"""


@pytest.fixture
def page(lab: LabServer, open_page: Callable[[str], LabPage]) -> LabPage:
    """A notebook with the panel of three artifacts; one artifact has two versions."""
    page = open_page(new_notebook(lab, SETUP, SHOW, ASK_AGAIN, READ))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    expect(live(page).locator(".af-art-name")).to_have_text("Checking backups", timeout=20_000)
    return page


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def press(page: LabPage, name: str) -> None:
    live(page).get_by_role("button", name=name, exact=True).click()


def test_versions_are_read_and_compared(page: LabPage) -> None:
    """The buttons Rendered, Raw and Changes switch the text, and two versions are compared without foreign requests."""
    text = live(page).locator(".af-art-text")
    expect(text.get_by_role("heading", name="If the check fails")).to_be_visible()
    save_pictures(page, live(page), "artifact-panel")
    press(page, "Raw")
    expect(text).to_contain_text("## If the check fails")
    expect(text.get_by_role("heading", name="If the check fails")).to_have_count(0)
    press(page, "Rendered")
    expect(text.get_by_role("heading", name="If the check fails")).to_be_visible()
    press(page, "Changes")
    expect(text.locator("ins")).to_have_text("30")
    press(page, "Side by side")
    expect(text.locator("del")).to_have_text("20")
    live(page).get_by_label("From", exact=True).select_option("the version before")
    live(page).get_by_label("To", exact=True).select_option("v1, created by lead agent")
    press(page, "Compare")
    expect(text).to_contain_text("nothing → v1: 19 lines added")
    assert page.errors == []
    assert page.foreign_requests() == []


def test_draft_survives_a_new_version_of_a_run(page: LabPage) -> None:
    """Typed text stays when a run adds a version; saving is refused first, then possible on top of the version."""
    press(page, "Edit")
    field = live(page).get_by_label("Text of version 2")
    expect(field).to_be_focused()
    field.press("Control+Home")
    field.press_sequentially("Changed by hand. ")
    page.run_cell(2)
    page.wait_done(2)
    expect(live(page)).to_contain_text("Version 3 by lead agent was written meanwhile")
    assert field.input_value().startswith("Changed by hand. # Checking backups")
    save_pictures(page, live(page), "artifact-panel-edit")
    press(page, "Save as a new version")
    expect(live(page).get_by_role("alert").filter(has_text="is now at version 3, not 2")).to_be_visible()
    assert field.input_value().startswith("Changed by hand. # Checking backups")
    press(page, "Save my text on top")
    press(page, "Save as a new version")
    expect(live(page).locator(".af-art-titles")).to_contain_text("version 4 · changed by user")
    page.run_cell(3)
    page.wait_done(3)
    expect(page.output(3)).to_have_text("4 user True")


def test_version_is_restored_and_text_exported(page: LabPage) -> None:
    """The buttons restore, rename, copy, insert a cell and download."""
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    live(page).get_by_text("2 versions").click()
    press(page, "Show version 1")
    expect(live(page)).to_contain_text("an earlier version")
    press(page, "Restore version 1 as the newest")
    expect(live(page).locator(".af-art-titles")).to_contain_text("version 3 · restored by user")
    press(page, "Rename")
    title = live(page).get_by_label("Title")
    title.fill("How backups are checked")
    title.press("Enter")
    expect(live(page).locator(".af-art-name")).to_have_text("How backups are checked")
    press(page, "Copy the text")
    page.page.wait_for_function("navigator.clipboard.readText().then((text) => text.startsWith('# Checking backups'))")
    with page.page.expect_download() as downloaded:
        press(page, "Download docx: Word")
    assert downloaded.value.suggested_filename == "research_report.docx"
    cells = page.page.locator(".jp-Notebook .jp-MarkdownCell")
    press(page, "Copy to a cell below this cell")
    expect(cells).to_have_count(1)
    expect(cells).to_contain_text("If the check fails")
    assert page.errors == []


def test_panel_works_with_the_keyboard(page: LabPage) -> None:
    """Every button works with the keyboard, and the focus does not move."""
    live(page).get_by_role("button", name="Raw", exact=True).focus()
    page.page.keyboard.press("Enter")
    expect(live(page).locator(".af-art-raw")).to_be_visible()
    expect(live(page).get_by_role("button", name="Raw", exact=True)).to_be_focused()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    expect(live(page).locator(".af-diff")).to_be_visible()
    press(page, "Edit")
    expect(live(page).get_by_label("Text of version 2")).to_be_focused()
    page.page.keyboard.press("Escape")
    expect(live(page).locator("textarea")).to_have_count(0)
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    press(page, "Side by side")
    live(page).get_by_text("2 versions").click()
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    save_pictures(page, live(page), "artifact-panel-changes")
    press(page, "Edit")
    assert axe_in_both_themes(page, ".af-run.af-live") == []


def test_panel_fits_into_a_narrow_output(page: LabPage) -> None:
    """On a small screen the list is above the text, and nothing is wider than the output."""
    page.page.set_viewport_size({"width": 620, "height": 900})
    page.command("application:toggle-left-area")
    press(page, "Changes")
    press(page, "Side by side")
    box = live(page).bounding_box()
    assert box is not None
    assert live(page).evaluate("node => node.scrollWidth <= node.clientWidth + 1")
    save_pictures(page, live(page), "artifact-panel-narrow")
    page.command("application:toggle-left-area")


def test_saved_panel_is_readable_without_a_kernel(page: LabPage) -> None:
    """The saved notebook has the artifacts with their texts and versions, and no widget."""
    expect(page.output(1).locator(".af-host")).to_have_count(1)
    (output,) = page.saved_outputs(1)
    assert set(output["data"]) == {"text/plain", "text/html"}
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(1).locator(".af-run.af-saved")
    expect(saved).to_contain_text("If the check fails")
    expect(saved.locator("button:not(.af-copy-code)")).to_have_count(0)
    saved.get_by_text("2 versions").click()
    expect(saved).to_contain_text("changed by user")
    save_pictures(page, saved, "artifact-panel-saved")
