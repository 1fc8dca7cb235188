"""What stays of every component when a notebook is saved: reopened, in a new kernel, exported, without network."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser.cells import BROKEN
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.windows import Windows
from markdown_it import MarkdownIt
from playwright.sync_api import BrowserContext, Page, expect

from artifactflow_nb.export import export_html

pytestmark = pytest.mark.browser

SOON_MS = 20_000
WIDGET = "application/vnd.jupyter.widget-view+json"
STILL_RUNNING = "still running when this was saved"
HTML, MARKDOWN, PLAIN = "text/html", "text/markdown", "text/plain"

BEGIN = '''import asyncio
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
    """What the question's script says next."""
    said = [message for message in request.messages if message.role == "assistant"]
    (turns,) = [turns for asked, turns in SCRIPTS.items() if any(asked in one.content for one in request.messages)]
    return turns[min(len(said), len(turns) - 1)]

def begin(hours_s):
    """The workbench of this notebook, whose tool ponders so many seconds for an hour."""
    wb = af.Workbench(model=af.ScriptedModel(script), approvals={"create_artifact": "approve", "send": "ask"})

    @wb.tool(permission="confirm")
    async def send(ctx: ToolContext, to: str) -> str:
        """Send the letter."""
        return f"sent to {to}"

    @wb.tool(idempotent=True, timeout_s=None)
    async def ponder(ctx: ToolContext, hours: int) -> str:
        """Think for long."""
        await asyncio.sleep(hours * hours_s)
        return "thought"

    return wb

