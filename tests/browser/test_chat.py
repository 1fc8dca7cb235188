"""The chat in JupyterLab: with the keyboard, while text streams, and displayed twice."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, expect_growth, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
SETUP = '''import asyncio, itertools, pathlib, tempfile
import artifactflow_nb as af
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.widgets.run import follower
from artifactflow_nb.core.toolcalls.xml import format_call

follower.SAVE_INTERVAL_S = 2.0  # seconds between two saves of a running run
number = itertools.count(1)
LONG = "\\n\\n".join(f"Paragraph {i} of the answer, and a few words more." for i in range(80))
SCRIPTS = {
    "How many?": [lambda: f"**Answer** number {next(number)}."],
    "Write it.": ["I write it down." + format_call("create_artifact", {
        "id": "report", "title": "Context managers", "content": "# Context managers\\n\\nThey call `__exit__`."}),
        "It is written: see *Context managers*."],
    "Tell me at length.": [LONG],
    "Fill the box.": [LONG.partition("Paragraph 30")[0]],
    "Work on it.": [*(f"Step {i}." + format_call("work", {"step": i}) for i in range(4)), LONG],
}

def script(request):
    """The next turn for the newest question."""
    for back, message in enumerate(reversed(request.messages)):
        for question, turns in SCRIPTS.items():
            if message.role == "user" and question in message.content:
                after = request.messages[len(request.messages) - back:]
                turn = turns[sum(reply.role == "assistant" for reply in after)]
                return turn if isinstance(turn, str) else turn()
    return "There is no script for this question."

class Model(af.ScriptedModel):
    """Streams slowly while there is a file `slow` in the folder of the notebook."""

    async def stream(self, request):
        async for event in super().stream(request):
            if pathlib.Path("slow").exists():
                await asyncio.sleep(0.3)
            yield event

wb = af.Workbench(model=Model(script, delay_s=0.02), data_dir=tempfile.mkdtemp(),
                  approvals={"create_artifact": "ask"})

@wb.tool
async def work(ctx: ToolContext, step: int) -> str:
    """Work for a moment."""
    await asyncio.sleep(1.5)
    return "worked"
'''
SHOW = "wb.chat()"
SHOW_AGAIN = "wb.chat(wb.conversations()[0].conversation_id)"
ASK = """run = wb.ask("How many?", conversation_id=wb.conversations()[0].conversation_id).wait(20)
print(run.status)"""
FOCUSED = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"


@pytest.fixture
def page(lab: LabServer, open_page: OpenPage) -> LabPage:
    """A notebook with an empty chat."""
    page = open_page(new_notebook(lab, SETUP, SHOW, SHOW_AGAIN, ASK))
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.open()
    page.run_cell(0)
    page.wait_done(0)
    page.run_cell(1)
    expect(composer(page)).to_be_visible(timeout=SOON_MS)
    return page


def live(page: LabPage, cell: int = 1) -> Locator:
    return page.output(cell).locator(".af-run.af-live")


def composer(page: LabPage, cell: int = 1) -> Locator:
    return live(page, cell).get_by_role("textbox", name="Question")


def turns(page: LabPage, cell: int = 1) -> Locator:
    return live(page, cell).locator(".af-turns")


def ask(page: LabPage, question: str, cell: int = 1) -> None:
    """Type into the composer and send with the keyboard."""
    composer(page, cell).focus()
    page.page.keyboard.type(question)
    page.page.keyboard.press("Enter")


def go_to(page: LabPage, name: str, key: str = "Shift+Tab") -> None:
    """Press a key until the control with this name has the focus."""
    walked: list[str] = []
    for _ in range(40):
        page.page.keyboard.press(key)
        walked.append(str(page.page.evaluate(FOCUSED))[:60])
        if name in walked[-1]:
            return
    raise AssertionError(f"The focus did not come to {name!r}, but to {walked}.")


def press(page: LabPage, name: str, key: str = "Shift+Tab") -> None:
    """Move the focus to a control and press Enter."""
    go_to(page, name, key)
    page.page.keyboard.press("Enter")


def assert_no_errors(page: LabPage) -> None:
    assert page.errors == []
    assert page.foreign_requests() == []


def test_question_versions_by_keyboard(page: LabPage) -> None:
    """Asking, regenerating, switching versions, editing and copying work by keyboard; no key reaches the notebook."""
    ask(page, "How many?")
    expect(turns(page)).to_contain_text("Answer number 1.", timeout=SOON_MS)
    expect(composer(page)).to_have_value("")
    expect(composer(page)).to_be_focused()
    press(page, "Regenerate")
    expect(turns(page)).to_contain_text("Answer number 2.", timeout=SOON_MS)
    expect(turns(page)).to_contain_text("2 / 2")
    press(page, "The previous version of this question", "Tab")
    expect(turns(page)).to_contain_text("1 / 2")
    expect(turns(page)).to_contain_text("Answer number 1.")
    assert "The previous version" in str(page.page.evaluate(FOCUSED)), "The focus was lost with the other version."
    press(page, "Copy", "Tab")
    page.page.wait_for_function("navigator.clipboard.readText().then((text) => text === '**Answer** number 1.')")
    expect(live(page).get_by_role("alert").last).to_contain_text("Copied")
    press(page, "Edit this question")
    edited = live(page).get_by_role("group", name="Edit the question").get_by_role("textbox")
    expect(edited).to_be_focused()
    page.page.keyboard.press("Escape")
    expect(edited).to_have_count(0)
    composer(page).focus()
    press(page, "Edit this question")
    expect(edited).to_be_focused()
    page.page.keyboard.press("End")
    page.page.keyboard.type(" How many?")
    page.page.keyboard.press("Enter")
    expect(turns(page)).to_contain_text("3 / 3", timeout=SOON_MS)
    expect(turns(page)).to_contain_text("How many? How many?")
    expect(turns(page)).to_contain_text("Answer number 3.", timeout=SOON_MS)
    expect(page.cells).to_have_count(4)
    assert_no_errors(page)


def test_approve_and_stop_by_keyboard(page: LabPage) -> None:
    """A card is announced and approved with Enter; the next run is stopped with Enter, and its text stays."""
    ask(page, "Write it.")
    expect(live(page).get_by_role("status")).to_contain_text("Your approval is needed: Write “", timeout=SOON_MS)
    press(page, "Approve write artifact")
    expect(turns(page)).to_contain_text("It is written", timeout=SOON_MS)
    expect(live(page).locator(".af-approval")).to_have_count(0)
    ask(page, "Tell me at length.")
    expect(turns(page)).to_contain_text("Paragraph 2 ", timeout=SOON_MS)
    press(page, "Stop this run")
    expect(turns(page)).to_contain_text("Cancelled", timeout=SOON_MS)
    expect(turns(page)).to_contain_text("Paragraph 2 ")
    assert_no_errors(page)


def test_conversations_are_changed_by_keyboard(page: LabPage) -> None:
    """New starts a conversation, the list opens the first conversation again; each time the composer has the focus."""
    ask(page, "How many?")
    expect(turns(page)).to_contain_text("Answer number 1.", timeout=SOON_MS)
    press(page, "begin a new conversation")
    expect(turns(page)).to_contain_text("Nothing has been asked yet.")
    expect(composer(page)).to_be_focused()
    ask(page, "How many? Once more.")
    expect(turns(page)).to_contain_text("Answer number 2.", timeout=SOON_MS)
    press(page, "Conversations")
    expect(live(page).get_by_role("button", name="Conversations")).to_have_attribute("aria-pressed", "true")
    go_to(page, "How many?", "Tab")
    while "Once more" in str(page.page.evaluate(FOCUSED)):
        page.page.keyboard.press("Tab")
    page.page.keyboard.press("Enter")
    expect(turns(page)).to_contain_text("Answer number 1.")
    expect(composer(page)).to_be_focused()
    assert_no_errors(page)


def reading_state(page: LabPage) -> dict[str, Any]:
    """Typed text, selection, focus, fold and scroll positions of the chat."""
    state: dict[str, Any] = live(page).evaluate("""root => {
        const field = root.querySelector('.af-composer textarea');
        return {
            typed: field.value, from: field.selectionStart, to: field.selectionEnd,
            focused: document.activeElement === field,
            opened: root.querySelector('.af-tool').open,
            top: Math.round(root.querySelector('.af-turns').getBoundingClientRect().top),
            notebook: Math.round(root.closest('.jp-WindowedPanel-outer').scrollTop),
        };
    }""")
    return state


def test_draft_survives_streaming_and_saving(page: LabPage) -> None:
    """Text, selection, focus, fold and scroll position stay while steps stream and the output is saved."""
    ask(page, "Fill the box.")
    expect(turns(page)).to_contain_text("Paragraph 29 ", timeout=SOON_MS)
    expect(live(page).get_by_role("button", name="Stop this run")).to_have_count(0)
    ask(page, "Work on it.")
    expect(live(page).locator(".af-tool").first).to_be_visible(timeout=SOON_MS)
    output_number = "root => Number(/af-output-(\\d+)/.exec(root.closest('.af-host').className)[1])"
    page.page.keyboard.type("And then, half")
    page.page.keyboard.press("Shift+ArrowLeft")
    page.page.keyboard.press("Shift+ArrowLeft")
    live(page).locator(".af-tool").first.evaluate("fold => { fold.open = true; }")
    turns(page).evaluate("box => { box.closest('.jp-WindowedPanel-outer').scrollTop = 100; }")
    page.page.wait_for_timeout(200)
    before, saved = reading_state(page), live(page).evaluate(output_number)
    assert before == before | {"typed": "And then, half", "from": 12, "to": 14, "focused": True, "opened": True}
    assert 90 < before["notebook"] < 110
    states, deadline = [], time.monotonic() + SOON_MS / 1000
    while live(page).evaluate(output_number) < saved + 2 and time.monotonic() < deadline:
        page.page.wait_for_timeout(100)
        states.append(reading_state(page))
    assert [state for state in states if state != before] == []
    assert live(page).evaluate(output_number) >= saved + 2, "The output was not saved meanwhile."
    page.page.keyboard.type("f-written")
    expect(composer(page)).to_have_value("And then, haf-written")
    assert_no_errors(page)


def test_click_survives_a_redraw_of_the_output(page: LabPage) -> None:
    """A button is pressed once, although the notebook replaces the output between mouse down and up."""
    ask(page, "How many?")
    button = live(page).get_by_role("button", name="Regenerate")
    button.hover(timeout=SOON_MS)
    page.page.mouse.down()
    live(page).evaluate("""root => {
        const host = root.closest('.af-host');
        host.replaceWith(host.cloneNode(false));
    }""")
    page.page.mouse.up()
    expect(turns(page)).to_contain_text("2 / 2", timeout=SOON_MS)
    expect(turns(page)).to_contain_text("Answer number 2.", timeout=SOON_MS)
    page.page.wait_for_timeout(500)
    expect(turns(page)).to_contain_text("2 / 2")
    assert_no_errors(page)


def test_click_survives_scrolling_of_the_notebook(page: LabPage) -> None:
    """A button works although the notebook scrolls under the pointer because another cell was active."""
    ask(page, "Write it.")
    approve = live(page).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(1000)
    approve.hover()
    page.page.mouse.down()
    page.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop += 60")
    page.page.wait_for_timeout(50)
    page.page.mouse.up()
    expect(turns(page)).to_contain_text("It is written", timeout=SOON_MS)
    assert_no_errors(page)


_BELOW = """box => {
    const [turns, form] = [box, box.nextElementSibling].map((node) => node.getBoundingClientRect());
    const edge = box.closest(".jp-WindowedPanel-outer, .jp-LinkedOutputView").getBoundingClientRect().bottom;
    return [form.bottom - edge, Math.max(turns.bottom - form.top, box.scrollHeight - box.clientHeight - box.scrollTop)];
}"""
"""How far the form ends below the visible part, and how much of the turns is below the form."""
_PLACE = """box => {
    const read = [...box.querySelectorAll("p")].find((node) => node.textContent.startsWith("Paragraph 20 "));
    return read.getBoundingClientRect().top;
}"""
_WATCH_PLACES = f"""box => {{
    window.places = [];
    const watch = () => {{
        if (box.isConnected) window.places.push(({_PLACE})(box));
        requestAnimationFrame(watch);
    }};
    requestAnimationFrame(watch);
}}"""


def wait_still(box: Locator) -> None:
    """Wait until the page has scrolled."""
    before = None
    while (place := box.evaluate(_PLACE)) != before:
        before = place
        box.page.wait_for_timeout(100)


@pytest.mark.parametrize("host", ["cell", "tab"])
def test_chat_follows_the_end_until_the_reader_scrolls_up(page: LabPage, host: str) -> None:
    """In a cell the notebook scrolls, in a tab the turns; the form stays in view, and the reader's place stays."""
    root = live(page)
    if host == "tab":
        page.cells.nth(1).locator(".jp-InputArea-editor").click()
        page.command("notebook:create-output-view")
        root = page.page.locator(".jp-LinkedOutputView .af-run.af-live")
        expect(root).to_have_attribute("data-fills", "", timeout=SOON_MS)
    box = root.locator(".af-turns")
    root.get_by_role("textbox", name="Question").fill("Tell me at length.")
    page.page.keyboard.press("Enter")
    expect(box).to_contain_text("Paragraph 30 ", timeout=SOON_MS)
    page.file_in_folder("slow").touch()
    for _ in range(4):
        expect_growth(box, n_times=1)
        page.page.wait_for_function(
            f"box => {{ const [below, left] = ({_BELOW})(box); return below <= 1 && left < 4; }}",
            arg=box.element_handle(),
        )
    form = root.locator(".af-compose").bounding_box()
    assert form
    page.page.mouse.move(form["x"] + 300, form["y"] - 20)
    page.page.mouse.wheel(0, -250)
    expect(root.get_by_role("button", name="Jump to the newest")).to_be_visible()
    wait_still(box)
    box.evaluate(_WATCH_PLACES)
    expect_growth(box)
    page.file_in_folder("slow").unlink()
    expect(root.get_by_role("button", name="Stop this run")).to_have_count(0, timeout=SOON_MS)
    page.page.evaluate("() => new Promise(requestAnimationFrame)")  # the steps above the answer are folded now
    places = page.page.evaluate("window.places")
    assert max(places) - min(places) <= 1
    form_below, left = box.evaluate(_BELOW)
    assert form_below <= 1
    assert left > 250
    root.get_by_role("button", name="Jump to the newest").click()
    expect(root.get_by_role("button", name="Jump to the newest")).to_have_count(0)
    assert box.evaluate(_BELOW)[1] < 4
    assert_no_errors(page)


