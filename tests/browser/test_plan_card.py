"""The card of a plan: its form alone in a browser page, and in JupyterLab a run that carries out the steps."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.axe import axe_in_both_themes
from browser.lab import LabPage, LabServer
from browser.pictures import save_pictures
from browser.test_approval_card import Stage, open_notebook, printed
from playwright.sync_api import Browser, expect

from artifactflow_nb.flows.plan.tools import plan_create
from artifactflow_nb.widgets.forms.form import form_fields
from artifactflow_nb.widgets.page.nodes import Node, TreeDiff

pytestmark = pytest.mark.browser

OpenPage = Callable[[str], LabPage]
STEPS: list[Any] = [{"title": "Find"}, '{"title": "Compare", "description": "Both."}', {"title": "Write"}]


@pytest.fixture
def stage(chromium: Browser) -> Iterator[Stage]:
    """A page with a form of three steps."""
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    stage = Stage(context.new_page())
    stage.form(*form_fields(plan_create, {"title": "The plan", "steps": STEPS}))
    yield stage
    assert stage.errors == []
    context.close()


def sent(stage: Stage) -> Any:
    """Send the form; return the value of its steps."""
    stage.button("Send").click()
    return stage.sent[-1][1]["values"]["steps"]


def titles(stage: Stage) -> list[str]:
    return [box.input_value() for box in stage.field("title").all()[1:]]


def test_unchanged_steps_are_sent_as_indexes(stage: Stage) -> None:
    """Unchanged steps are sent as indexes, also if moved; a changed step is sent with all its values."""
    assert sent(stage) == [0, 1, 2]
    stage.reply(failed=True, message="Not yet.")
    stage.button("Move up: steps 3").click()
    assert titles(stage) == ["Find", "Write", "Compare"]
    assert sent(stage) == [0, 2, 1]
    stage.reply(failed=True, message="Not yet.")
    stage.field("title").nth(3).fill("Weigh")
    assert sent(stage) == [0, 2, {"of": 1, "values": {"title": "Weigh", "description": "Both.", "id": "", "tools": []}}]


def test_steps_are_moved_with_the_keyboard(stage: Stage) -> None:
    """Alt with an arrow moves the step that has the focus; at either end nothing happens."""
    stage.field("title").nth(1).focus()
    stage.press("Alt+ArrowDown", "Alt+ArrowDown", "Alt+ArrowDown")
    assert titles(stage) == ["Compare", "Write", "Find"]
    expect(stage.field("title").nth(3)).to_be_focused()
    expect(stage.page.locator(".af-field-items > .af-announcer")).to_have_text("Item moved to position 3 of 3.")
    stage.button("Move up: steps 3").focus()
    stage.press("Enter", "Enter", "Enter")
    assert titles(stage) == ["Find", "Compare", "Write"]
    expect(stage.button("Move up: steps 1")).to_be_focused()


def test_move_buttons_name_their_shortcuts(stage: Stage) -> None:
    """The buttons name their keyboard shortcuts, in a tooltip and for screen readers."""
    up = stage.button("Move up: steps 2")
    expect(up).to_have_attribute("aria-keyshortcuts", "Alt+ArrowUp")
    expect(up).to_have_attribute("title", "Alt+↑")
    expect(stage.button("Move down: steps 2")).to_have_attribute("aria-keyshortcuts", "Alt+ArrowDown")


def test_option_with_an_arrow_moves_the_cursor_on_a_mac(stage: Stage) -> None:
    """On a Mac, Option with an arrow moves the cursor within a text, and the step only on its buttons."""
    stage.page.evaluate("Object.defineProperty(navigator, 'platform', {value: 'MacIntel'})")
    stage.field("title").nth(1).focus()
    stage.press("Alt+ArrowDown")
    assert titles(stage) == ["Find", "Compare", "Write"]
    stage.button("Move up: steps 1").focus()
    stage.press("Alt+ArrowDown")
    assert titles(stage) == ["Compare", "Find", "Write"]


def test_steps_are_added_and_removed(stage: Stage) -> None:
    """A new step gets the focus in its first field; after a removal the next step gets the focus."""
    stage.button("Remove: steps 2").click()
    expect(stage.button("Remove: steps 2")).to_be_focused()
    stage.button("Add to steps").click()
    stage.page.keyboard.type("Check")
    new = {"of": None, "values": {"title": "Check", "description": "", "id": "", "tools": []}}
    assert sent(stage) == [0, 2, new]


def test_invalid_field_of_a_step_shows_its_error(stage: Stage) -> None:
    """The field shows the error and gets the focus, even in a folded step."""
    sent(stage)
    stage.reply(failed=True, errors={"steps.1.tools": "There is no such tool.", "steps": "Too many."})
    expect(stage.field("tools").nth(1)).to_be_focused()
    expect(stage.page.locator(".af-item").nth(1).get_by_role("alert").filter(has_text="no such tool")).to_be_visible()
    expect(stage.page.get_by_role("alert").filter(has_text="Too many.")).to_be_visible()


def test_node_keeps_its_content_when_its_kind_changes(stage: Stage) -> None:
    """A line that becomes a fold, such as a starting step, keeps its text, and a fold of another kind its children."""
    inside = (Node("task", "<p>The input.</p>"), Node("result", "<p>The result.</p>"))
    states = [
        Node("step", '<b class="pending">One</b>', "leaf"),
        Node("step", '<b class="running">One</b>', "fold", is_open=True, children=inside[:1]),
        Node("step", '<b class="running">One</b>', "box", children=inside[:1]),
        Node("step", '<b class="completed">One</b>', "fold", is_open=True, children=inside),
    ]
    diff = TreeDiff()
    section = stage.page.locator(".af-run")
    section.evaluate("section => { section.replaceChildren(); window.tree = new KeyedTree(section, {}); }")
    for state in states:
        stage.page.evaluate("patch => tree.apply(patch)", diff.patch((state,)))
        expect(section.locator("b")).to_have_class(re.findall('class="([a-z]+)"', state.html))
        lines = [line for line in section.inner_text().split("\n") if line]
        assert lines == ["One", *(re.sub("<.*?>", "", child.html) for child in state.children)]


# --- in JupyterLab, with a waiting run -----------------------------------------------------------------------------


ASK = """import json
import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

