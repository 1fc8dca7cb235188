"""Runs whose kernel is busy, interrupted, restarted or gone, and whose page is reloaded or open twice."""

import re
import time

import pytest
from browser.cells import ASK, ASK_AT_ONCE, ASK_SLOWLY, AWAIT, BROKEN, COMPUTE, HURRY, QUESTION, TELLING
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDGET = "application/vnd.jupyter.widget-view+json"


def approve_button(page: LabPage, cell: int = 0) -> Locator:
    return page.output(cell).get_by_role("button", name="Approve create_artifact")


def assert_readable(page: LabPage) -> None:
    shown = page.page.locator("body").inner_text()
    assert not [words for words in BROKEN if words in shown]
    assert QUESTION in shown


def test_a_click_while_ipykernel_6_computes_is_heard_afterwards(lab6: LabServer, open_page: OpenPage) -> None:
    """A kernel of ipykernel 6.31 hears a page only between two cells: the card says that it waits for the kernel."""
    page = open_page(new_notebook(lab6, ASK_AT_ONCE, COMPUTE), lab6)
    page.open()
    page.run_cell(0)
    expect(approve_button(page)).to_be_visible(timeout=SOON_MS)
    page.run_cell(1)
    approve_button(page).click()
    expect(approve_button(page)).to_be_disabled(timeout=2000)
    expect(page.output(0).locator(".af-approval:visible")).to_contain_text("Waiting for the kernel")
    assert not page.output(1).count(), "The cell ended too early to tell."
    page.beside("enough").touch()
    expect(page.output(1)).to_have_text("computed True", timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_text_is_shown_while_ipykernel_6_computes(lab6: LabServer, open_page: OpenPage) -> None:
    """What the kernel says gets through while a cell computes, also where nothing that the page says does."""
    page = open_page(new_notebook(lab6, ASK_SLOWLY, COMPUTE), lab6)
    page.open()
    page.run_all()
    live = page.run_shown(0)
    expect(live).to_contain_text("Paragraph 1 ", timeout=SOON_MS)
    lengths = {0}
    deadline = time.monotonic() + SOON_MS / 1000
    while len(lengths) < 5 and time.monotonic() < deadline:
        lengths.add(len(live.inner_text()))
        page.page.wait_for_timeout(100)
    assert len(lengths) >= 5, lengths
    assert not page.output(1).count(), "The cell ended too early to tell."
    page.beside("enough").touch()
    expect(page.output(1)).to_have_text("computed True", timeout=SOON_MS)


def test_a_click_is_heard_in_an_awaiting_cell(lab: LabServer, open_page: OpenPage) -> None:
    """With ipykernel 7 a cell that awaits the run goes on waiting for the click, and ends with the run."""
    page = open_page(new_notebook(lab, ASK_AT_ONCE, AWAIT))
    page.open()
    page.run_all()
    expect(approve_button(page)).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(3000)  # longer than a page is given to answer
    assert not page.output(1).count()
    approve_button(page).click()
    expect(page.output(1)).to_have_text("completed after some time", timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_an_awaiting_cell_does_not_hold_up_ipykernel_6(lab6: LabServer, open_page: OpenPage) -> None:
    """With ipykernel 6.31, which hears no click while a cell awaits, the cell comes back, and the click is heard."""
    page = open_page(new_notebook(lab6, ASK_AT_ONCE, AWAIT), lab6)
    page.open()
    page.run_all()
    expect(page.output(1)).to_have_text("waiting after some time", timeout=SOON_MS)
    approve_button(page).click()
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)


def test_a_reload_in_mid_stream_loses_nothing(lab: LabServer, open_page: OpenPage) -> None:
    """After a reload the text goes on from its beginning, and the notebook saved afterwards has the frozen form."""
    page = open_page(new_notebook(lab, ASK.replace("delay_s=0.03", "delay_s=0.1"), HURRY))
    page.open()
    page.run_cell(0)
    expect(page.run_shown(0)).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    page.saved_outputs(0)
    page.open()
    run = page.run_shown(0)
    expect(run).to_contain_text("Paragraph 0 ", timeout=SOON_MS)
    before = run.inner_text()
    expect(run).not_to_have_text(before, use_inner_text=True, timeout=SOON_MS)
    assert len(run.inner_text()) > len(before)
    page.run_cell(1)
    approve_button(page).click(timeout=SOON_MS)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("It is written.", timeout=SOON_MS)
    [output] = page.saved_outputs(0)
    assert "af-saved" in output.data["text/html"]
    assert "It is written." in output.data["text/html"]
    assert "It is written." in output.data["text/markdown"]
    assert WIDGET not in output.data
    assert page.foreign_requests() == []


def test_two_tabs_show_one_run(lab: LabServer, open_page: OpenPage) -> None:
    """Two windows on one notebook both follow the run; an approval in one takes the card away in the other."""
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
        expect(page.run_shown(0).locator(".af-answer")).to_contain_text("It is written.", timeout=SOON_MS)
        assert_readable(page)


@pytest.mark.parametrize("kernel", ["lab", "lab6"])
def test_an_interrupt_stops_the_cell_and_not_the_run(
    kernel: str, request: pytest.FixtureRequest, open_page: OpenPage
) -> None:
    """Stop ends the awaiting cell within a second or two; the run goes on to its end."""
    server: LabServer = request.getfixturevalue(kernel)
    page = open_page(new_notebook(server, ASK_SLOWLY, AWAIT, HURRY), server)
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
    live = page.run_shown(0)
    expect(live).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    started = time.monotonic()
    page.interrupt_kernel()
    expect(page.output(1).first).to_contain_text(re.compile("KeyboardInterrupt|Cancelled"), timeout=SOON_MS)
    assert time.monotonic() - started < 3
    before = len(live.inner_text())
    page.page.wait_for_timeout(1500)
    assert len(live.inner_text()) > before
    page.run_cell(2)
    expect(page.output(0).locator(".af-saved:visible")).to_contain_text("Paragraph 39 ", timeout=40_000)


def test_a_waiting_run_survives_a_restart(lab: LabServer, open_page: OpenPage) -> None:
    """After a restart the output can still be read, and the new kernel lists the request and lets the run go on."""
    again = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel(["It is written."]))