def test_two_chats_and_a_cell_stay_in_sync(page: LabPage) -> None:
    """Both chats display each question, also a cell's question, and an approval removes both cards."""
    ask(page, "How many?")
    expect(turns(page)).to_contain_text("Answer number 1.", timeout=SOON_MS)
    page.run_cell(2)
    expect(turns(page, 2)).to_contain_text("Answer number 1.", timeout=SOON_MS)
    ask(page, "Write it.", cell=2)
    for cell in (1, 2):
        expect(live(page, cell).locator(".af-approval")).to_be_visible(timeout=SOON_MS)
    live(page, 1).get_by_role("button", name="Approve write artifact").press("Enter")
    for cell in (1, 2):
        expect(turns(page, cell)).to_contain_text("It is written", timeout=SOON_MS)
        expect(live(page, cell).locator(".af-approval")).to_have_count(0)
    page.run_cell(3)
    expect(page.output(3)).to_have_text("completed", timeout=SOON_MS)
    for cell in (1, 2):
        expect(turns(page, cell)).to_contain_text("Answer number 2.", timeout=SOON_MS)
    live(page, 2).get_by_role("button", name="Regenerate").last.click()
    expect(turns(page, 1)).to_contain_text("2 / 2", timeout=SOON_MS)
    assert_no_errors(page)