steps = [{"title": "Find"}, {"title": "Compare", "description": "Both of them."}, {"title": "Write"}]
carried_out = []

def turn(request):
    role, last = request.messages[0].content, request.messages[-1].content
    if "execute one step" in role:
        carried_out.append(last.split("Your step, ")[1].splitlines())
        return "Done."
    if "summarize what a plan" in role:
        return "All of it is done."
    return "The answer." if carried_out else [ToolCall("plan_create", {"title": "Compare two", "steps": steps})]

config = {"approval": {"enabled": True}}
wb = af.Workbench(data_dir="plans", model=af.ScriptedModel(turn), graph_config=config)
run = wb.ask("Compare them.", flow="plan")
run"""
CARRIED_OUT = """await run
for step in carried_out:
    print(json.dumps(step))
print(json.dumps(wb.plan_steps_df()[["title", "status"]].to_numpy().tolist()))"""


def test_edited_plan_is_carried_out(lab: LabServer, open_page: OpenPage) -> None:
    """The run and its checklist follow the steps that were moved, changed, added and removed in the card."""
    page = open_notebook(lab, open_page, ASK, CARRIED_OUT)
    out = page.output(0)
    expect(out.locator(".af-preview ol")).to_contain_text("Both of them.", timeout=20_000)
    save_pictures(page, out.locator(".af-live .af-approval"), "plan-asked")
    out.get_by_role("button", name="Edit the plan").click()
    out.get_by_role("button", name="Move up: steps 2").click()
    out.get_by_role("button", name="Remove: steps 2").click()
    out.get_by_label("What is done", exact=True).nth(1).fill("")
    out.get_by_role("button", name="Add to steps").click()
    page.page.keyboard.type("Check")
    save_pictures(page, out.locator(".af-live .af-approval"), "plan-card")
    assert axe_in_both_themes(page) == []
    out.get_by_role("button", name="Approve with these values").click()
    error = out.get_by_role("alert").filter(has_text="should have at least 1 character")
    expect(error).to_be_visible()
    expect(out.get_by_label("What is done", exact=True).nth(1)).to_be_focused()
    page.page.keyboard.type("Write it")
    out.get_by_role("button", name="Approve with these values").click()
    saved = out.locator(".af-saved")
    expect(saved).to_contain_text("plan: 3 of 3 steps", timeout=20_000)
    saved.locator(".af-work > summary").click()
    expect(saved.locator(".af-steps > li")).to_have_count(3)
    expect(saved.locator(".af-steps")).to_contain_text("completed")
    assert axe_in_both_themes(page) == []
    *steps, frame = printed(page, 1)
    assert [json.loads(step) for step in steps] == [
        ["1 of 3: Compare", "Both of them."],
        ["2 of 3: Write it"],
        ["3 of 3: Check"],
    ]
    assert json.loads(frame) == [[title, "completed"] for title in ("Compare", "Write it", "Check")]
    assert page.errors == []


LIVE = """import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall

