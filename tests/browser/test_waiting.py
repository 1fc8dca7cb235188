"""Requests find the person: in the awaiting cell, the title of the page, a line in its corner, and `wb.pending()`."""

import re
from collections.abc import Callable

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser
OpenPage = Callable[[str], LabPage]
SOON_MS = 20_000

SETUP = """import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
calls = [ToolCall("send", {"to": name, "body": f"Dear {name}", "cc": []}) for name in ("Ada", "Bob", "Eve")]
replies = [calls, "All letters are sent."]
wb = af.Workbench(data_dir="waiting", model=af.ScriptedModel(replies))

@wb.tool(permission="confirm")
def send(ctx: af.ToolContext, to: str, body: str, cc: list[str] = []) -> str:
    "Send a letter."
    return f"sent to {to}"
"""
ASK = "run = wb.ask('Send the letters.')\nrun"
LATER = f"import asyncio\nawait asyncio.sleep(3)\n{ASK}"
TALL = "from IPython.display import HTML\nHTML('<div style=\"height: 3000px\">A long output</div>')"
COVERS_NOTHING = """() => {
    const line = document.querySelector(".af-attention").getBoundingClientRect();
    return line.top >= document.querySelector(".jp-NotebookPanel").getBoundingClientRect().bottom - 6;
}"""
WAIT = "await run\nprint('The run is', run.status)"


def open_notebook(lab: LabServer, open_page: OpenPage, *cells: str) -> LabPage:
    page = open_page(new_notebook(lab, *cells))
    page.open()
    page.run_all()
    return page


def cards(page: LabPage, cell: int) -> Locator:
    return page.output(cell).locator(".af-live .af-approval")


def test_awaiting_cell_shows_the_requests(lab: LabServer, open_page: OpenPage) -> None:
    """All cells run: the cell that awaits the run shows its cards, and the decision there ends the wait."""
    page = open_notebook(lab, open_page, SETUP, ASK, TALL, WAIT)
    expect(cards(page, 3)).to_have_count(3, timeout=SOON_MS)
    awaiting = page.output(3)
    save_pictures(page, awaiting.locator(".af-live"), "awaiting-cell")
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    page.theme(light=True)
    awaiting.get_by_role("button", name="Approve all 3").click()
    page.wait_done(3)
    expect(awaiting.filter(has_text="The run is completed")).to_be_visible()
    expect(awaiting.filter(has_text="Decided: Run “send”: Ada")).to_be_visible(timeout=SOON_MS)
    expect(page.output(3).locator(".af-live")).to_have_count(0, timeout=SOON_MS)
    expect(page.output(1).locator(".af-saved")).to_contain_text("All letters are sent.", timeout=SOON_MS)
    assert page.errors == []


def test_run_without_a_view_asks_in_the_awaiting_cell(lab: LabServer, open_page: OpenPage) -> None:
    page = open_notebook(lab, open_page, SETUP, "run = await wb.ask('Send the letters.')\nrun.response")
    page.page.mouse.move(0, 0)  # a control that appears under the pointer refuses the first click
    expect(cards(page, 1)).to_have_count(3, timeout=SOON_MS)
    page.output(1).get_by_role("button", name="Approve all 3").click()
    page.wait_done(1)
    expect(page.output(1).filter(has_text="All letters are sent.")).to_be_visible(timeout=SOON_MS)
    assert page.errors == []


def test_page_says_that_a_decision_is_needed(lab: LabServer, open_page: OpenPage) -> None:
    """The title and a line that leads to the card are displayed until the card is in view or decided."""
    page = open_notebook(lab, open_page, SETUP, TALL, LATER, "1")
    page.wait_done(1)
    page.cells.nth(0).scroll_into_view_if_needed()
    expect(page.page).to_have_title(re.compile(r"^\(3 waiting\) "), timeout=SOON_MS)
    line = page.page.locator(".af-attention")
    expect(line).to_contain_text("Waiting for you: Run “send”: Ada (and 2 more)", timeout=SOON_MS)
    save_pictures(page, line, "waiting-line")
    line.get_by_role("button", name="Show").click()
    expect(cards(page, 2).first).to_be_focused()
    expect(cards(page, 2).first).to_be_in_viewport()
    expect(line).to_have_count(0)
    page.page.keyboard.press("d")
    expect(cards(page, 2)).to_have_count(2, timeout=SOON_MS)
    page.output(2).get_by_role("button", name="Deny all 2").click()
    expect(page.page).not_to_have_title(re.compile("waiting"), timeout=SOON_MS)
    assert page.cells.count() == 4
    assert page.errors == []


def test_line_leads_to_the_view_of_the_run(lab: LabServer, open_page: OpenPage) -> None:
    """The line does not lead to the home, which shows the same card first; on a narrow page it covers no cell."""
    page = open_notebook(lab, open_page, f"{SETUP}\nwb", "import asyncio\nawait asyncio.sleep(1)", ASK, TALL, "1")
    expect(cards(page, 2)).to_have_count(3, timeout=SOON_MS)
    expect(cards(page, 0)).to_have_count(3, timeout=SOON_MS)
    page.cells.nth(4).scroll_into_view_if_needed()
    line = page.page.locator(".af-attention")
    page.page.set_viewport_size({"width": 800, "height": 900})
    expect(line).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_function(COVERS_NOTHING, timeout=SOON_MS)
    save_pictures(page, page.page.locator("body"), "waiting-line-800")
    line.get_by_role("button", name="Show").click()
    expect(cards(page, 2).first).to_be_focused(timeout=SOON_MS)
    expect(cards(page, 2).first).to_be_in_viewport()
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert page.errors == []


