"""Each component in light and dark, closed and with all its forms open: axe-core finds no serious violation."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.axe import COLOUR_RULES, axe, axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from browser.windows import Windows
from playwright.sync_api import Locator, ViewportSize, expect

from artifactflow_nb.core.text.panels import stylesheet

pytestmark = pytest.mark.browser

SOON_MS = 20_000
TALL: ViewportSize = {"width": 1280, "height": 6000}
"""Room for all cells: JupyterLab does not draw cells outside the window."""

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
ASK = """import artifactflow_nb as af
wb = af.Workbench(approvals={"create_artifact": "ask"})
wb.sources.add("handbook")
run = wb.ask("How are backups checked, and what happens if the check fails?")
run"""
COMPONENTS = {
    "chat": "wb.chat(run)",
    "tree": "wb.tree(run)",
    "artifact_panel": "wb.artifact_panel(run)",
    "timeline": "wb.timeline(run)",
}
"""The cell that displays each panel of a workbench after the run."""


FLAWED = """from IPython.display import HTML
HTML('<div class="af-run"><button></button><p style="color: #bbb; background: #fff">Pale words.</p></div>')"""

SETUP = """import tempfile
from typing import Annotated, Literal

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.xml import format_call


def write(tool, text):
    return format_call(tool, {"id": "report", "title": "Context managers", "content": text})


def letter(to):
    return ToolCall("send", {"to": to, "body": f"Dear {to},\\n\\nit works.", "cc": ["Bob"]})


one = "# Context managers\\n\\nThey call `__exit__` when the block ends.\\n\\nAn exception goes on.\\n"
two = one.replace("goes on", "is *replaced* by another") + "".join(f"\\nLine {i}.\\n" for i in range(30))
wb = af.Workbench(
    data_dir=tempfile.mkdtemp(),
    approvals={"rewrite_artifact": "approve"},
    prices={"scripted": af.Price(input=1, output=2)},
    model=af.ScriptedModel([
        write("create_artifact", one), "They call **__exit__**, whatever happens.",
        write("rewrite_artifact", two), "The exception goes on after `__exit__`, unless it returns true.",
        write("rewrite_artifact", two + "More.\\n"), "The new exception replaces the old one, which is its context.",
        [letter("Eve"), letter("Mallory"), ToolCall("send", {})], "One letter was sent.",
        [letter("Ada"), letter("Grace")], "Both were sent.",
    ]),
)


@wb.tool(permission="confirm")
def send(
    ctx: af.ToolContext,
    to: Annotated[str, "Who gets the letter."],
    body: Annotated[str, "Its text, as it is printed."],
    copies: int = 1,
    urgent: Annotated[bool, "Whether it goes today."] = False,
    paper: Literal["plain", "ruled"] = "plain",
    cc: Annotated[list[str], "Who else gets it."] = [],
    headers: dict[str, int] | None = None,
    note: str | None = None,
) -> str:
    "Send a letter."
    return f"sent to {to}"


