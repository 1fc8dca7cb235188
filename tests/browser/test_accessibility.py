"""axe-core finds nothing in any panel, light and dark: a new panel is added to the table.

What is found in elements of the front end itself is left to the front end: axe is given ours. All rules are on. The
pages of the server, which are ours as a whole, are in test_server_page.py, and those in the side panel in
test_research_panel.py.
"""

from collections.abc import Iterator

import pytest
from browser.axe import axe, axe_in_both_themes, lines
from browser.conftest import OpenPage
from browser.lab import LabServer, new_notebook
from browser.servers import marimo_server
from browser.test_looks import TALL
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

SOON_MS = 30_000
SETUP = """import time
import ipywidgets
import artifactflow_nb as af
report = {"id": "report", "title": "Ferries", "content": "# Ferries\\n\\nAt nine, $x^2$."}
written, changed = af.ToolCall("create_artifact", report), af.ToolCall("rewrite_artifact", {**report, "content": "No."})
wb = af.Workbench(
    data_dir="data",
    model=af.ScriptedModel([written, "It is **ready**.", "At nine.", "At ten.", changed, "Done."]),
    approvals={"create_artifact": "approve", "rewrite_artifact": "ask"},
    prices={"scripted": af.Price(input=1, output=2)},
)
run = wb.ask("When does the ferry leave?").wait(20)
other = wb.ask("And when does it return?").wait(20)
again = wb.conversation(other).regenerate().wait(20)
waiting = wb.ask("Change the report.", conversation_id=run.conversation_id)
while not waiting.pending:
    time.sleep(0.05)
project = wb.projects.start("How fast does the sea rise?", template="paper")
project.add("Aim", "Say how fast the sea rises at our coast.", phase="question", need_review=True)
"""
PANELS = {
    "home": "wb.home()",
    "chat": "wb.chat(run)",
    "tree": "wb.tree()",
    "artifacts": "wb.artifact_panel(run)",
    "timeline": "wb.timeline(waiting)",
    "board": "project.board()",
    "run": "waiting.panel",
    "metrics": "wb.metrics()",
}
"""The panels, which layouts take as well. A new one gets a line here."""
OUTPUTS = {
    "approvals": "wb.pending()",
    "run view": "waiting",
    "ended run": "other",
    "comparison": "af.compare(other, again)",
    "conversations": "wb.conversations()",
    "runs": "wb.runs()",
    "artifact": "run.artifacts",
}
"""What else cells display."""
LAYOUT = f"ipywidgets.VBox([{', '.join(PANELS.values())}])"


def in_notebook(cells: tuple[str, ...], n_views: int, lab: LabServer, open_page: OpenPage) -> list[str]:
    """The violations in the outputs of cells in both themes."""
    page = open_page(new_notebook(lab, SETUP, *cells))
    page.page.set_viewport_size(TALL)
    page.open()
    page.run_all()
    page.wait_done(len(cells))
    page.page.wait_for_function(f"document.querySelectorAll('.af-live').length >= {n_views}", timeout=SOON_MS)
    if home := page.page.get_by_role("button", name="Connect a model").all():
        home[0].click()
        expect(page.page.get_by_role("textbox", name="Endpoint")).to_be_visible(timeout=SOON_MS)
    found = axe_in_both_themes(page, ".af-run, .af-card")
    assert page.errors == []
    return found


def test_panels_in_cells(lab: LabServer, open_page: OpenPage) -> None:
    """axe-core finds nothing in any panel or other output, nor in the form that connects a model."""
    cells = tuple({**PANELS, **OUTPUTS}.values())
    found = in_notebook(cells, len(PANELS) + 2, lab, open_page)
    assert not found, "\n\n".join(found)


def test_panels_in_a_layout(lab: LabServer, open_page: OpenPage) -> None:
    """axe-core finds nothing in the panels of one box of ipywidgets."""
    found = in_notebook((LAYOUT,), len(PANELS), lab, open_page)
    assert not found, "\n\n".join(found)


@pytest.fixture(scope="module")
def marimo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of marimo with a cell for each panel; it has the theme of the browser."""
    home = tmp_path_factory.mktemp("marimo")
    (home / "pyproject.toml").write_text('[tool.marimo.display]\ntheme = "system"\n', encoding="utf-8")
    with marimo_server(home, (SETUP, *PANELS.values())) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_panels_in_marimo(marimo: str, chromium: Browser, scheme: str) -> None:
    """axe-core finds nothing in the panels in the shadow roots of marimo's outputs."""
    page = chromium.new_context(viewport=TALL, color_scheme=scheme).new_page()
    page.goto(marimo)
    expect(page.locator(".cm-editor").first).to_be_visible(timeout=SOON_MS)
    page.keyboard.press("Control+Shift+r")
    views = page.locator(".af-run.af-live")
    expect(views).to_have_count(len(PANELS), timeout=2 * SOON_MS)
    host = page.locator(f".af-host[data-jp-theme-light={str(scheme == 'light').lower()}]")
    expect(host).to_have_count(len(PANELS))
    found = lines(axe(page))
    page.context.close()
    assert not found, "\n\n".join(found)
