"""The marks of claims in a real browser: the passage by pointer and by key, themes, forced colours, accessibility."""

from collections.abc import Callable
from typing import Literal

import pytest
from browser.axe import SCRIPT, axe_in_both_themes
from browser.lab import LabPage, LabServer, new_notebook
from playwright.sync_api import Browser, Locator, expect

pytestmark = pytest.mark.browser

CELLS = [
    """from pathlib import Path
import artifactflow_nb as af

Path("notes").mkdir(exist_ok=True)
Path("notes/survey.md").write_text("# Survey\\n\\nThe survey took 9,340 casts in 2021. The sea is cold.\\n")
text = "The survey took **9,430 casts** in 2021 [1]. The sea is cold [1].\\n\\n## Sources\\n\\n"
text += "1. Survey: local:notes/survey.md#survey\\n"
turns = [
    af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Read the survey."}),
    af.ToolCall("web_fetch", {"urls": ["local:notes/survey.md#survey"]}),
    "It is read.",
    af.ToolCall("create_artifact", {"id": "report", "title": "Survey", "content": text}),
    "See the report.",
]
wb = af.Workbench(model=af.ScriptedModel(turns), approvals="approve")
wb.sources.add("notes")
run = await wb.ask("How many casts were there?")
page = run.artifacts["report"].to_html("report.html")""",
    "run.artifacts['report']",
    "wb.artifact_panel(run)",
]


def check_sign(root: Locator) -> None:
    """The sign of the wrong sentence shows the passage by pointer and by key, and its name has status and reason."""
    sign = root.get_by_role("button", name="Contradicted: 9,340 there, not 9,430.")
    expect(sign).to_have_text("✗ 9,340 there")
    passage = sign.locator("xpath=following-sibling::*[1]")
    expect(passage).to_be_hidden()
    sign.hover()
    expect(passage).to_contain_text("The survey took 9,340 casts in 2021.")
    expect(passage).to_be_visible()
    sign.page.mouse.move(0, 0)
    expect(passage).to_be_hidden()
    sign.focus()
    expect(passage).to_be_visible()
    sign.blur()
    line = root.locator(".af-said-contradicted", has_text="9,430 casts").first
    assert "wavy" in line.evaluate(
        "node => getComputedStyle(node).textDecorationLine + getComputedStyle(node).textDecorationStyle"
    )


def test_marks_in_outputs_panels_and_exported_pages(
    lab: LabServer, open_page: Callable[[str], LabPage], chromium: Browser
) -> None:
    name = new_notebook(lab, *CELLS)
    page = open_page(name)
    page.open()
    for number in range(len(CELLS)):
        page.run_cell(number)
    for number in (1, 2):
        expect(page.output(number).locator(".af-sign").first).to_be_visible(timeout=20_000)
        expect(page.output(number)).to_contain_text("2 claims: ✓ 1 supported, ✗ 1 contradicted")
        check_sign(page.output(number))
    assert axe_in_both_themes(page) == []
    assert page.errors == []
    exported = (lab.root / name).with_name("report.html")
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        context = chromium.new_context(color_scheme=scheme, bypass_csp=True)
        window = context.new_page()
        window.goto(exported.as_uri())
        check_sign(window.locator("main"))
        window.add_script_tag(path=SCRIPT)
        assert window.evaluate("async () => (await axe.run('main')).violations.map((each) => each.id)") == []
        context.close()
