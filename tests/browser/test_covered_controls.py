"""The line about a waiting request and the completions of the composer appear over a page, and cover no control."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from artifactflow_nb.widgets.page import assets

pytestmark = pytest.mark.browser

STATIC = Path(assets.__file__).parents[1] / "static"
SCRIPTS = ("texts.js", "host.js", "tree.js", "place.js", "field.js", "composer.js", "notices.js", "attention.js")
CHAT = """<!doctype html><style>{style} body {{ margin: 0 }} .af-compose {{ margin-top: {top}px }}</style>
<section class="af-run af-live af-chat"><div class="af-compose"><form class="af-composer">
<div class="af-field af-field-multiline"><textarea class="af-input af-lines" rows="2" id="text"></textarea></div>
<div class="af-form-buttons"><button class="af-button">Ask</button><button class="af-button">Stop</button></div>
</form></div></section>"""
WAITS = """() => {
    const panel = { model: {}, mounts: [], startedAt: 1 };
    const card = document.createElement("div");
    new Attention().report("panel", [{ id: "req-1", title: "Read 1 web page from python.org", panel, card }]);
}"""
COVERED = """() => {
    const bar = document.querySelector(".af-attention").getBoundingClientRect();
    return [...document.querySelectorAll(".af-live :is(button, textarea)")].filter((node) => {
        const rect = node.getBoundingClientRect();
        return rect.left < bar.right && rect.right > bar.left && rect.top < bar.bottom && rect.bottom > bar.top;
    }).length;
}"""
COMPLETE = """() => {
    const control = document.querySelector("#text");
    control.after(new Completions(control, () => {}).list);
    control.focus();
    control.value = "/";
    const options = ["plan", "deep", "quick"].map((label) => ({ insert: label, label, detail: "a command" }));
    control.dispatchEvent(new CustomEvent("af-complete", { detail: { word: "/", options } }));
    return control.nextSibling.getBoundingClientRect().top - control.getBoundingClientRect().top;
}"""


def chat(chromium: Browser, width: int, top: int) -> Page:
    """A page with the scripts and the composer of a chat, at a distance from the top of the window."""
    page = chromium.new_page(viewport={"width": width, "height": 700})
    page.set_content(CHAT.format(style=assets.all_styles(), top=top))
    scripts = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)
    texts = 'const UI_LANGUAGE = "en", UI_TEXTS = {}, UI_STYLE = "";'
    page.evaluate(f"{texts}\n{scripts}\nObject.assign(window, {{ Attention, Completions }}); undefined")
    return page


@pytest.mark.parametrize("width", [1280, 390])
def test_line_about_a_request_covers_no_control(chromium: Browser, width: int) -> None:
    """The line is above the composer, in a wide window and on a phone; without a composer it is at the lower edge."""
    page = chat(chromium, width, 600)
    page.evaluate(WAITS)
    assert page.evaluate(COVERED) == 0
    offset = "parseFloat(document.querySelector('.af-attention').style.bottom)"
    assert 24 < page.evaluate(offset) < 200
    page.evaluate("document.querySelector('.af-live').remove()")
    page.wait_for_function(f"{offset} <= 24")
    page.close()


@pytest.mark.parametrize(("top", "is_below"), [(0, True), (560, False)])
def test_completions_are_inside_of_the_window(chromium: Browser, top: int, *, is_below: bool) -> None:
    """The list is above the field, or below a field at the top of the window."""
    page = chat(chromium, 1280, top)
    assert (page.evaluate(COMPLETE) > 0) == is_below
    box = page.locator(".af-complete").bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= 700 - box["height"]
    page.close()
