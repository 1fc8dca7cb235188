"""The composer of the chat in JupyterLab: size, completions, files, and queued questions."""

import pytest
from browser.axe import axe_in_both_themes
from browser.conftest import OpenPage
from browser.lab import LabPage, LabServer, new_notebook
from browser.pictures import save_pictures
from playwright.sync_api import FilePayload, Locator, expect

pytestmark = pytest.mark.browser

SOON_MS = 20_000
SETUP = """import pathlib
import artifactflow_nb as af

folder = pathlib.Path("seas")
folder.mkdir(exist_ok=True)
(folder / "baltic.md").write_text("# The Baltic\\n\\n## Tide gauges\\n\\n" + "They rise by 3.3 mm a year. " * 20)
(folder / "adriatic.md").write_text("# The Adriatic\\n\\n## Floods of Venice\\n\\n" + "Every autumn. " * 20)
(folder / "north.md").write_text("# The North Sea\\n\\n## Dikes\\n\\n" + "They are raised. " * 20)
long = "\\n\\n".join(f"Paragraph {i} of the answer, and a few words more." for i in range(40))

class Models(af.ScriptedModel):
    async def list_models(self):
        return ["scripted", "large"]

def turn(request):
    question = request.messages[-1].content
    return long * 6 if "all" in question else long if "length" in question else f"An answer to {question!r}."

wb = af.Workbench(model=Models(turn, delay_s=0.03), data_dir="composed",
                  prices={"large": {"input": 1, "output": 1}})
wb.sources.add(folder)"""
SHOW = "wb.chat()"
WIDTHS = (1280, 800, 400)


def open_notebook(lab: LabServer, open_page: OpenPage) -> LabPage:
    page = open_page(new_notebook(lab, SETUP, SHOW))
    page.open()
    for cell in (0, 1):
        page.run_cell(cell)
        page.wait_done(cell)
    expect(composer(page)).to_be_visible(timeout=SOON_MS)
    return page


def live(page: LabPage) -> Locator:
    return page.output(1).locator(".af-run.af-live")


def composer(page: LabPage) -> Locator:
    return live(page).get_by_role("textbox", name="Question")


