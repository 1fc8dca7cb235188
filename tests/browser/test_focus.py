"""The focus in an output that JupyterLab renders again."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from artifactflow_nb.widgets.page import assets

pytestmark = pytest.mark.browser

SCRIPTS = [Path(assets.__file__).parents[1] / "static" / name for name in ("host.js", "focus.js")]
PAGE = """<div id="output" style="display: none"><button id="first">First</button></div>
<button id="second">Second</button>"""
DISPLAY = """() => {
    focusWhenDisplayed(document.querySelector("#first"));
    setTimeout(() => (document.querySelector("#output").style.display = "block"), 50);
}"""


@pytest.mark.parametrize(("moves_on", "focused"), [(False, "#first"), (True, "#second")])
def test_focus_returns_once_the_output_is_displayed(chromium: Browser, *, moves_on: bool, focused: str) -> None:
    """The element is focused when its output is displayed, unless the person has moved on."""
    page = chromium.new_page()
    page.set_content(PAGE)
    for script in SCRIPTS:
        page.add_script_tag(content=script.read_text(encoding="utf-8"))
    page.evaluate(DISPLAY)
    if moves_on:
        page.locator("#second").focus()
    expect(page.locator("#first")).to_be_visible()
    page.evaluate("() => new Promise((done) => setTimeout(done, 100))")
    expect(page.locator(focused)).to_be_focused()
    page.close()