steps = [{"title": title} for title in ("Find what there is", "Send a letter", "Wait for the answer", "Compare")]
replies = {
    "1 of 4": "Found.",
    "2 of 4": [ToolCall("send", {"to": "Ada"})],
    "3 of 4": [ToolCall("report_failure", {"reason": "Nobody answers."})],
}

def turn(request):
    role, last = request.messages[0].content, request.messages[-1].content
    if "execute one step" in role:
        return next((reply for step, reply in replies.items() if f"Your step, {step}" in last), "That was it.")
    if "look at a plan" in role:
        decision = ToolCall("plan_decide", {"decision": "finish", "reason": "There is nothing to compare."})
        return [decision] if "You may choose" in last else "So be it."
    if "summarize what a plan" in role:
        return "A letter was sent, and nobody answered."
    return "The answer." if "tool_result" in last else [ToolCall("plan_create", {"title": "Ask Ada", "steps": steps})]

wb = af.Workbench(data_dir="live", model=af.ScriptedModel(turn))

@wb.tool(permission="confirm", agent="executor")
def send(ctx: af.ToolContext, to: str) -> str:
    "Send a letter."
    return f"sent to {to}"

run = wb.ask("Compare what there is with what Ada says.", flow="plan")
run"""


def test_running_plan_is_a_checklist(lab: LabServer, open_page: OpenPage) -> None:
    """Each step displays its status and working time; a waiting step continues from its card."""
    page = open_notebook(lab, open_page, LIVE)
    out = page.output(0)
    steps = out.locator(".af-live .af-steps > li")
    expect(steps).to_have_count(4, timeout=20_000)
    for step, state in zip(steps.all(), ("completed", "running", "pending", "pending"), strict=True):
        expect(step.locator(".af-step-state")).to_have_text(state)
    expect(steps.nth(1)).to_contain_text("Waits for your decision")
    waiting = steps.nth(1).locator(".af-step > summary .af-time")
    page.page.wait_for_timeout(1000)  # the time stays below a second, since waiting for a person does not count
    expect(waiting).to_have_text(re.compile(r"^\d+ ms$"))
    steps.nth(1).locator("summary").first.press("Enter")
    expect(steps.nth(1).locator(".af-tool")).to_be_visible()
    expect(steps.first).to_have_text(re.compile(r"^\s*✓\s+1\. Find what there is\s+completed \d+ m?s"))
    steps.nth(1).locator("summary").first.blur()
    save_pictures(page, out.locator(".af-live"), "plan-live")
    assert axe_in_both_themes(page) == []
    out.get_by_role("button", name="Approve send").click()
    saved = page.wait_saved(0, "plan: 2 of 4 steps, 1 failed, 1 skipped")
    saved.locator(".af-work > summary").click()
    saved.locator(".af-step > summary").nth(2).click()
    expect(saved.locator(".af-step .af-error")).to_have_text("Nobody answers.")
    save_pictures(page, saved, "plan-done")
    assert axe_in_both_themes(page) == []
    assert page.errors == []
