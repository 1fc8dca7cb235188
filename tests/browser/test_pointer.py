"""Two successive requests at the same position: a second click must not decide the second request unseen."""

import pytest
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.browser

LETTERS = """import artifactflow_nb as af
calls = [[af.ToolCall("send", {"to": name, "body": "The text of the letter."})] for name in ("Ada", "Bob")]
wb = af.Workbench(model=af.ScriptedModel([*calls, "Both are sent."]), tool_protocol="native", data_dir="letters")

@wb.tool(permission="confirm")
def send(ctx: af.ToolContext, to: str, body: str) -> str:
    "Send a letter."
    return f"sent to {to}"

run = wb.ask("Send two letters.")
run"""
REFUSED = "Nothing happened: this control had just appeared under the pointer."
SOON_MS = 20_000
GUARD_MS = 700
"""The time of `POINTER_GUARD_MS` in pointer.js."""


PRESS_AS_SOON_AS_IT_IS_THERE = """([x, y, pointerType]) => {
    const button = document.elementFromPoint(x, y)?.closest(".af-approval-choices .af-primary");
    if (!button?.closest(".af-approval")?.getAttribute("aria-label").includes("Bob")) return false;
    const event = { clientX: x, clientY: y, pointerType, bubbles: true, cancelable: true, composed: true };
    for (const type of ["pointerdown", "pointerup"]) button.dispatchEvent(new PointerEvent(type, event));
    button.dispatchEvent(new MouseEvent("click", { ...event, detail: 1 }));
    return true;
}"""
"""In the page, since a press from outside of it may take longer than the guard on a busy machine."""


def card(page: LabPage, name: str) -> Locator:
    """The card of the letter to somebody."""
    return page.output(0).get_by_role("group", name=f"Request: Run “send”: {name}")


def place_of_approve(page: LabPage, name: str) -> tuple[float, float]:
    """The middle of the button of a card, once the view has stopped growing."""
    button = card(page, name).get_by_role("button", name="Approve send")
    expect(button).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(GUARD_MS + 300)
    box = button.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def approve_first_by_key(page: LabPage) -> None:
    """Approve the letter to Ada without the pointer."""
    expect(card(page, "Ada")).to_be_visible(timeout=SOON_MS)
    page.page.wait_for_timeout(GUARD_MS)
    card(page, "Ada").press("a")


@pytest.mark.parametrize("kind", ["mouse", "touch"])
def test_click_on_a_request_that_has_just_appeared_does_nothing(lab: LabServer, open_page: OpenPage, kind: str) -> None:
    """The view says so, and the request waits; after a moment the same click decides."""
    page = open_page(new_notebook(lab, LETTERS))
    page.open()
    page.run_cell(0)
    approve_first_by_key(page)
    x, y = place_of_approve(page, "Bob")  # here the second request will appear once more
    card(page, "Bob").press("a")
    expect(page.output(0).get_by_text("Both are sent.")).to_be_visible(timeout=SOON_MS)
    session = page.page.context.new_cdp_session(page.page)

    def press() -> None:
        if kind == "mouse":
            page.page.mouse.click(x, y)
            return
        session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    page.run_cell(0)
    expect(card(page, "Ada")).to_be_visible(timeout=SOON_MS)
    press()  # on no control: the pointer rests here
    approve_first_by_key(page)
    page.page.wait_for_function(PRESS_AS_SOON_AS_IT_IS_THERE, arg=[x, y, kind], polling="raf")
    expect(page.output(0).locator(".af-message")).to_contain_text(REFUSED)
    save_pictures(page, page.output(0), f"pointer-{kind}")
    page.page.wait_for_timeout(GUARD_MS)
    expect(card(page, "Bob").get_by_role("button", name="Approve send")).to_be_enabled()
    press()
    expect(page.output(0).get_by_text("Both are sent.")).to_be_visible(timeout=SOON_MS)
    assert page.errors == []
