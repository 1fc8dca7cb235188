"""A notebook with many runs: its size, and a run that streams below them; `bench/many_runs.py` measures the page."""

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
wb.sources.add("handbook")"""
ASK = 'wb.ask("How are backups checked, and what happens if the check fails? (%d)")'
STREAM = """model = af.ScriptedModel(["One sentence of the answer. " * 200], chunk_chars=24, delay_s=0.02)
slow = af.Workbench(model=model, data_dir="slow")
slow.ask("How long does it take?")"""


def test_thirty_runs_are_small_and_another_streams_below_them(lab: LabServer, open_page: OpenPage) -> None:
    """30 saved runs take at most 1 MB; another run is shown while it streams, and saved when it has ended."""
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
    page.run_cell(N_RUNS + 1)
    expect(page.output(N_RUNS + 1).locator(".af-answer")).to_contain_text("One sentence", timeout=20_000)
    page.wait_saved(N_RUNS + 1, "Completed")
    assert page.errors == []