_SCROLL_BEHIND_FORM = """async (card) => {
    const bottom = (node) => node.getBoundingClientRect().bottom;
    const form = card.closest(".af-live").querySelector(".af-compose");
    const notebook = card.closest(".jp-WindowedPanel-outer");
    card.querySelector(":scope > .af-own").style.minHeight = "400px"; // buttons never cover the beginning
    card.closest(".af-turns").prepend(Object.assign(document.createElement("p"), { style: "height: 900px" }));
    notebook.scrollTop += bottom(card) - (bottom(notebook) - form.offsetHeight) - 40;
    await new Promise(requestAnimationFrame);
    const edge = form.getBoundingClientRect().top;
    return [bottom(card) - edge, bottom(card.querySelector(".af-approval-controls")) - edge];
}"""
"""How far a card, of which 40 pixels are below the form, and its buttons reach below the upper edge of the form."""


def test_buttons_of_a_card_stay_above_the_form(page: LabPage) -> None:
    """If the end of a long card is below the visible part, its buttons are above the form at the lower edge."""
    ask(page, "Write it.")
    approve = live(page).get_by_role("button", name="Approve write artifact")
    expect(approve).to_be_visible(timeout=SOON_MS)
    covered = live(page).locator(".af-approval").evaluate(_SCROLL_BEHIND_FORM)
    assert covered[0] > 20
    assert covered[1] <= 1
    expect(approve).to_be_in_viewport(ratio=0.9)


