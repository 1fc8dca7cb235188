"""The chat as a reader uses it, in every front end."""

from browser.cells import QUESTION
from browser.lab import expect_growth
from playwright.sync_api import Locator, expect

APPROVE = "Approve write artifact"


def ask_in_chat(chat: Locator) -> None:
    """Ask, see the answer stream, approve, and see the end."""
    composer = chat.get_by_role("textbox", name="Question")
    composer.fill(QUESTION)
    composer.press("Enter")
    expect_growth(chat)
    chat.get_by_role("button", name=APPROVE).click(timeout=20_000)
    expect(chat.locator(".af-answer")).to_contain_text("It is written", timeout=20_000)
