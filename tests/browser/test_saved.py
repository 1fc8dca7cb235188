"""The saved output of every component: reopened, in a new kernel, exported, without a network."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser.cells import WIDGET_ERRORS
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.windows import Windows
from execution import export_html
from markdown_it import MarkdownIt
from playwright.sync_api import BrowserContext, Page, expect

from artifactflow_nb.widgets.page.saved import copy_script

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDGET = "application/vnd.jupyter.widget-view+json"
STILL_RUNNING = "still running when this was saved"
HTML, PLAIN = "text/html", "text/plain"

SETUP = '''import asyncio
import artifactflow_nb as af
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.core.toolcalls.xml import format_call

SCRIPTS = {
    "How are backups checked?": [
        "I write it down." + format_call("create_artifact", {
            "id": "checks", "title": "Checking backups",
            "content": "# Checks\\n\\nA restore **each month**.\\n\\n```python\\nif ok:\\n\\n    *rest\\n```"}),
        "By a test restore **each month**: see the report."],
    "Send the letter?": ["I ask first." + format_call("send", {"to": "the board"}), "The letter is sent."],
    "What takes long?": ["I think first." + format_call("ponder", {"hours": 2}), "Thinking took long."],
}

def script(request):
    """The next turn for a question."""
    replies = [message for message in request.messages if message.role == "assistant"]
    prompt = "".join(message.content for message in request.messages)
    (turns,) = [turns for question, turns in SCRIPTS.items() if question in prompt]
    return turns[min(len(replies), len(turns) - 1)]

def open_workbench(hour_s):
    """A workbench whose tool `ponder` takes `hour_s` seconds for an hour."""
    wb = af.Workbench(model=af.ScriptedModel(script), approvals={"create_artifact": "approve", "send": "ask"})

    @wb.tool(permission="confirm")
    async def send(ctx: ToolContext, to: str) -> str:
        """Send the letter."""
        return f"sent to {to}"

    @wb.tool(idempotent=True, timeout_s=None)
    async def ponder(ctx: ToolContext, hours: int) -> str:
        """Think for long."""
        await asyncio.sleep(hours * hour_s)
        return "thought"

    return wb

'''
ASK = f"""{SETUP}wb = open_workbench(300)
finished = wb.ask("How are backups checked?").wait()
waiting = wb.ask("Send the letter?").wait()
running = wb.ask("What takes long?")
print(finished.status, waiting.status)"""
AGAIN = f"""{SETUP}wb = open_workbench(0)
ids = {{question: run_id for question, run_id in wb.runs_df()[["question", "run_id"]].itertuples(index=False)}}
print(sorted(run.status for run in wb.runs()))"""

DISPLAYED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "finished run": ("finished", ("How are backups checked?", "By a test restore"), ("Checking backups",)),
    "waiting run": ("waiting", ("Send the letter?", "send", "wb.pending()"), ("the board", ").approve(")),
    "running run": ("running", ("What takes long?", STILL_RUNNING), ("Ponder",)),
    "finished view": ("finished.panel", ("How are backups checked?", "By a test restore"), ()),
    "running view": ("running.panel", ("What takes long?", STILL_RUNNING), ("Ponder",)),
    "chat": ("wb.chat(finished)", ("How are backups checked?", "By a test restore"), ("Checking backups",)),
    "waiting chat": ("wb.chat(waiting)", ("Send the letter?", "wb.pending() shows the buttons"), ("the board",)),
    "running chat": ("wb.chat(running)", ("What takes long?", STILL_RUNNING), ("Ponder",)),
    "empty chat": ("wb.chat()", ("Nothing has been asked yet.",), ()),
    "tree": ("wb.tree(finished)", ("How are backups checked?",), ("By a test restore",)),
    "artifacts": ("wb.artifact_panel(finished)", ("Checking backups",), ("each month",)),
    "timeline": ("wb.timeline(finished)", ("How are backups checked?", "tool call"), ()),
    "running timeline": ("wb.timeline(running)", ("What takes long?", "tool call", STILL_RUNNING), ()),
    "workbench": ("wb", ("Workbench",), ("How are backups checked?",)),
    "pending": ("wb.pending()", ("send",), ("the board",)),
    "conversations": ("wb.conversations()", ("How are backups checked?", "Send the letter?", "What takes long?"), ()),
    "a run's artifacts": ("finished.artifacts", ("Checking backups", "checks"), ()),
}
"""Displays by name: the source of the cell, words in every form, and further words in HTML."""
NAMES = list(DISPLAYED)


_FETCHED = {"src", "srcset", "poster", "background", "xlink:href"}


class ActiveParts(HTMLParser):
    """The addresses that a browser loads to display some HTML, and its active elements except the buttons that copy."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "button" and ("onclick", copy_script()) in attrs:
            return
        if tag in {"script", "button", "form", "iframe", "object", "embed", "link", "base", "meta", "input"}:
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name.startswith("on") or name == "data-act":
                self.found.append(f"{name}={value}")
            if name in _FETCHED and not (value or "").startswith("data:"):
                self.found.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.found += re.findall(r"@import[^;]*|url\((?!['\"]?(?:data:|#))[^)]*\)", data)


