"""The metrics panel in JupyterLab: group, sort, filter, open a run, the call in a cell; live, by keyboard, saved."""

from pathlib import Path

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
TESTS = Path(__file__).parents[1]


def setup(language: str = "en") -> str:
    return f"""import sys
sys.path.insert(0, {str(TESTS)!r})
from support.metric_rows import add_run, CallRow, fill
import artifactflow_nb as af

book = af.Workbench(data_dir="metrics", model=af.ScriptedModel(["It rises."]), interactive=True, language={language!r})
book._thread.call(book._thread.engine.database.write(fill))"""


SHOW = "panel = book.metrics()\npanel"
ADD = """from datetime import UTC, datetime
row = CallRow("writer", "small", (70_000, 500), latency=5.0, cost=1.0, at=datetime.now(UTC))
_ = book._thread.call(book._thread.engine.database.write(lambda db: add_run(db, 99, [row], question="Newest?")))"""


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def open_notebook(lab: LabServer, open_page: OpenPage, language: str = "en") -> LabPage:
    page = open_page(new_notebook(lab, setup(language), SHOW, ADD))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    expect(live(page).get_by_role("table")).to_be_visible(timeout=SOON_MS)
    return page


def names(panel: Locator) -> list[str]:
    """The names of the displayed groups, in order."""
    return panel.locator("tbody th").all_inner_texts()


def test_table_is_grouped_sorted_and_filtered_by_keyboard(lab: LabServer, open_page: OpenPage) -> None:
    """Each change keeps the focus; axe finds nothing in either theme, and the pictures have no overlaps."""
    page = open_notebook(lab, open_page)
    panel, keyboard = live(page), page.page.keyboard
    for width in (1280, 390):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, panel, f"metrics-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert names(panel) == ["Lead agent", "Search agent"]
    expect(panel.get_by_role("columnheader", name="tokens")).to_have_attribute("aria-sort", "descending")
    cost = panel.get_by_role("button", name="cost")
    cost.focus()
    for order in ("descending", "ascending"):
        keyboard.press("Enter")
        expect(panel.get_by_role("columnheader", name="cost")).to_have_attribute("aria-sort", order, timeout=SOON_MS)
        expect(cost).to_be_focused()
    assert names(panel) == ["Search agent", "Lead agent"]
    group = panel.get_by_label("Group by")
    group.focus()
    group.select_option(label="Run")
    expect(panel.get_by_role("columnheader", name="began")).to_be_visible(timeout=SOON_MS)
    expect(group).to_be_focused()
    for width in (1280, 390):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, panel, f"metrics-run-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    words = panel.get_by_label("Filter by name")
    words.press_sequentially("gauges agree")
    expect(panel.locator("tbody tr")).to_have_count(3, timeout=SOON_MS)
    expect(words).to_be_focused()
    expect(panel.get_by_role("status")).to_have_text("3 rows, sorted by began, descending")
    assert axe_in_both_themes(page) == []
    words.fill("nothing like it")
    expect(panel).to_contain_text("Nothing matches. Empty the filter.", timeout=SOON_MS)


def test_new_calls_appear_without_taking_the_focus(lab: LabServer, open_page: OpenPage) -> None:
    """The field with the focus keeps its text, and the table its scroll position."""
    page = open_notebook(lab, open_page)
    panel = live(page)
    page.page.set_viewport_size({"width": 390, "height": 900})
    box = panel.get_by_role("group", name="Metrics")
    box.evaluate("node => (node.scrollLeft = 60)")
    heading = panel.get_by_role("button", name="tokens")
    heading.evaluate("node => node.focus({ preventScroll: true })")
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2")
    page.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-below'); }")
    expect(panel.locator("tbody tr")).to_have_count(3, timeout=SOON_MS)
    assert names(panel) == ["Lead agent", "Writer", "Search agent"]
    assert box.evaluate("node => node.scrollLeft") == 60


def test_group_shows_its_runs_and_a_run_its_conversation(lab: LabServer, open_page: OpenPage) -> None:
    """Enter opens a group and a run; the button that leads back returns the focus to the run."""
    page = open_notebook(lab, open_page)
    panel, keyboard = live(page), page.page.keyboard
    panel.get_by_role("button", name="Search agent: show the runs").focus()
    keyboard.press("Enter")
    expect(panel.locator("tbody tr")).to_have_count(12, timeout=SOON_MS)
    expect(panel.get_by_role("button", name="Agent: Search agent: show all groups again")).to_be_visible()
    save_pictures(page, panel, "metrics-within")
    run = panel.get_by_role("button", name="Write it up.").first
    run.focus()
    keyboard.press("Enter")
    expect(panel.locator(".af-turn").last).to_contain_text("Write it up.", timeout=SOON_MS)
    panel.get_by_role("button", name="‹ Metrics").press("Enter")
    expect(panel.get_by_role("button", name="Write it up.").first).to_be_focused(timeout=SOON_MS)
    panel.get_by_role("button", name="Agent: Search agent: show all groups again").press("Enter")
    expect(panel.locator("tbody tr")).to_have_count(2, timeout=SOON_MS)


def test_cell_with_the_call_gives_the_table_and_the_notebook_keeps_it(lab: LabServer, open_page: OpenPage) -> None:
    """The inserted cell names the variable of the workbench; the saved table reads without a kernel."""
    page = open_notebook(lab, open_page)
    panel = live(page)
    panel.get_by_role("button", name="cost").press("Enter")
    expect(panel.get_by_role("columnheader", name="cost")).to_have_attribute("aria-sort", "descending", timeout=SOON_MS)
    panel.get_by_label("Filter by name").fill("lead")
    expect(panel.locator("tbody tr")).to_have_count(1, timeout=SOON_MS)
    panel.get_by_role("button", name="As DataFrame").press("Enter")
    expect(page.cells).to_have_count(4, timeout=SOON_MS)
    expect(page.cells.nth(2)).to_contain_text("book.metrics_df(by='agent', search='lead', sort='cost_usd')")
    page.run_cell(2)
    page.wait_done(2)
    frame = page.output(2)
    expect(frame.locator("tbody tr")).to_have_count(1, timeout=SOON_MS)
    for text in ("lead_agent", "77612", "3590.0", "0.2296"):
        expect(frame).to_contain_text(text)
    expect(panel).to_contain_text("about 77,600")
    expect(panel).to_contain_text("3.6 s")
    expect(panel).to_contain_text("about 0.23 USD")
    page.page.wait_for_timeout(1500)  # until the panel is saved again
    page.save()
    page.shutdown_kernel()
    page.open_elsewhere()
    saved = page.output(1).locator(".af-saved:visible")
    expect(saved).to_contain_text("about 77,600", timeout=SOON_MS)
    expect(saved).to_contain_text("book.metrics_df(by='agent', search='lead', sort='cost_usd')")
    save_pictures(page, saved, "metrics-saved")
    assert axe_in_both_themes(page) == []


def test_chinese_panel(lab: LabServer, open_page: OpenPage) -> None:
    """All texts of the panel are Chinese."""
    page = open_notebook(lab, open_page, "zh")
    panel = live(page)
    expect(panel.get_by_role("columnheader", name="词元")).to_have_attribute("aria-sort", "descending")
    expect(panel.get_by_label("分组", exact=True)).to_be_visible()
    save_pictures(page, panel, "metrics-zh")
