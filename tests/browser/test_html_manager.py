"""Views on a page that is not Jupyter's, in a shadow root, where the page forces the attribute `hidden`."""

from collections.abc import Iterator

import pytest
from browser.cells import AS_WIDGETS, ASK, QUESTION, REPLIES
from browser.chats import ask_in_chat
from browser.html_manager import HtmlManagerPage
from browser.lab import LabServer, expect_growth
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

APPROVE = "Approve write artifact"
WORKBENCH = f"""{AS_WIDGETS}{REPLIES}end = "It is written, and $x^2$ is a formula."
wb = af.Workbench(model=af.ScriptedModel([text + report, end], delay_s=0.03), approvals={{"create_artifact": "ask"}})
"""


@pytest.fixture
def page(lab: LabServer, chromium: Browser) -> Iterator[HtmlManagerPage]:
    """A page with a new kernel."""
    page = HtmlManagerPage(chromium, lab)
    yield page
    page.close()


def test_chat_asks_streams_and_decides_in_a_shadow_root(page: HtmlManagerPage) -> None:
    """A chat streams, its button decides, and a formula appears once, although the page forces `[hidden]`."""
    page.execute(f"{WORKBENCH}display(wb.chat(), wb.tree())")
    chat = page.page.locator(".af-chat.af-live")
    expect(chat).to_be_visible(timeout=30_000)
    ask_in_chat(chat)
    expect(chat.locator(".af-answer .af-math > :visible")).to_have_count(1)
    expect(chat.locator(".af-answer math[alttext]")).to_be_visible()
    expect(page.page.locator(".af-live").get_by_role("tree")).to_contain_text(QUESTION)
    font = "node => getComputedStyle(node).fontFamily"
    assert chat.evaluate(font) == page.page.locator(".af-live .af-question").first.evaluate(font)
    assert page.errors == []


def test_run_is_displayed_until_its_end_in_a_shadow_root(page: HtmlManagerPage) -> None:
    """A run streams in the view of a widget and is approved there; its last output needs no widget."""
    page.execute(AS_WIDGETS + ASK)
    live = page.page.locator(".af-run.af-live")
    expect(live).to_contain_text("Paragraph 1 ", timeout=30_000)
    expect_growth(live)
    live.get_by_role("button", name=APPROVE).click(timeout=20_000)
    saved = page.page.locator(".af-saved")
    expect(saved.locator(".af-answer")).to_contain_text("It is written", timeout=20_000)
    expect(live).to_have_count(0)
    assert page.errors == []
