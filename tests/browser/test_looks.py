"""Each component in light and dark: nothing serious for axe-core, and a picture of it."""

import shutil
from pathlib import Path

import pytest
from browser.axe import axe, axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, write_notebook
from browser.pictures import save_pictures
from playwright.sync_api import expect

from artifactflow_nb.widgets.assets import stylesheet

pytestmark = pytest.mark.browser

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
ASK = """import artifactflow_nb as af
wb = af.Workbench(approvals={"create_artifact": "ask"})
wb.add_sources("handbook")
run = wb.ask("How are backups checked, and what happens if the check fails?")
run"""
COMPONENTS = {
    "chat": "wb.chat(run)",
    "tree": "wb.tree(run)",
    "artifact_panel": "wb.artifact_panel(run)",
    "timeline": "wb.timeline(run)",
}
"""Each panel of a workbench, and how it is shown once the run has ended."""


def look(page: LabPage, cell: int, name: str) -> list[str]:
    """Save pictures of the run or panel that a cell shows; what axe finds in it."""
    page.page.wait_for_timeout(700)  # a new face has settled
    save_pictures(page, page.run_shown(cell), name)
    return axe_in_both_themes(page, f".jp-CodeCell:nth-of-type({cell + 1}) .af-run")


FLAWED = """from IPython.display import HTML
HTML('<div class="af-run"><button></button><p style="color: #bbb; background: #fff">Pale words.</p></div>')"""


RESTYLED = """(css) => {
    const parts = [...document.querySelectorAll(".af-run.af-live, .af-run.af-live *")];
    const styles = () => parts.map((part) => {
        const style = getComputedStyle(part);
        return [...style].map((name) => style.getPropertyValue(name)).join(";");
    });
    const before = styles();
    const again = document.createElement("style");
    again.textContent = css;
    document.body.append(again);
    const after = styles();
    again.remove();
    const names = parts.map((part) => `${part.tagName} ${part.getAttribute("class")}`);
    return [...new Set(names.filter((_name, i) => before[i] !== after[i]))];
}"""
"""The live elements that look otherwise once a style sheet is in the page again, behind all others."""


def test_axe_sees_what_is_wrong(lab: LabServer, open_page: OpenPage) -> None:
    """A button without a name and pale text are told, within the panels of JupyterLab too."""
    write_notebook(lab, "flawed.ipynb", [FLAWED])
    page = open_page("flawed.ipynb")
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    expect(page.output(0)).to_contain_text("Pale words.")
    assert {violation["id"] for violation in axe(page)} == {"button-name", "color-contrast"}


def test_components_are_accessible_and_pictured(lab: LabServer, open_page: OpenPage) -> None:
    """A run that waits, a finished one, and every panel over it: no serious violation, in light and in dark."""
    (lab.root / "looks").mkdir()
    shutil.copytree(HANDBOOK, lab.root / "looks" / "handbook")
    write_notebook(lab, "looks/run.ipynb", [ASK, *COMPONENTS.values()])
    page = open_page("looks/run.ipynb")
    page.open()
    page.run_cell(0)
    approve = page.output(0).get_by_role("button", name="Approve create_artifact")
    expect(approve).to_be_visible(timeout=20_000)
    found = {"run-waiting": look(page, 0, "run-waiting")}
    approve.click()
    expect(page.output(0).locator(".af-frozen:visible")).to_be_visible(timeout=20_000)
    found["run"] = look(page, 0, "run")
    for cell, name in enumerate(COMPONENTS, start=1):
        page.run_cell(cell)
        page.wait_done(cell)
        found[name] = look(page, cell, name)
    told = [f"{name}, {violation}" for name, violations in found.items() for violation in violations]
    assert not told, "\n\n".join(told)


def test_what_else_the_notebook_shows_changes_no_look(lab: LabServer, open_page: OpenPage) -> None:
    """The saved faces in a page bring style sheets of their own; with and without them a live panel looks the same."""
    (lab.root / "styles").mkdir()
    asked = f"{ASK.splitlines()[0]}\nwb = af.Workbench(approvals='approve')\nrun = wb.ask('What does del do?').wait()"
    live = [shown for name, shown in COMPONENTS.items() if name != "timeline"]
    write_notebook(lab, "styles/run.ipynb", [asked, *live])
    page = open_page("styles/run.ipynb")
    page.open()
    for cell in range(len(live) + 1):
        page.run_cell(cell)
        page.wait_done(cell)
    page.output(1).get_by_role("button", name="Conversations").click()
    page.output(2).get_by_role("treeitem").first.click()
    page.output(3).get_by_role("button", name="Edit").click()
    page.page.wait_for_timeout(700)  # a new face has settled
    for names in ((), ("chat.css",), ("diff.css", "artifact_panel.css"), ("tree_view.css",), ("timeline.css",)):
        assert page.page.evaluate(RESTYLED, stylesheet(*names)) == [], names
