"""The clocks of a page: times of day in the zone of the reader, and the time until a retry."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from artifactflow_nb.core.language import Language, catalogue
from artifactflow_nb.widgets.page import assets

pytestmark = pytest.mark.browser

STATIC = Path(assets.__file__).parents[1] / "static"


@pytest.mark.parametrize(
    ("language", "later"), [("en", ("in 6 s", "in 2 s", "now")), ("zh", ("6 秒后", "2 秒后", "现在"))]
)
def test_times_are_those_of_the_reader(chromium: Browser, language: Language, later: tuple[str, ...]) -> None:
    """A time of day is in the browser's zone, also across a change of summer time; a retry counts down."""
    context = chromium.new_context(timezone_id="Europe/Berlin")
    page = context.new_page()
    due = 1_700_000_006_000
    times = "<p data-at='1784000000000'></p><p data-at='1763790000000'></p>"
    page.set_content(f"<main>{times}<p data-since='{due}' data-due></p></main>")
    scripts = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("texts.js", "clocks.js"))
    texts = json.dumps(dict(catalogue(language)))
    constants = f"const UI_LANGUAGE = '{language}', UI_TEXTS = {texts};"
    page.evaluate(f"{constants}\n{scripts}\nwindow.clocks = new Clocks(document.body); undefined")
    for before_ms, text in zip((5_400, 1_900, -100), later, strict=True):
        page.evaluate("at => clocks.tick(at - Date.now(), (change) => change())", due - before_ms)
        expect(page.locator("[data-due]")).to_have_text(text)
    summer, winter = page.locator("[data-at]").all_inner_texts()
    assert (summer, winter) == ("2026-07-14 05:33", "2025-11-22 06:40")
    context.close()