def test_line_names_the_notebook_and_is_closed(lab: LabServer, open_page: OpenPage) -> None:
    """In another notebook the line says where the request waits; Escape closes the line until another request waits."""
    page = open_notebook(lab, open_page, SETUP, ASK)
    expect(cards(page, 1)).to_have_count(3, timeout=SOON_MS)
    other = new_notebook(lab, "1")
    page.page.evaluate("path => { window.jupyterapp.commands.execute('docmanager:open', { path }); }", other)
    line = page.page.locator(".af-attention")
    expect(line).to_contain_text("Waiting for you in run.ipynb: Run “send”: Ada (and 2 more)", timeout=SOON_MS)
    line.get_by_role("button", name="Show").click()
    expect(cards(page, 1).first).to_be_focused(timeout=SOON_MS)
    page.page.evaluate("path => { window.jupyterapp.commands.execute('docmanager:open', { path }); }", other)
    expect(line).to_be_visible(timeout=SOON_MS)
    page.page.keyboard.press("Escape")
    expect(line).to_have_count(0)
    page.page.wait_for_timeout(1500)
    expect(line).to_have_count(0)
    expect(page.page).to_have_title(re.compile(r"^\(3 waiting\) "))
    assert page.errors == []


def test_setting_turns_the_notices_off(lab: LabServer, open_page: OpenPage) -> None:
    """With `notify=False` a waiting run changes neither title nor corner of the page, and there is no notification."""
    page = open_notebook(lab, open_page, SETUP.replace("data_dir=", "notify=False, data_dir="), ASK, TALL, "1")
    expect(cards(page, 1)).to_have_count(3, timeout=SOON_MS)
    page.cells.nth(3).scroll_into_view_if_needed()
    page.page.wait_for_timeout(2500)
    expect(page.page.locator(".af-attention")).to_have_count(0)
    expect(page.page.locator(".jp-Notification-Status-Text")).to_have_text("0")
    expect(page.page).not_to_have_title(re.compile("waiting"))


def test_saved_code_decides_in_a_new_kernel(lab: LabServer, open_page: OpenPage) -> None:
    """The saved output has code; in a new kernel the code approves, and `wb.pending()` shows cards that work."""
    setup = SETUP.replace("wb =", "import os\nreplies = replies[os.path.exists('asked'):]\nwb =")
    page = open_notebook(lab, open_page, setup, ASK, "wb.pending()", "", "run = wb.runs()[0]\nawait run\nrun.response")
    expect(cards(page, 2)).to_have_count(3, timeout=SOON_MS)
    (saved,) = [output for output in page.saved_outputs(1) if "text/html" in output.get("data", {})]
    codes = re.findall(r"<code>(wb\.run\(.*?\)\.approve\(.*?\))</code>", saved.data["text/html"])
    assert len(codes) == 3
    page.file_in_folder("asked").touch()
    page.restart_kernel()
    expect(page.output(1).locator(".af-saved:visible")).to_contain_text("wb.pending()", timeout=SOON_MS)
    page.run_cell(0)
    page.wait_done(0)
    page.cells.nth(3).locator(".jp-InputArea-editor").click()
    page.page.keyboard.insert_text(codes[0].replace("&quot;", '"') + ";")
    page.page.keyboard.press("Control+Enter")
    page.wait_done(3)
    page.run_cell(2)
    expect(cards(page, 2)).to_have_count(2, timeout=SOON_MS)
    save_pictures(page, page.output(2).locator(".af-live"), "pending")
    assert axe_in_both_themes(page, ".af-live") == []
    page.output(2).get_by_role("button", name="Approve all 2").click()
    expect(page.output(2).locator(".af-live")).to_contain_text("Nothing waits for a decision.", timeout=SOON_MS)
    page.run_cell(4)
    expect(page.output(4).filter(has_text="All letters are sent.")).to_be_visible(timeout=SOON_MS)
    assert page.errors == []


FOCUS = """() => {
    const { activeElement } = document;
    const place = activeElement.closest(".af-run")?.closest(".jp-CodeCell") ? "view" : "elsewhere";
    return `${place}: ${activeElement.className} ${activeElement.innerText.slice(0, 60)}`;
}"""


@pytest.mark.parametrize("show", ["run", "wb.pending()", "wb"])
def test_keys_of_the_card_never_reach_the_notebook(lab: LabServer, open_page: OpenPage, show: str) -> None:
    """In each view of a request, repeated `a` and `d` keep the focus in the view and neither add nor delete a cell."""
    page = open_notebook(
        lab, open_page, SETUP, "run = wb.ask('Send the letters.');", "import asyncio\nawait asyncio.sleep(1)", show
    )
    page.wait_done(3)
    expect(cards(page, 3)).to_have_count(3, timeout=SOON_MS)
    cards(page, 3).first.focus()
    for n_left, keys in ((2, "aa"), (1, "dd"), (0, "ddd")):
        for key in keys:
            page.page.keyboard.press(key)
        expect(cards(page, 3)).to_have_count(n_left, timeout=SOON_MS)
        page.page.wait_for_timeout(600)
        assert page.page.evaluate(FOCUS).startswith("view: ")
    page.page.wait_for_timeout(2000)  # the run ends, and what is saved replaces the view
    for key in "aaddd":
        page.page.keyboard.press(key)
    assert page.page.evaluate(FOCUS).startswith("view: ")
    assert page.cells.count() == 4
    assert page.errors == []
