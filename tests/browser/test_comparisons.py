"""Comparisons and the timeline in JupyterLab: one design at every width, in both themes, live and saved."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from browser.windows import Windows
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDTHS = (1280, 800)
HEIGHT = 6000
"""Room for all cells: JupyterLab does not draw cells outside the window."""

SETUP = """import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

def delegate(words):
    return ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": f"Find {words}."})

def write(text):
    return ToolCall("create_artifact", {"id": "report", "title": "Context managers", "content": text})

one = "# Context managers\\n\\nThey call `__exit__` when the block ends.\\n\\nAn exception goes on.\\n"
two = one.replace("goes on", "is *replaced* by another") + "".join(f"\\nLine {i}.\\n" for i in range(9))
wb = af.Workbench(
    data_dir="compared",
    approvals="approve",
    prices={"scripted": af.Price(input=1, output=2)},
    model=af.ScriptedModel([
        delegate("what exceptions do"), "They go on.", write(one), "They call **__exit__**, whatever happens.",
        delegate("what exceptions do"), "They are replaced.", write(two), "They call **__exit__** in each case.",
    ], delay_s=0.02),
)
first = wb.ask("How do context managers end, and what happens to an exception?").wait(20)
second = wb.conversation(first).regenerate().wait(20)
second.artifacts["report"].edit(two + "By hand.\\n")
compared = af.compare(first, second)"""
CELLS = {
    "runs": "compared",
    "step": "compared.first_difference",
    "versions": "second.artifacts['report'].diff(1, 2, layout='side_by_side')",
    "branches": "wb.tree(second)",
    "panel": "wb.artifact_panel(second)",
    "timeline": "wb.timeline(second)",
}
DIFFERENCES = ("runs", "step", "versions", "branches", "panel")
TABLES = ("runs", "branches", "timeline")

LOOK = """(node, names) => {
    const style = getComputedStyle(node);
    return names.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; ");
}"""
"""The computed values of some properties."""
INK = ["color", "background-color", "font-family", "font-size", "text-decoration-line"]
CELL = ["color", "background-color", "font-family", "font-size", "padding", "border-bottom", "text-align"]

OPEN_FOLDS = "() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })"
CUT = """node => [...node.querySelectorAll(".af-table-box, .af-drawing, .af-art-table")]
    .filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.textContent)"""
"""Texts of the boxes that are wider than their panel."""


def shown(page: LabPage, name: str) -> Locator:
    return page.visible_run(1 + list(CELLS).index(name))


def looks(places: list[Locator], names: list[str]) -> set[Any]:
    return {place.first.evaluate(LOOK, names) for place in places}


def width_of(panel: Locator) -> float:
    box = panel.bounding_box()
    assert box
    return box["width"]


@pytest.fixture(scope="module")
def notebook(windows: Windows, lab: LabServer) -> Iterator[LabPage]:
    """A notebook with all comparisons and the timeline, live, with open folds."""
    page = windows.open(new_notebook(lab, SETUP, *CELLS.values()), lab)
    page.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    page.open()
    page.run_all()
    for cell in range(1 + len(CELLS)):
        page.wait_done(cell)
    expect(shown(page, "branches").get_by_role("treeitem")).to_have_count(2, timeout=SOON_MS)
    shown(page, "branches").get_by_role("treeitem").last.click()
    shown(page, "branches").get_by_role("button", name="Compare with variant 1").click()
    shown(page, "panel").get_by_role("button", name="Changes", exact=True).click()
    shown(page, "panel").get_by_role("button", name="Side by side").click()
    expect(shown(page, "branches").locator(".af-tree-read .af-diff").first).to_be_visible(timeout=SOON_MS)
    expect(shown(page, "panel").locator(".af-diff-side-by-side")).to_be_visible(timeout=SOON_MS)
    page.page.evaluate(OPEN_FOLDS)
    yield page
    windows.release(page, reuse=False)


def test_comparisons_have_one_design(notebook: LabPage) -> None:
    """Headings, tables and differences look the same in all comparisons, and fit into the page; axe finds nothing."""
    page = notebook
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": HEIGHT})
        page.page.wait_for_timeout(600)
        for light in (True, False):
            page.theme(light=light)
            page.page.wait_for_timeout(300)  # until the colours of both themes have changed
            differences = [shown(page, name).locator(".af-diff") for name in DIFFERENCES]
            for css in ("td.af-diff-ins", ".af-diff-said"):
                assert len(looks([each.locator(css) for each in differences], INK)) == 1
            words = [shown(page, name).locator(".af-diff del") for name in ("runs", "versions", "branches")]
            assert len(looks(words, INK)) == 1
            tables = [shown(page, name).locator(".af-table") for name in TABLES]
            tables[1] = shown(page, "branches").locator(".af-tree-read .af-table")
            for css in ("tbody th[scope=row]", "thead th"):
                assert len(looks([each.locator(css).last for each in tables[:2]], CELL)) == 1
            assert len(looks([each.locator("tbody th[scope=row]") for each in tables], CELL)) == 1
            headings = [shown(page, name).locator(".af-question").first for name in ("runs", "step")]
            headings.append(shown(page, "branches").locator(".af-tree-head .af-question"))
            assert len(looks(headings, [*INK, "font-weight"])) == 1
        assert len({width_of(shown(page, name)) for name in ("runs", "step", "versions", "timeline")}) == 1
        for name in CELLS:
            assert shown(page, name).evaluate(CUT) == [], (name, width)
            save_pictures(page, shown(page, name), f"comparison-{name}-{width}")
    assert axe_in_both_themes(page) == []
    assert page.errors == []


def test_saved_comparisons_have_one_design(notebook: LabPage, chromium: Browser, tmp_path: Path) -> None:
    """In a page of nbconvert, comparisons and the timeline keep their design and fit, at each width and theme."""
    page = notebook
    page.page.wait_for_timeout(1500)  # until the panels are saved
    page.save()
    page.page.wait_for_timeout(500)
    for theme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(17, 17, 17)")):
        command = [sys.executable, "-m", "nbconvert", "--to", "html", f"--HTMLExporter.theme={theme}"]
        folder = ["--output-dir", str(tmp_path), "--output", theme, str(page.server.root / page.name)]
        subprocess.run([*command, *folder], check=True, capture_output=True)
        for width in WIDTHS:
            exported = chromium.new_page(viewport=ViewportSize(width=width, height=1000))
            exported.goto((tmp_path / f"{theme}.html").as_uri())
            exported.evaluate(OPEN_FOLDS)
            assert exported.evaluate("() => getComputedStyle(document.body).backgroundColor") == ground
            _check_exported(exported)
            exported.close()
    page.shutdown_kernel()
    page.open_elsewhere()
    for name in ("runs", "step", "versions"):
        expect(shown(page, name).locator("ins").first).to_be_attached()
    expect(shown(page, "runs")).to_contain_text("Comparison of two runs")
    expect(shown(page, "timeline")).to_contain_text("Write artifact")


def _check_exported(page: Page) -> None:
    cells = dict(zip(CELLS, page.locator(".jp-CodeCell").all()[1:], strict=True))
    differences = [cells[name].locator(".af-diff") for name in ("runs", "step", "versions", "panel")]
    assert len(looks([each.locator("td.af-diff-ins") for each in differences], INK)) == 1
    tables = [cells[name].locator(".af-table") for name in ("runs", "timeline")]
    assert len(looks([each.locator("tbody th[scope=row]") for each in tables], CELL)) == 1
    for name in ("runs", "step", "versions", "timeline"):
        assert cells[name].locator(".af-run").first.evaluate(CUT) == [], name
    assert len({width_of(cells[name].locator(".af-run").first) for name in ("runs", "step", "versions")}) == 1
