"""Runs with a busy, interrupted or restarted kernel, and with a reloaded page or two pages."""

import re

import pytest
from browser.cells import (
    AS_WIDGETS,
    ASK,
    ASK_AT_ONCE,
    ASK_SLOWLY,
    AWAIT,
    COMPUTE,
    QUESTION,
    REPLIES,
    STOP_DELAYS,
    WIDGET_ERRORS,
)
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, expect_growth, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDGET = "application/vnd.jupyter.widget-view+json"


def approve_button(page: LabPage, cell: int = 0) -> Locator:
    return page.output(cell).get_by_role("button", name="Approve write artifact")


def assert_readable(page: LabPage) -> None:
    text = page.page.locator("body").inner_text()
    assert not [error for error in WIDGET_ERRORS if error in text]
    assert QUESTION in text


@pytest.mark.parametrize("mode", ["", AS_WIDGETS], ids=["page", "widget"])
def test_click_takes_effect_after_the_cell_in_ipykernel_6(mode: str, lab6: LabServer, open_page: OpenPage) -> None:
    """Ipykernel 6.31 receives clicks only between two cells: until then card and view say that the kernel is busy."""
    page = open_page(new_notebook(lab6, mode + ASK_AT_ONCE, COMPUTE), lab6)
    page.open()
    page.run_cell(0)
    expect(approve_button(page)).to_be_visible(timeout=SOON_MS)
    page.run_cell(1)
    approve_button(page).click()
    expect(approve_button(page)).to_be_disabled(timeout=2000)
    expect(page.output(0).locator(".af-approval:visible")).to_contain_text("Waiting for the kernel")
    expect(page.visible_run(0)).to_contain_text(
        "A cell is running: the kernel performs your action as soon as it is free."
    )
    assert not page.output(1).count(), "The cell ended too early for this test."
    page.file_in_folder("enough").touch()
    expect(page.output(1)).to_have_text("computed True", timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_text_streams_while_ipykernel_6_computes(lab6: LabServer, open_page: OpenPage) -> None:
    """Text reaches the page while a cell computes, also in a kernel that receives no messages meanwhile."""
    page = open_page(new_notebook(lab6, ASK_SLOWLY, COMPUTE), lab6)
    page.open()
    page.run_all()
    live = page.visible_run(0)
    expect(live).to_contain_text("Paragraph 1 ", timeout=SOON_MS)
    expect_growth(live, 4)
    assert not page.output(1).count(), "The cell ended too early for this test."
    page.file_in_folder("enough").touch()
    expect(page.output(1)).to_have_text("computed True", timeout=SOON_MS)


def test_awaiting_cell_receives_the_click(lab: LabServer, open_page: OpenPage) -> None:
    """With ipykernel 7 a cell that awaits the run shows the request, and ends with the run after the click."""
    page = open_page(new_notebook(lab, ASK_AT_ONCE, AWAIT))
    page.open()
    page.run_all()
    expect(approve_button(page)).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(3000)  # longer than DISCONNECT_AFTER_S in page/stream.py
    expect(page.output(1).locator(".af-approval")).to_be_visible()
    approve_button(page).click()
    expect(page.output(1).last).to_have_text("awaited completed", timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_awaiting_cell_returns_in_ipykernel_6(lab6: LabServer, open_page: OpenPage) -> None:
    """Ipykernel 6.31 receives no click while a cell awaits, so the cell returns, and then the click takes effect."""
    page = open_page(new_notebook(lab6, ASK_AT_ONCE, AWAIT), lab6)
    page.open()
    page.run_all()
    expect(page.output(1)).to_have_text("awaited waiting", timeout=SOON_MS)
    approve_button(page).click()
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_reload_during_a_stream_loses_no_text(lab: LabServer, open_page: OpenPage) -> None:
    """After a reload the whole text is displayed and continues; the notebook contains the saved output afterwards."""
    page = open_page(new_notebook(lab, ASK.replace("delay_s=0.06", "delay_s=0.6"), STOP_DELAYS))
    page.open()
    page.run_cell(0)
    expect(page.visible_run(0)).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    page.saved_outputs(0)
    page.open()
    run = page.visible_run(0)
    expect(run).to_contain_text("Paragraph 0 ", timeout=SOON_MS)
    expect_growth(run)
    page.run_cell(1)
    approve_button(page).click(timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)
    [output] = page.saved_outputs(0)
    assert "af-saved" in output.data["text/html"]
    assert "It is written." in output.data["text/html"]
    assert WIDGET not in output.data
    assert page.foreign_requests() == []


def test_two_tabs_show_one_run(lab: LabServer, open_page: OpenPage) -> None:
    """Two windows of one notebook both display the run; an approval in one removes the card from the other."""
    name = new_notebook(lab, ASK_AT_ONCE)
    first = open_page(name)
    first.open()
    first.run_cell(0)
    expect(approve_button(first)).to_be_visible(timeout=SOON_MS)
    first.saved_outputs(0)
    second = open_page(name)
    second.open()
    expect(approve_button(second)).to_be_visible(timeout=SOON_MS)
    expect(approve_button(first)).to_be_visible()
    approve_button(second).click()
    for page in (second, first):
        expect(page.output(0).locator(".af-approval:visible")).to_have_count(0, timeout=SOON_MS)
        expect(page.visible_run(0).locator(".af-answer")).to_contain_text("It is written.", timeout=SOON_MS)
        assert_readable(page)


@pytest.mark.parametrize("kernel", ["lab", "lab6"])
def test_interrupt_stops_the_cell_and_not_the_run(
    kernel: str, request: pytest.FixtureRequest, open_page: OpenPage
) -> None:
    """Stop ends the awaiting cell; the run continues to its end."""
    server: LabServer = request.getfixturevalue(kernel)
    page = open_page(new_notebook(server, ASK_SLOWLY, AWAIT, STOP_DELAYS), server)
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
    live = page.visible_run(0)
    expect(live).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    page.interrupt_kernel()
    expect(page.output(1).first).to_contain_text(re.compile("KeyboardInterrupt|Cancelled"), timeout=SOON_MS)
    expect_growth(live)
    page.run_cell(2)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("Paragraph 39 ", timeout=40_000)


def test_waiting_run_survives_a_restart(lab: LabServer, open_page: OpenPage) -> None:
    """After a restart the output is readable, and the new kernel lists the request and continues the run."""
    again = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel(["It is written."]))
[request] = wb.pending()
print([run.status for run in wb.runs(unfinished=True)], request.tool)"""
    approve = "run = await wb.run(request.run_id).approve()\nprint(run.status, len(run.artifacts))"
    page = open_page(new_notebook(lab, ASK_AT_ONCE, again, approve, "run"))
    page.open()
    page.run_cell(0)
    expect(approve_button(page)).to_be_visible(timeout=SOON_MS)
    page.restart_kernel()
    page.page.wait_for_timeout(500)
    assert_readable(page)
    page.run_cell(1)
    expect(page.output(1)).to_have_text("['waiting'] create_artifact", timeout=SOON_MS)
    page.run_cell(2)
    expect(page.output(2)).to_have_text("completed 1", timeout=SOON_MS)
    page.run_cell(3)
    expect(page.output(3).locator(".af-saved:visible .af-answer")).to_contain_text("It is written.", timeout=SOON_MS)
    assert_readable(page)


def test_streaming_run_is_resumed_after_a_restart(lab: LabServer, open_page: OpenPage) -> None:
    """The new kernel lists a run that was streaming as abandoned, and can resume it."""
    again = f"""{REPLIES}wb = af.Workbench(model=af.ScriptedModel(["The second answer."]))
[run] = wb.runs(unfinished=True)
print(run.status)"""
    page = open_page(new_notebook(lab, ASK_SLOWLY, again, "await run.resume()\nprint(run.status)"))
    page.open()
    page.run_cell(0)
    expect(page.visible_run(0)).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    page.restart_kernel()
    page.page.wait_for_timeout(500)
    assert_readable(page)
    page.run_cell(1)
    expect(page.output(1)).to_have_text("abandoned", timeout=SOON_MS)
    page.run_cell(2)
    expect(page.output(2)).to_have_text("completed", timeout=SOON_MS)


def test_reduced_motion_stops_animations(lab: LabServer, open_page: OpenPage) -> None:
    """The mark of a running run pulses, but not if the system prefers reduced motion."""
    page = open_page(new_notebook(lab, ASK_SLOWLY), new=True)
    page.open()
    page.run_cell(0)
    mark = page.output(0).locator(".af-live .af-mark.af-running").first
    expect(mark).to_be_visible(timeout=SOON_MS)
    moving = "() => document.getAnimations().filter((animation) => animation.effect.target.closest('.af-run')).length"
    assert page.page.evaluate(moving)
    page.page.emulate_media(reduced_motion="reduce")
    assert page.page.evaluate(moving) == 0