@pytest.fixture(scope="module")
def saved(lab: LabServer, windows: Windows) -> Path:
    """A notebook with every component, saved while one run waits and one is running; its kernel is shut down."""
    again = [AGAIN, 'wb.run(ids["How are backups checked?"]).panel', "wb.pending()", "wb.run(wb.pending()[0].run_id)",
             'wb.run(ids["What takes long?"]).panel', "wb.timeline(ids['What takes long?'])"]  # fmt: skip
    page = windows.open(new_notebook(lab, ASK, *(source for source, *_ in DISPLAYED.values()), *again), lab)
    page.open()
    page.run_cell(0)
    expect(page.output(0)).to_have_text("completed waiting", timeout=SOON_MS)
    for cell, _ in enumerate(DISPLAYED, start=1):
        page.run_cell(cell)
        page.wait_done(cell)
    for name in ("running run", "running view", "running chat", "running timeline"):
        expect(page.visible_run(cell_of(name)).first).to_contain_text("Ponder", timeout=SOON_MS)
    page.page.wait_for_timeout(1500)  # until the outputs are in the notebook
    page.saved_outputs(0)
    assert page.errors == []
    assert page.foreign_requests() == []
    page.shutdown_kernel()
    windows.release(page, reuse=True)
    return lab.root / page.name


def cell_of(name: str) -> int:
    return 1 + NAMES.index(name)


def outputs(notebook: Path, name: str) -> list[Any]:
    found: list[Any] = nbformat.read(notebook, as_version=4).cells[cell_of(name)].outputs
    return found


def without_markup(html: str) -> str:
    html = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


@pytest.mark.parametrize("name", NAMES)
def test_each_output_is_text(saved: Path, name: str) -> None:
    """An output contains the same words as text and HTML, without active elements and loaded addresses."""
    (output,) = outputs(saved, name)
    data = output.data
    assert WIDGET not in data
    assert set(data) == {HTML, PLAIN}
    _, words, more = DISPLAYED[name]
    for media_type in data:
        text = without_markup(data[media_type]) if media_type == HTML else data[media_type]
        expected = words if media_type == PLAIN else (*words, *more)
        assert [word for word in expected if word not in text] == [], (media_type, text[:3000])
        assert ActiveParts(data[media_type]).found == [], media_type


def assert_displayed(page: LabPage) -> None:
    """Every component is readable, without buttons, errors and foreign requests."""
    for name, (_, words, _) in DISPLAYED.items():
        output = page.output(cell_of(name))
        expect(output).to_have_count(1)
        for word in words:
            expect(output).to_contain_text(word)
    text = page.page.locator("body").inner_text()
    assert [error for error in WIDGET_ERRORS if error in text] == []
    assert page.page.locator(".af-run button:not(.af-copy-code):visible").count() == 0
    assert page.errors == []
    assert page.foreign_requests() == []


def test_saved_notebook_is_readable_without_a_kernel(saved: Path, open_page: OpenPage) -> None:
    """In an untrusted copy of the file, without a kernel, each component is readable."""
    shutil.copy(saved, saved.with_name("elsewhere.ipynb"))
    page = open_page(f"{saved.parent.name}/elsewhere.ipynb")
    page.open_elsewhere()
    page.page.wait_for_timeout(1000)
    assert_displayed(page)


