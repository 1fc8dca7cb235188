"""The documentation notebooks, run in JupyterLab and approved with clicks."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

REPOSITORY = Path(__file__).parents[2]
PANELS = {
    "02_tools_and_approvals": ("Ordered: 2 x probe.",),
    "03_branching": (
        "Who is told when a disk is full?",
        "Ask. @ refers to a source, / lists commands. Enter asks, Shift+Enter adds a line.",
    ),
    "04_artifacts": ("4 versions",),
    "05_metrics_and_plots": ("How are backups checked?",),
    "06_record_and_replay": ("How are backups checked?",),
    "07_fork_and_compare": ("Does the north station need new batteries?",),
    "08_plan_and_execute": ("plan: 3 of 4 steps, 1 failed",),
    "09_compose": ("4 completed · 2 stale",),
}
"""One text of each view of a notebook."""

ALL_HAVE_RUN = r"""() => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((node) => node.textContent);
    return prompts.every((prompt) => /\[\d+\]/.test(prompt));
}"""
ALL_PICTURES = (
    """() => [...document.querySelectorAll(".jp-MarkdownOutput img")].every((image) => image.naturalWidth > 0)"""
)
EMPTY_VIEWS = """() => [...document.querySelectorAll(".af-run")]
    .filter((view) => view.checkVisibility() && !view.innerText.trim())
    .map((view) => `${view.outerHTML.slice(0, 300)} below ${view.closest(".jp-Cell")?.innerText.slice(0, 100)}`)"""


def copy_with_data(server: LabServer) -> str:
    """Create a notebook on the server, with the data that notebooks read; return its path."""
    for folder in ("data", "docs", "tests/browser/screenshots"):
        shutil.copytree(REPOSITORY / folder, server.root / folder, dirs_exist_ok=True)
    return new_notebook(server)


def without_outputs(server: LabServer, name: str) -> str:
    """Copy a notebook without its outputs to the server; return its path."""
    notebook = nbformat.read(REPOSITORY / "notebooks" / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    place = copy_with_data(server)
    nbformat.write(notebook, server.root / place)
    return place


def complaints(page: LabPage) -> list[str]:
    """Warnings and errors in the outputs; after an error JupyterLab does not run the following cells."""
    written = page.page.locator("[data-mime-type$='jupyter.stderr'], [data-mime-type$='jupyter.error']")
    return written.all_inner_texts()


def run_and_approve(page: LabPage) -> int:
    """Run all cells and approve every request; return the number of approvals."""
    page.run_all()
    clicks, deadline = 0, time.monotonic() + 90
    while not page.page.evaluate(ALL_HAVE_RUN):
        assert complaints(page) == []
        assert time.monotonic() < deadline, "Some cells had not run after 90 s."
        asking = page.page.locator(".af-approval .af-primary:enabled")
        if asking.count():
            asking.first.click()
            clicks += 1
        page.page.wait_for_timeout(250)
    page.wait_idle()
    return clicks


def test_quickstart_notebook_runs(lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """Every cell of notebooks/01_quickstart.ipynb runs in the browser, each question approved with a click."""
    name = copy_with_data(lab)
    shutil.copy(REPOSITORY / "notebooks" / "01_quickstart.ipynb", lab.root / name)
    page = open_page(name)
    page.open()
    page.run_all()
    page.approve_until_done()
    expect(page.page.locator(".af-saved .af-artifact").first).to_contain_text("Sources")
    assert complaints(page) == []
    assert page.errors == []
    assert page.foreign_requests() == []


@pytest.mark.parametrize("name", PANELS)
def test_documentation_notebook_runs(name: str, lab: LabServer, open_page: Callable[[str], LabPage]) -> None:
    """Every cell runs, only one notebook needs an approval, every picture is loaded, and no view is empty."""
    page = open_page(without_outputs(lab, name))
    page.page.set_viewport_size({"width": 1280, "height": 9000})  # JupyterLab draws only cells within the window
    page.open()
    assert run_and_approve(page) == (1 if name == "02_tools_and_approvals" else 0)
    views = page.page.locator(".af-run:visible")
    for text in PANELS[name]:
        shown = views.get_by_text(text).or_(views.get_by_placeholder(text))
        expect(shown.filter(visible=True).first).to_be_visible(timeout=20_000)
    deadline = time.monotonic() + 20
    while empty := page.page.evaluate(EMPTY_VIEWS):
        assert time.monotonic() < deadline, empty
        page.page.wait_for_timeout(100)
    page.page.wait_for_function(ALL_PICTURES, timeout=20_000)
    assert complaints(page) == []
    assert page.errors == []
    assert page.foreign_requests() == []