def test_chat_is_accessible_in_both_themes(page: LabPage) -> None:
    """axe-core finds no serious violation while a card waits and after the run, light and dark, wide and narrow."""
    ask(page, "How many?")
    expect(turns(page)).to_contain_text("Answer number 1.", timeout=SOON_MS)
    ask(page, "Write it.")
    expect(live(page).get_by_role("button", name="Approve write artifact")).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(1000)
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    save_pictures(page, live(page), "chat-waiting")
    live(page).get_by_role("button", name="Approve write artifact").press("Enter")
    expect(turns(page)).to_contain_text("It is written", timeout=SOON_MS)
    live(page).get_by_role("button", name="Conversations").press("Enter")
    live(page).get_by_role("button", name="Edit this question").first.press("Enter")
    page.page.wait_for_timeout(1000)
    assert axe_in_both_themes(page, ".af-run.af-live") == []
    save_pictures(page, live(page), "chat-open")
    narrow: Callable[[str], Any] = page.output(1).evaluate
    narrow("node => { node.style.width = '320px'; node.style.flex = 'none'; }")
    assert live(page).evaluate("node => node.scrollWidth <= node.clientWidth")
    box = live(page).bounding_box()
    assert box
    assert box["width"] <= 322
    save_pictures(page, live(page), "chat-narrow")
    assert_no_errors(page)