def test_new_kernel_continues_saved_runs(saved: Path, open_page: OpenPage) -> None:
    """Saved outputs stay readable; new live views ask one run again, approve one run and resume one run."""
    page = open_page(f"{saved.parent.name}/run.ipynb")
    page.open()
    assert_displayed(page)
    first = 1 + len(DISPLAYED)
    page.run_cell(first)
    expect(page.output(first)).to_have_text("['abandoned', 'completed', 'waiting']", timeout=SOON_MS)

    page.run_cell(first + 1)
    alone = page.visible_run(first + 1)
    alone.get_by_role("button", name="ask this again").click(timeout=SOON_MS)
    expect(alone).to_contain_text("2 / 2", timeout=SOON_MS)
    expect(alone).to_contain_text("By a test restore", timeout=SOON_MS)

    page.run_cell(first + 2)
    expect(page.output(first + 2)).to_contain_text("the board", timeout=SOON_MS)
    page.run_cell(first + 3)
    asking = page.visible_run(first + 3)
    asking.get_by_role("button", name="Approve send").click(timeout=SOON_MS)
    expect(asking.locator(".af-answer")).to_contain_text("The letter is sent.", timeout=SOON_MS)

    for cell in (first + 4, first + 5):
        page.run_cell(cell)
        expect(page.visible_run(cell)).to_contain_text("Abandoned: its process has ended", timeout=SOON_MS)
    lost = page.visible_run(first + 4)
    lost.get_by_role("button", name="Resume: continue the abandoned run").click()
    expect(lost.locator(".af-answer")).to_contain_text("Thinking took long.", timeout=SOON_MS)
    expect(page.visible_run(first + 5)).to_contain_text("Completed", timeout=SOON_MS)
    assert page.errors == []
    assert page.foreign_requests() == []


def nbconvert(into: Path, form: str, *notebooks: Path) -> list[Path]:
    """Convert notebooks with nbconvert's default settings."""
    command = [sys.executable, "-m", "nbconvert", "--to", form, "--output-dir", str(into), *map(str, notebooks)]
    subprocess.run(command, check=True, capture_output=True)
    return [into / notebook.with_suffix({"html": ".html", "markdown": ".md"}[form]).name for notebook in notebooks]


@pytest.fixture
def offline(context: BrowserContext) -> Page:
    """A page without a network."""
    context.set_offline(True)
    return context.new_page()


def requested_addresses(page: Page, html: Path) -> set[str]:
    """Open a page; return the addresses that it requests from elsewhere."""
    addresses: set[str] = set()

    def note(request: Any) -> None:
        addresses.add(request.url)

    page.on("request", note)
    page.goto(html.as_uri())
    page.wait_for_timeout(500)
    page.remove_listener("request", note)
    return {address for address in addresses if not address.startswith(("data:", "blob:", "file:"))}


def assert_readable(page: Page) -> None:
    """Every component is in the page, and its folds open and close by keyboard."""
    body = page.locator("body")
    for _, words, _ in DISPLAYED.values():
        for word in words:
            expect(body).to_contain_text(word)
    expect(page.locator(".af-tree-view ul.af-branches, .af-run ul.af-branches").first).to_be_visible()
    expect(page.locator(".af-timeline svg").first).to_be_visible()
    fold = page.locator(".af-run details.af-work").first
    was_open = fold.evaluate("node => node.open")
    fold.locator("summary").first.focus()
    for is_open in (not was_open, was_open):
        page.keyboard.press("Enter")
        assert fold.evaluate("node => node.open") is is_open
    assert not [words for words in WIDGET_ERRORS if words in body.inner_text()]


def test_html_export_needs_no_network(saved: Path, tmp_path: Path, offline: Page) -> None:
    """The export is readable like the notebook, and the browser sends no request."""
    copy = Path(shutil.copy(saved, tmp_path))
    html = export_html(copy)
    assert requested_addresses(offline, html) == set()
    assert_readable(offline)
    offline.screenshot(path=tmp_path / "export.png", full_page=True)


def test_nbconvert_to_html_is_readable(saved: Path, tmp_path: Path, offline: Page) -> None:
    """Converted by nbconvert alone, the page requests no more addresses than an empty notebook."""
    empty = tmp_path / "empty.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), empty)
    of_empty, addresses = (requested_addresses(offline, page) for page in nbconvert(tmp_path, "html", empty, saved))
    assert addresses <= of_empty
    assert_readable(offline)


def test_nbconvert_to_markdown_is_readable(saved: Path, tmp_path: Path, offline: Page) -> None:
    """The HTML of saved outputs stays HTML in a Markdown page and does not appear as text."""
    [converted] = nbconvert(tmp_path, "markdown", saved)
    text = converted.read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(f"<meta charset='utf-8'>{MarkdownIt('commonmark').enable('table').render(text)}", encoding="utf-8")
    assert requested_addresses(offline, page) == set()
    assert_readable(offline)
    assert not re.search(r"</?(div|span|p|pre|details|table|svg)\b", offline.locator("body").inner_text())
