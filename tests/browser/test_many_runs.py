"""A notebook with many runs: its size, and how long its page is busy while another run streams."""

import shutil
from pathlib import Path

import pytest
from browser.conftest import OpenPage
from browser.lab import CELL_TIMEOUT_MS, LabServer, write_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

N_RUNS = 30
MAX_SAVED_BYTES = 1_000_000
SETUP = """import artifactflow_nb as af

wb = af.Workbench(approvals="approve", data_dir="many")
wb.add_sources("handbook")"""
ASK = 'wb.ask("How are backups checked, and what happens if the check fails? (%d)")'
STREAM = """model = af.ScriptedModel(["One sentence of the answer. " * 200], chunk_chars=24, delay_s=0.02)
slow = af.Workbench(model=model, data_dir="slow")
slow.ask("How long does it take?")"""
WATCH_LONG_TASKS = """() => {
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration)))
        .observe({ type: "longtask" });
}"""


def test_thirty_runs_are_small_and_do_not_block_the_page(lab: LabServer, open_page: OpenPage) -> None:
    """30 saved runs take at most 1 MB, and no task of the page lasts 100 ms while another run streams."""
    (lab.root / "many").mkdir()
    shutil.copytree(Path(__file__).parents[2] / "data" / "handbook", lab.root / "many" / "handbook")
    name = "many/many.ipynb"
    write_notebook(lab, name, [SETUP, *(ASK % number for number in range(N_RUNS)), STREAM])
    page = open_page(name)
    page.open()
    page.cells.first.locator(".jp-InputArea-editor").click()
    for _ in range(N_RUNS + 1):
        page.page.keyboard.press("Shift+Enter")  # runs the cell and goes to the next
    saved = page.page.locator(".af-saved:visible").filter(has_text="Completed")
    expect(saved).to_have_count(N_RUNS, timeout=CELL_TIMEOUT_MS)
    page.save()
    page.page.wait_for_timeout(1000)
    assert (lab.root / name).stat().st_size <= MAX_SAVED_BYTES
    page.page.evaluate(WATCH_LONG_TASKS)
    page.run_cell(N_RUNS + 1)
    expect(page.output(N_RUNS + 1).locator(".af-answer")).to_contain_text("One sentence", timeout=20_000)
    page.wait_saved(N_RUNS + 1, "Completed")
    assert max(page.page.evaluate("() => window.longTasks"), default=0) <= 100
    assert page.errors == []