[request] = wb.pending()
print([run.status for run in wb.unfinished()], request.tool)"""
    goes_on = "run = await wb.approve(request.id)\nprint(run.status, len(run.artifacts))"
    page = open_page(new_notebook(lab, ASK_AT_ONCE, again, goes_on, "run"))
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


def test_a_streaming_run_is_resumed_after_a_restart(lab: LabServer, open_page: OpenPage) -> None:
    """A run that was cut off in mid-stream is listed as interrupted by the new kernel, which can go on with it."""
    again = f"""{TELLING}wb = af.Workbench(model=af.ScriptedModel(["Told once more."]))
[run] = wb.unfinished()
print(run.status)"""
    page = open_page(new_notebook(lab, ASK_SLOWLY, again, "await run.resume()\nprint(run.status)"))
    page.open()
    page.run_cell(0)
    expect(page.run_shown(0)).to_contain_text("Paragraph 3 ", timeout=SOON_MS)
    page.restart_kernel()
    page.page.wait_for_timeout(500)
    assert_readable(page)
    page.run_cell(1)
    expect(page.output(1)).to_have_text("interrupted", timeout=SOON_MS)
    page.run_cell(2)
    expect(page.output(2)).to_have_text("completed", timeout=SOON_MS)


def test_reduced_motion_stops_animations(lab: LabServer, open_page: OpenPage) -> None:
    """The mark of a running run pulses, but not if the system asks for less motion."""
    page = open_page(new_notebook(lab, ASK_SLOWLY), new=True)
    page.open()
    page.run_cell(0)
    mark = page.output(0).locator(".af-live .af-mark.af-running").first
    expect(mark).to_be_visible(timeout=SOON_MS)
    moving = "() => document.getAnimations().filter((one) => one.effect.target.closest('.af-run')).length"
    assert page.page.evaluate(moving)
    page.page.emulate_media(reduced_motion="reduce")
    assert page.page.evaluate(moving) == 0