def test_chat_fits_its_host_at_any_width(lab: LabServer, open_page: OpenPage) -> None:
    """Bar and form are visible at once in a notebook, and in a tab that the chat fills."""
    page = open_notebook(lab, open_page)
    composer(page).fill("Tell me at length.")
    composer(page).press("Enter")
    expect(live(page)).to_contain_text("Paragraph 39", timeout=SOON_MS)
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": 700})
        page.page.wait_for_timeout(400)
        live(page).evaluate("node => node.scrollIntoView()")
        page.page.wait_for_timeout(200)
        expect(live(page).locator(".af-bar")).to_be_in_viewport(ratio=0.9)
        expect(live(page).get_by_role("button", name="Ask", exact=True)).to_be_in_viewport(ratio=0.9)
        save_pictures(page, live(page), f"chat-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 1600})
    page.cells.nth(1).locator(".jp-InputArea-editor").click()
    page.command("notebook:create-output-view")
    tab = page.page.locator(".jp-LinkedOutputView .af-run.af-live")
    expect(tab).to_be_visible(timeout=SOON_MS)
    expect(tab).to_have_attribute("data-fills", "", timeout=SOON_MS)
    page.page.wait_for_timeout(500)
    frame = page.page.locator(".jp-LinkedOutputView").bounding_box()
    box = tab.bounding_box()
    assert frame
    assert box
    assert box["height"] > frame["height"] - 60
    assert box["y"] + box["height"] <= frame["y"] + frame["height"] + 1
    expect(tab.get_by_role("button", name="Ask", exact=True)).to_be_in_viewport()
    save_pictures(page, tab, "chat-tab")
    assert page.errors == []


def test_empty_chat_offers_examples_pickers_and_completions(lab: LabServer, open_page: OpenPage) -> None:
    """Everything works with the keyboard: examples, `@` and `/` with arrow keys, and the pickers; axe finds nothing."""
    page = open_notebook(lab, open_page)
    keyboard = page.page.keyboard
    example = live(page).get_by_role("button", name="What does “The Baltic” say about Tide gauges?")
    expect(live(page).locator(".af-example")).to_have_count(3)
    for width in WIDTHS:
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, live(page), f"chat-empty-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    example.focus()
    keyboard.press("Enter")
    expect(composer(page)).to_have_value("What does “The Baltic” say about Tide gauges?")
    expect(composer(page)).to_be_focused()
    composer(page).fill("")
    keyboard.type("Compare @")
    proposals = live(page).locator(".af-complete-option:visible")
    expect(proposals).to_have_count(3)
    keyboard.type("nor")
    expect(proposals).to_have_count(1)
    save_pictures(page, live(page), "chat-completions")
    assert axe_in_both_themes(page) == []
    composer(page).focus()
    keyboard.type("t")
    expect(proposals).to_have_count(1)
    keyboard.press("Enter")
    expect(composer(page)).to_have_value("Compare local:seas/north.md ")
    expect(proposals).to_have_count(0)
    composer(page).fill("")
    keyboard.type("/")
    expect(proposals).to_have_count(5)
    keyboard.press("ArrowDown")
    expect(live(page).locator(".af-complete [aria-selected=true]")).to_contain_text("/retry")
    keyboard.press("Escape")
    expect(proposals).to_have_count(0)
    keyboard.type("nonsense")
    keyboard.press("Enter")  # also while the options of `/n` are shown
    expect(live(page).locator(".af-field-error:visible")).to_contain_text("There is no command /nonsense")
    keyboard.type("x")
    expect(live(page).locator(".af-field-error:visible").filter(has_text="command")).to_have_count(0)
    live(page).get_by_role("combobox", name="Depth").select_option(label="quick")
    live(page).get_by_role("combobox", name="Model").select_option(label="large")
    composer(page).fill("Why?")
    composer(page).press("Enter")
    expect(live(page).locator(".af-turn")).to_contain_text("An answer to 'Why?'", timeout=SOON_MS)
    expect(live(page).get_by_role("combobox", name="Depth")).to_have_value("0")
    assert page.errors == []


def test_question_waits_and_files_are_attached(lab: LabServer, open_page: OpenPage) -> None:
    """While an answer runs, a second question is queued and Stop is in the composer; files are chosen or dropped."""
    page = open_notebook(lab, open_page)
    composer(page).fill("Tell me all.")
    composer(page).press("Enter")
    stop = live(page).locator(".af-compose").get_by_role("button", name="Stop this run")
    expect(stop).to_be_visible(timeout=SOON_MS)
    composer(page).fill("And then?")
    composer(page).press("Enter")
    expect(live(page).locator(".af-queued")).to_contain_text("And then?")
    for width in (1280, 400):
        page.page.set_viewport_size({"width": width, "height": 900})
        save_pictures(page, live(page), f"chat-queue-{width}")
    page.page.set_viewport_size({"width": 1280, "height": 900})
    assert axe_in_both_themes(page) == []
    stop.focus()
    page.page.keyboard.press("Enter")
    expect(live(page)).to_contain_text("An answer to 'And then?'", timeout=SOON_MS)
    expect(live(page).locator(".af-queued")).to_have_count(0)
    expect(stop).to_have_count(0)
    with page.page.expect_file_chooser() as chooser:
        live(page).get_by_role("button", name="Attach files to the sources").click()
    chooser.value.set_files(FilePayload(name="tides.md", mimeType="text/markdown", buffer=b"# Tides\n\nThey rise."))
    expect(live(page)).to_contain_text("Added tides.md", timeout=SOON_MS)
    drop = """form => {
        const data = new DataTransfer();
        data.items.add(new File(["# Waves\\n\\nThey break."], "waves.md", { type: "text/markdown" }));
        form.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data }));
    }"""
    live(page).locator(".af-composer form").evaluate(drop)
    expect(live(page)).to_contain_text("Added waves.md", timeout=SOON_MS)
    assert page.errors == []


def test_keys_of_the_composer(lab: LabServer, open_page: OpenPage) -> None:
    """Shift+Enter adds a line, ArrowUp in the empty form recalls the last question, a chosen command is carried out."""
    page = open_notebook(lab, open_page)
    keyboard = page.page.keyboard
    composer(page).focus()
    keyboard.type("Why?")
    keyboard.press("Shift+Enter")
    keyboard.type("Say it in a sentence.")
    expect(composer(page)).to_have_value("Why?\nSay it in a sentence.")
    keyboard.press("Enter")
    expect(live(page).locator(".af-turn")).to_contain_text("An answer to", timeout=SOON_MS)
    expect(composer(page)).to_have_value("")
    keyboard.press("ArrowUp")
    expect(composer(page)).to_have_value("Why?\nSay it in a sentence.", timeout=SOON_MS)
    composer(page).fill("")
    keyboard.type("/exp")
    expect(live(page).locator(".af-complete [aria-selected=true]")).to_contain_text("/export")
    keyboard.press("Enter")
    expect(live(page).get_by_role("button", name="Download md")).to_be_visible(timeout=SOON_MS)
    expect(composer(page)).to_have_value("")
    assert page.errors == []