'''
ASK = f"""{BEGIN}wb = begin(300)
finished = wb.ask("How are backups checked?").wait()
waiting = wb.ask("Send the letter?").wait()
running = wb.ask("What takes long?")
print(finished.status, waiting.status)"""
AGAIN = f"""{BEGIN}wb = begin(0)
ids = {{question: run_id for question, run_id in wb.runs_df()[["question", "run_id"]].itertuples(index=False)}}
print(sorted(run.status for run in wb.runs()))"""

SHOWN: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "finished run": ("finished", ("How are backups checked?", "By a test restore"), ("Checking backups",)),
    "waiting run": ("waiting", ("Send the letter?", "send", "run.approve()"), ("the board",)),
    "running run": ("running", ("What takes long?", STILL_RUNNING), ("ponder",)),
    "finished view": ("finished.view()", ("How are backups checked?", "By a test restore"), ()),
    "running view": ("running.view()", ("What takes long?", STILL_RUNNING), ("ponder",)),
    "chat": ("wb.chat(finished)", ("How are backups checked?", "By a test restore"), ("Checking backups",)),
    "waiting chat": ("wb.chat(waiting)", ("Send the letter?", "wb.pending() lists it"), ("the board",)),
    "running chat": ("wb.chat(running)", ("What takes long?", STILL_RUNNING), ("ponder",)),
    "empty chat": ("wb.chat()", ("Nothing has been asked yet.",), ()),
    "tree": ("wb.tree(finished)", ("How are backups checked?",), ("By a test restore",)),
    "artifacts": ("wb.artifact_panel(finished)", ("Checking backups",), ("each month",)),
    "timeline": ("wb.timeline(finished)", ("How are backups checked?", "tool call"), ()),
    "running timeline": ("wb.timeline(running)", ("What takes long?", "tool call", STILL_RUNNING), ()),
    "plot": ("af.plot_latency(wb.llm_calls_df(), wb.tool_calls_df())", ("p50", "create_artifact"), ()),
    "workbench": ("wb", ("Workbench",), ("How are backups checked?",)),
    "pending": ("wb.pending()", ("send",), ("the board",)),
    "conversations": ("wb.conversations()", ("How are backups checked?", "Send the letter?", "What takes long?"), ()),
    "a run's artifacts": ("finished.artifacts", ("Checking backups", "checks"), ()),
}
"""What is displayed, by name: the cell's source, words that stay of it in each form, and words for readers of pages."""
NAMES = list(SHOWN)


_FETCHED = {"src", "srcset", "poster", "background", "xlink:href"}


class Fetched(HTMLParser):
    """The addresses that a browser would ask for by itself to show some HTML, and what acts in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
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
    """A notebook with every component, saved while one run waits and one runs; then its kernel was ended."""
    again = [AGAIN, 'wb.run(ids["How are backups checked?"]).view()', "wb.pending()", "wb.run(wb.pending()[0].run_id)",
             'wb.run(ids["What takes long?"]).view()', "wb.timeline(ids['What takes long?'])"]  # fmt: skip
    page = windows.open(new_notebook(lab, ASK, *(source for source, *_ in SHOWN.values()), *again), lab)
    page.open()
    page.run_cell(0)
    expect(page.output(0)).to_have_text("completed waiting", timeout=SOON_MS)
    for cell, _ in enumerate(SHOWN, start=1):
        page.run_cell(cell)
        page.wait_done(cell)
    for name in ("running run", "running view", "running chat", "running timeline"):
        expect(page.run_shown(cell_of(name)).first).to_contain_text("ponder", timeout=SOON_MS)
    page.page.wait_for_timeout(1500)  # what is shown has settled, and was kept
    page.saved_outputs(0)
    assert page.errors == []
    assert page.foreign_requests() == []
    page.shutdown_kernel()
    windows.give_back(page, stays=True)
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
    """One output of text, Markdown and HTML that say the same; nothing in it acts, runs or is fetched."""
    (output,) = outputs(saved, name)
    data = output.data
    assert WIDGET not in data
    assert PLAIN in data
    assert HTML in data or MARKDOWN in data
    _, words, more = SHOWN[name]
    for media_type in {HTML, MARKDOWN, PLAIN} & set(data):
        text = without_markup(data[media_type]) if media_type == HTML else data[media_type]
        text = text.replace("\\", "")
        wanted = words if media_type == PLAIN else (*words, *more)
        assert [word for word in wanted if word not in text] == [], (media_type, text[:3000])
        assert Fetched(data[media_type]).found == [], media_type


def assert_shown(page: LabPage) -> None:
    """Every component can be read, and nothing went wrong."""
    for name, (_, words, _) in SHOWN.items():
        shown = page.output(cell_of(name))
        expect(shown).to_have_count(1)
        for word in words if name != "plot" else ():
            expect(shown).to_contain_text(word)
    expect(page.output(cell_of("plot")).locator("svg:visible, img:visible")).to_have_count(1)
    seen = page.page.locator("body").inner_text()
    assert [words for words in BROKEN if words in seen] == []
    assert page.page.locator(".af-run button:visible").count() == 0
    assert page.errors == []
    assert page.foreign_requests() == []


def test_saved_notebook_is_readable_without_a_kernel(saved: Path, open_page: OpenPage) -> None:
    """In an untrusted copy of the file, without a kernel, each component is readable."""
    shutil.copy(saved, saved.with_name("elsewhere.ipynb"))
    page = open_page(f"{saved.parent.name}/elsewhere.ipynb")
    page.open_elsewhere()
    page.page.wait_for_timeout(1000)
    assert_shown(page)


def test_a_new_kernel_goes_on(saved: Path, open_page: OpenPage) -> None:
    """The saved faces stand, and views of the same runs are live: one asks again, one approves, one resumes."""
    page = open_page(f"{saved.parent.name}/run.ipynb")
    page.open()
    assert_shown(page)
    first = 1 + len(SHOWN)
    page.run_cell(first)
    expect(page.output(first)).to_have_text("['completed', 'interrupted', 'waiting']", timeout=SOON_MS)

    page.run_cell(first + 1)
    alone = page.run_shown(first + 1)
    alone.get_by_role("button", name="Ask this once more").click(timeout=SOON_MS)
    expect(alone).to_contain_text("2 / 2", timeout=SOON_MS)
    expect(alone).to_contain_text("By a test restore", timeout=SOON_MS)

    page.run_cell(first + 2)
    expect(page.output(first + 2)).to_contain_text("the board", timeout=SOON_MS)
    page.run_cell(first + 3)
    asking = page.run_shown(first + 3)
    asking.get_by_role("button", name="Approve send").click(timeout=SOON_MS)
    expect(asking.locator(".af-answer")).to_contain_text("The letter is sent.", timeout=SOON_MS)

    for cell in (first + 4, first + 5):
        page.run_cell(cell)
        expect(page.run_shown(cell)).to_contain_text("Interrupted: its process is gone", timeout=SOON_MS)
    lost = page.run_shown(first + 4)
    lost.get_by_role("button", name="Resume: go on with the interrupted run").click()
    expect(lost.locator(".af-answer")).to_contain_text("Thinking took long.", timeout=SOON_MS)
    expect(page.run_shown(first + 5)).to_contain_text("Completed", timeout=SOON_MS)
    assert page.errors == []
    assert page.foreign_requests() == []


def nbconvert(into: Path, form: str, *notebooks: Path) -> list[Path]:
    """The notebooks as their user converts them, without any setting of ours."""
    command = [sys.executable, "-m", "nbconvert", "--to", form, "--output-dir", str(into), *map(str, notebooks)]
    subprocess.run(command, check=True, capture_output=True)
    return [into / notebook.with_suffix({"html": ".html", "markdown": ".md"}[form]).name for notebook in notebooks]


@pytest.fixture
def offline(context: BrowserContext) -> Page:
    """A page without network, which notes what it asks for in `asked`, and its complaints."""
    context.set_offline(True)
    return context.new_page()


def asked_for(page: Page, html: Path) -> set[str]:
    """Open a page; what it asks for besides itself."""
    asked: set[str] = set()

    def note(request: Any) -> None:
        asked.add(request.url)

    page.on("request", note)
    page.goto(html.as_uri())
    page.wait_for_timeout(500)
    page.remove_listener("request", note)
    return {address for address in asked if not address.startswith(("data:", "blob:", "file:"))}


def assert_readable(page: Page) -> None:
    """Every component is in the page; its folds open and close by keyboard; what is drawn is there."""
    body = page.locator("body")
    for name, (_, words, _) in SHOWN.items():
        for word in words if name != "plot" else ():
            expect(body).to_contain_text(word)
    expect(page.locator(".af-tree-view ul.af-branches, .af-run ul.af-branches").first).to_be_visible()
    expect(page.locator(".af-timeline svg").first).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("latenc", re.IGNORECASE)).first).to_be_visible()
    fold = page.locator(".af-run details.af-work").first
    was_open = fold.evaluate("node => node.open")
    fold.locator("summary").first.focus()
    for is_open in (not was_open, was_open):
        page.keyboard.press("Enter")
        assert fold.evaluate("node => node.open") is is_open
    assert not [words for words in BROKEN if words in body.inner_text()]


def test_our_export_is_one_page_without_network(saved: Path, tmp_path: Path, offline: Page) -> None:
    """It reads like the notebook, and the browser asks for nothing."""
    copy = Path(shutil.copy(saved, tmp_path))
    html = export_html(copy)
    assert asked_for(offline, html) == set()
    assert_readable(offline)
    offline.screenshot(path=tmp_path / "export.png", full_page=True)


def test_nbconvert_alone_reads_too(saved: Path, tmp_path: Path, offline: Page) -> None:
    """Converted without any help of ours it asks for what nbconvert asks for in an empty notebook, and no more."""
    empty = tmp_path / "empty.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), empty)
    nothing, asked = (asked_for(offline, page) for page in nbconvert(tmp_path, "html", empty, saved))
    assert asked <= nothing
    assert_readable(offline)


def test_nbconvert_to_markdown_reads_too(saved: Path, tmp_path: Path, offline: Page) -> None:
    """The HTML of a face stays HTML in a Markdown page, whatever stands in it: nothing of it turns up as text."""
    [converted] = nbconvert(tmp_path, "markdown", saved)
    text = converted.read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(f"<meta charset='utf-8'>{MarkdownIt('commonmark').enable('table').render(text)}", encoding="utf-8")
    assert asked_for(offline, page) == set()
    assert_readable(offline)
    assert not re.search(r"</?(div|span|p|pre|details|table|svg)\b", offline.locator("body").inner_text())
