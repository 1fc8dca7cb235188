"""On a phone the heads of a chat and a timeline and the line of a sub-agent take two rows, and names stay whole."""

import pytest
from conftest import OpenWorkbench
from playwright.sync_api import Browser, Page
from support.pages import ShownView
from support.played_runs import PlayedRun, Script

from artifactflow_nb.core.language import Language, in_language
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.widgets.chat.view import toolbar
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page import assets
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.timeline import TimelineView

pytestmark = pytest.mark.browser

ROWS = """(parts) => {
    const boxes = parts.map((node) => node.getBoundingClientRect()).filter((box) => box.width && box.height);
    const rows = [];
    for (const box of boxes.sort((a, b) => a.top - b.top)) {
        if (!rows.length || box.top >= rows.at(-1) - 2) rows.push(box.bottom);
        else rows[rows.length - 1] = Math.max(rows.at(-1), box.bottom);
    }
    return rows.length;
}"""
"""Number of rows that elements form."""
GAPS = """() => {
    const boxes = [...document.querySelector(".af-tree").children].map((node) => node.getBoundingClientRect());
    return boxes.slice(1).map((box, n) => Math.round(box.top - boxes[n].bottom));
}"""


def page_with(chromium: Browser, width: int, body: str, css: str) -> Page:
    page = chromium.new_page(viewport={"width": width, "height": 700})
    style = f"<style>{assets.all_styles()} body {{ margin: 0; font: 13px sans-serif }}</style>"
    page.set_content(f"<!doctype html>{style}<section class='af-run af-live {css}'>{body}</section>")
    return page


def sub_agents() -> str:
    """Return the HTML of a run with a working and a failed sub-agent."""
    script = Script()
    script.add("agent_start", job_id="main", step=1, instruction="", model="m")
    for n, task in enumerate(("Find how fast the Baltic Sea rises, by gauges and by satellites.", "Find the rest.")):
        params = {"agent_name": "search_agent", "instruction": task}
        script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id=f"tc-{n}", params=params)
        script.add("agent_start", "search_agent", job_id=f"tc-{n}", step=1, instruction=task, model="m")
        script.say("It rises. " * 400, "It rises. " * 400, call=f"llm-{n}", job=f"tc-{n}", agent="search_agent")
    script.add(
        "tool_start",
        tool="web_search",
        job_id="tc-0",
        tool_call_id="tc-3",
        params={"query": "gauges of the Baltic Sea"},
    )
    error = "The endpoint could not be reached, and four further attempts failed."
    ended = {"tool_call_id": "tc-1", "success": False, "error": error, "duration_ms": 900.0}
    script.add("tool_complete", tool="call_subagent", job_id="main", **ended)
    run = PlayedRun(script.events)
    transcript = RunTranscript("How?")
    for event in run.events:
        transcript.apply(event)
    return saved_html(RunRenderer(run).body(transcript))


def live_html(node: Node) -> str:
    """Return the HTML of a node and its children in a live page, with the controls that a saved output leaves out."""
    children = "".join(map(live_html, node.children))
    if node.kind == "fold":
        return f'<details class="{node.css}"><summary>{node.html}</summary>{children}</details>'
    return f'<div class="{node.css}">{node.html}{children}</div>'


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("width", [390, 320])
def test_head_of_a_chat_takes_two_rows(chromium: Browser, width: int, language: Language) -> None:
    """The rows are title and gauge, then model and buttons; nothing is wider than the window."""
    with in_language(language):
        bar = toolbar(
            "How fast does the level of the North Sea rise at the gauges?",
            {"chars": 12_000, "limit_chars": 100_000},
            has_conversation=True,
            open_menu="",
            model="a-model-with-a-long-name-instruct",
        )
    page = page_with(chromium, width, live_html(bar), "af-chat")
    assert page.locator(".af-bar button").count() == 3
    assert page.eval_on_selector_all(".af-bar > *, .af-bar button", ROWS) == 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_line_of_a_sub_agent_takes_two_rows_at_most(chromium: Browser, width: int) -> None:
    """A line has the name and the activity, then the time and tokens, for a working and for a failed sub-agent."""
    page = page_with(chromium, width, sub_agents(), "")
    lines = page.locator(".af-job > summary")
    assert lines.count() == 2
    for line in lines.all():
        parts = line.locator("> *").element_handles()
        assert page.evaluate(ROWS, parts) <= (2 if width == 390 else 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


def test_head_of_a_timeline_takes_two_rows(chromium: Browser, workbench: OpenWorkbench) -> None:
    """The question is on one line and the status below it, both to the right of the mark; in the saved output, too."""
    wb = workbench(["It rises."])
    run = wb.ask("How fast does the level of the North Sea rise at the gauges of Cuxhaven and of Brest?").wait(20)
    timeline = ShownView(wb._thread, TimelineView(run._client))
    timeline.until(lambda: "Completed" in timeline.text)
    page = page_with(chromium, 390, "".join(map(live_html, timeline.view.nodes())), "af-timeline")
    for saved in (False, True):
        if saved:
            page.set_content(f"<!doctype html>{wb.timeline(run).saved_output()['text/html']}")
        mark, question, status = page.locator(".af-meta > *").element_handles()
        assert page.evaluate(ROWS, [mark, question]) == 1
        assert question.bounding_box()["height"] < 30
        assert status.bounding_box()["x"] == question.bounding_box()["x"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.parametrize("width", [800, 390, 320])
def test_name_in_a_text_does_not_break_inside(chromium: Browser, width: int) -> None:
    """A name begins a new line instead of breaking, unless it is longer than the line."""
    text = "The gauges of the Baltic Sea are in `notes of 2024/the-gauges`, those of the North Sea in `{}`."
    html = MarkdownRenderer().html(text.format("local:north-sea/gauges/" * 6))
    page = page_with(chromium, width, f"<div class='af-md'>{html}</div>", "")
    short, long = page.locator("code").all()
    assert short.evaluate("node => node.getClientRects().length") == 1
    assert short.bounding_box()["height"] < 24
    assert long.bounding_box()["height"] > (24 if width < 800 else 0)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.close()


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_gaps_between_sections_of_the_home_are_even(chromium: Browser, workbench: OpenWorkbench, width: int) -> None:
    """Reserved space is inside of a section, so the gaps are even before and after the first runs."""
    wb = workbench(["It rises."] * 2)
    for n_runs in (0, 2):
        for _ in range(n_runs):
            wb.ask("How fast does the level of the North Sea rise at Cuxhaven and at Brest?").wait(20)
        home = ShownView(wb._thread, HomeView(wb._thread, "<table><tr><th>model</th></tr></table>"))
        home.until(lambda: ("North Sea" in home.text) == (n_runs > 0))  # noqa: B023 - it is called here
        body = f"<div class='af-tree'>{''.join(map(live_html, home.view.nodes()))}</div>"
        page = page_with(chromium, width, body, "af-home")
        assert page.evaluate(GAPS) == [14] * 6
        page.close()