first = wb.ask("How do context managers end?").wait(20)
second = wb.ask("And if __exit__ raises an exception of its own?", conversation_id=first.conversation_id).wait(20)
third = wb.conversation(second).regenerate().wait(20)
old = wb.ask("Send two letters.").wait(20)
eve, mallory = old.pending
old.deny("Not to Eve.", eve.id).approve(mallory.id, params={**mallory.params, "copies": 2}).wait(20)
run = wb.ask("Send two more.")
run"""
"""Two branches that wrote one artifact, a finished run with two answered questions, one that waits for two answers."""

CHARTS = "wb.timeline(first)"
OTHERS = """display(wb, wb.conversations(), wb.pending(), old, second.artifacts, second.artifacts["report"].diff(1, 2))
for frame in (wb.runs_df(), llm, tools, wb.approvals_df(), wb.events_df()):
    display(frame.head(3))"""
CARDS, CHAT, TREE, PANEL, TIMELINE, PLOTTED, REST = range(7)
CELLS = (
    SETUP, "wb.chat(third)", "wb.tree(third)", "wb.artifact_panel(third)", "wb.timeline(old)", CHARTS, OTHERS,
)  # fmt: skip
OURS = ".af-run, .af-card, .dataframe"
"""All output of the package."""

RESTYLED = """(sheets) => {
    const within = document.querySelectorAll(".af-run.af-live, .af-run.af-live *");
    const path = (part) => {
        const name = `${part.tagName} ${part.getAttribute("class") ?? ""}`;
        return part.matches(".af-run.af-live") ? name : `${path(part.parentElement)} > ${name}`;
    };
    const kinds = new Map([...within].map((part) => [path(part), part]));
    const add = (css) => {
        const sheet = document.createElement("style");
        sheet.textContent = css;
        document.body.append(sheet);
        return sheet;
    };
    const rules = (group) => [...group.cssRules].flatMap((rule) => [rule, ...(rule.cssRules ? rules(rule) : [])]);
    const names = new Set(sheets.flatMap((css) => {
        const sheet = add(css);
        const named = rules(sheet.sheet).flatMap((rule) => [...(rule.style ?? [])]);
        sheet.remove();
        return named;
    }));
    const styles = () => [...kinds.values()].map((part) => {
        const style = getComputedStyle(part);
        return [...names].map((name) => style.getPropertyValue(name).replaceAll(" ", "")).join(";");
    });
    const before = styles();
    return sheets.map((css) => {
        const sheet = add(css);
        const after = styles();
        sheet.remove();
        return [...kinds.keys()].filter((_kind, i) => before[i] !== after[i]);
    });
}"""
"""The kinds of live elements whose styles change when a style sheet is added, for each style sheet."""


@pytest.fixture(scope="module")
def notebook(windows: Windows, lab: LabServer) -> Iterator[LabPage]:
    """A notebook with a waiting run, the panels over a conversation of two branches, charts and frames."""
    page = windows.open(new_notebook(lab, *CELLS), lab)
    page.page.set_viewport_size(TALL)
    page.open()
    page.run_all()
    for cell in range(len(CELLS)):
        page.wait_done(cell)
    expect(page.output(CARDS).locator(".af-live .af-approval")).to_have_count(2, timeout=SOON_MS)
    expect(page.output(PLOTTED).locator("svg:visible")).to_have_count(1, timeout=SOON_MS)
    for cell in (CHAT, TREE, PANEL):
        expect(page.output(cell).locator(".af-live")).to_be_visible(timeout=SOON_MS)
    yield page
    windows.release(page, reuse=False)


def picture(page: LabPage, cell: int, name: str) -> None:
    """Save pictures of the run or panel that a cell shows."""
    expect(page.visible_run(cell)).to_be_visible(timeout=SOON_MS)
    save_pictures(page, page.visible_run(cell), name)


def button(page: LabPage, cell: int, name: str) -> Locator:
    return page.output(cell).get_by_role("button", name=name, exact=True)


def open_folds(page: LabPage) -> None:
    page.page.evaluate("() => document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")


def open_forms(page: LabPage) -> None:
    """Open two cards, the forms of a question and a title, the list of conversations, a raw text and every fold."""
    button(page, CARDS, "Edit parameters send").first.click()
    button(page, CARDS, "Instruct instead send").last.click()
    button(page, CHAT, "Conversations").click()
    button(page, CHAT, "Edit this question and ask again").last.click()
    page.output(TREE).get_by_role("treeitem").last.click()
    button(page, TREE, "Rename this conversation").click()
    button(page, PANEL, "Raw").click()
    expect(page.output(CHAT).get_by_label("Edit the question")).to_be_visible(timeout=SOON_MS)
    expect(page.output(TREE).get_by_label("Rename this conversation").locator("input")).to_be_visible(timeout=SOON_MS)
    expect(page.output(TREE).locator(".af-tree-read .af-answer")).to_be_visible(timeout=SOON_MS)
    expect(page.output(PANEL).locator(".af-art-raw")).to_be_visible(timeout=SOON_MS)
    open_folds(page)


def answer_and_change(page: LabPage) -> None:
    """Approve with a form, start to delete a conversation, and display changes inline."""
    button(page, CARDS, "Approve with these values").click()
    button(page, TREE, "Keep the title").click()
    button(page, TREE, "Delete this conversation").click()
    button(page, PANEL, "Changes").click()
    expect(page.output(TREE).get_by_role("alertdialog")).to_be_visible(timeout=SOON_MS)
    expect(page.output(PANEL).locator(".af-diff")).to_be_visible(timeout=SOON_MS)
    expect(page.output(CARDS).locator(".af-live .af-approval")).to_have_count(1, timeout=SOON_MS)


def compare(page: LabPage) -> None:
    """Compare two branches and two versions side by side."""
    button(page, TREE, "Keep").click()
    button(page, TREE, "Compare with variant 1").click()
    button(page, PANEL, "Side by side").click()
    expect(page.output(TREE).locator(".af-tree-read .af-table")).to_be_visible(timeout=SOON_MS)
    expect(page.output(PANEL).locator(".af-diff-side-by-side")).to_be_visible(timeout=SOON_MS)
    open_folds(page)


def edit_and_choose(page: LabPage) -> None:
    """Start to choose the second question of a comparison, search conversations, and edit a text."""
    button(page, TREE, "Close the comparison").click()
    button(page, TREE, "Compare with another question").click()
    page.output(TREE).get_by_role("textbox", name="Search conversations").fill("exception")
    page.page.keyboard.press("Enter")
    button(page, PANEL, "Edit").click()
    expect(page.output(TREE).locator(".af-tree-notice")).to_be_visible(timeout=SOON_MS)
    expect(page.output(TREE).locator(".af-tree-found")).to_be_visible(timeout=SOON_MS)
    expect(page.output(PANEL).locator("textarea")).to_be_visible(timeout=SOON_MS)


def test_axe_finds_planted_violations(lab: LabServer, open_page: OpenPage) -> None:
    """A button without a name and pale text are reported, also within the panels of JupyterLab."""
    page = open_page(new_notebook(lab, FLAWED))
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    expect(page.output(0)).to_contain_text("Pale words.")
    assert {violation["id"] for violation in axe(page.page)} == {"button-name", "color-contrast"}
    assert {violation["id"] for violation in axe(page.page, rules=COLOUR_RULES)} == {"color-contrast"}


def test_components_are_accessible_and_pictured(lab: LabServer, open_page: OpenPage) -> None:
    """A waiting run, a finished run and every panel have no serious violation, in light and in dark."""
    name = new_notebook(lab, ASK, *COMPONENTS.values())
    shutil.copytree(HANDBOOK, (lab.root / name).with_name("handbook"))
    page = open_page(name)
    page.page.set_viewport_size(TALL)
    page.open()
    page.run_cell(0)
    approve = page.output(0).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=SOON_MS)
    picture(page, 0, "run-waiting")
    found = axe_in_both_themes(page)
    approve.click()
    expect(page.output(0).locator(".af-saved:visible")).to_be_visible(timeout=SOON_MS)
    picture(page, 0, "run")
    for cell, name in enumerate(COMPONENTS, start=1):
        page.run_cell(cell)
        page.wait_done(cell)
        picture(page, cell, name)
    found += axe_in_both_themes(page)
    assert not found, "\n\n".join(found)


def test_opened_forms_and_comparisons_are_accessible(notebook: LabPage) -> None:
    """Forms, lists, confirmations, comparisons, differences, charts and frames have no serious violation."""
    found = []
    for step in (open_forms, answer_and_change, compare, edit_and_choose):
        step(notebook)
        selector = OURS if step is open_forms else ".af-run.af-live"
        found += [f"{step.__name__}, {violation}" for violation in axe_in_both_themes(notebook, selector)]
    assert not found, "\n\n".join(found)


def test_saved_outputs_do_not_change_live_panels(notebook: LabPage) -> None:
    """The style sheets of saved outputs do not change the styles of a live panel."""
    notebook.page.wait_for_timeout(700)  # for transitions of the opened parts
    names = ((), ("chat.css",), ("diff.css", "artifact_panel.css"), ("tree_view.css",), ("timeline.css",))
    changed = notebook.page.evaluate(RESTYLED, [stylesheet(*each) for each in names])
    assert dict(zip(names, changed, strict=True)) == {each: [] for each in names}
